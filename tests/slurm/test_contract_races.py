"""Somebody else acts between our look and our call: the call says what is, and overrides nothing."""

from __future__ import annotations

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import HELD_BY_REQUEUE, JobNotFound, Operation, SlurmRefused
from tests.slurm.contract import JOB_CALLS, needs, running, truth_becomes, wait_for, waiting
from tests.slurm.harness import Harness, wait_until

LATE = (Operation.SET_EXCLUDED_NODES, Operation.HOLD, Operation.CANCEL, Operation.SET_TIME_LIMIT)


@needs(*LATE)
def test_a_job_that_its_user_cancelled_meanwhile_is_left_alone(harness: Harness) -> None:
    job = running(harness)
    harness.cancel(job.job_id)
    truth_becomes(harness, job.job_id, "CANCELLED")
    wait_for(harness, job.job_id, JobState.CANCELLED)
    for operation in LATE:
        with pytest.raises(SlurmRefused) as caught:
            JOB_CALLS[operation](harness.client, job.job_id)
        assert not isinstance(caught.value, JobNotFound)
    assert harness.client.job(job.job_id).state is JobState.CANCELLED


@needs(Operation.REQUEUE, Operation.REQUEUE_HOLD)
def test_a_job_that_an_administrator_requeued_meanwhile_is_not_requeued_again(harness: Harness) -> None:
    job = running(harness)
    harness.admin_requeue(job.job_id)
    truth_becomes(harness, job.job_id, "PENDING")
    for hold in (False, True):
        with pytest.raises(SlurmRefused):
            harness.client.requeue(job.job_id, hold=hold)
    truth = harness.job_truth(job.job_id)
    assert truth is not None
    assert (truth.restart_count, truth.held) == (1, False)


@needs(Operation.REQUEUE_HOLD)
def test_an_administrators_hold_on_top_of_ours_shows_as_theirs(harness: Harness) -> None:
    job = running(harness)
    harness.client.requeue(job.job_id, hold=True)
    ours = wait_for(harness, job.job_id, JobState.PENDING, restarts=1)
    assert ours.state_reason == HELD_BY_REQUEUE
    harness.admin_hold(job.job_id)
    assert harness.client.job(job.job_id).state_reason == "JobHeldAdmin"
    harness.admin_release(job.job_id)
    assert not harness.client.job(job.job_id).held


def test_a_users_hold_shows_as_theirs(harness: Harness) -> None:
    job_id = waiting(harness)
    harness.user_hold(job_id)
    held = harness.client.job(job_id)
    assert (held.held, held.state_reason) == (True, "JobHeldUser")


@needs(Operation.SET_TIME_LIMIT, Operation.SET_EXCLUDED_NODES)
def test_a_job_that_ended_meanwhile_is_refused(harness: Harness) -> None:
    job = wait_for(harness, harness.submit(seconds=0.5), JobState.COMPLETED)
    for operation in (Operation.SET_TIME_LIMIT, Operation.SET_EXCLUDED_NODES):
        with pytest.raises(SlurmRefused) as caught:
            JOB_CALLS[operation](harness.client, job.job_id)
        assert not isinstance(caught.value, JobNotFound)


@needs(Operation.DRAIN_NODE)
def test_a_node_that_an_administrator_drained_meanwhile_keeps_their_reason(harness: Harness) -> None:
    name = harness.client.nodes()[0].name
    harness.admin_drain(name, "theirs: swap the PSU")
    with pytest.raises(SlurmRefused):
        harness.client.drain_node(name, "ours")
    assert harness.node_truth(name).reason == "theirs: swap the PSU"
    harness.admin_resume(name)


@needs(Operation.REQUEUE_HOLD, Operation.RELEASE)
def test_a_job_that_is_cancelled_while_we_hold_it_does_not_come_back(harness: Harness) -> None:
    job = running(harness)
    harness.client.requeue(job.job_id, hold=True)
    wait_for(harness, job.job_id, JobState.PENDING, restarts=1)
    harness.cancel(job.job_id)
    truth_becomes(harness, job.job_id, "CANCELLED")
    with pytest.raises(SlurmRefused):
        harness.client.release(job.job_id)
    wait_until(harness, lambda: harness.client.job(job.job_id).state is JobState.CANCELLED)
