"""What every back end promises (recovery/slurm/base.py), tried on each: a real Slurm by its commands, the simulator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import (
    HELD_BY_REQUEUE,
    AttemptRecord,
    JobNotFound,
    JobRecord,
    Operation,
    SlurmRefused,
)
from tests.slurm.contract import JOB_CALLS, LONG_S, UNKNOWN_JOB, assert_denied, needs, running, wait_for
from tests.slurm.harness import Harness, wait_until

# --- reads -----------------------------------------------------------------------------------------------------------


def test_health_names_the_release_and_what_a_requeue_waits(harness: Harness) -> None:
    health = harness.client.health()
    assert health.release
    assert health.requeue_delay_s > 0
    assert health.latency_s >= 0


def test_nodes_are_up_and_in_a_partition(harness: Harness) -> None:
    nodes = harness.client.nodes()
    assert len(nodes) >= 3
    assert len({node.name for node in nodes}) == len(nodes)
    assert {node.state for node in nodes} == {NodeState.UP}
    assert all(node.partitions and node.raw_state for node in nodes)


def test_a_running_job_is_described_whole(harness: Harness) -> None:
    comment = '{"recovery": {"run": "llama"}}'
    before = harness.now() - timedelta(seconds=2)  # Slurm counts in whole seconds
    job = running(harness, nodes=2, name="llama-70b", comment=comment, stdout="%x-%j.log")
    assert (job.name, job.user, job.comment, job.restart_count) == ("llama-70b", harness.user, comment, 0)
    assert (len(job.nodes), job.node_count, job.excluded_nodes) == (2, 2, ())
    assert (job.requeueable, job.held, job.state_reason) == (True, False, "")
    assert (job.exit_code, job.exit_signal, job.ended_at) == (None, None, None)
    assert job.stdout == f"{job.work_dir}/llama-70b-{job.job_id}.log"
    assert job.started_at is not None
    assert before <= job.submitted_at <= job.started_at <= harness.now()
    assert job.submitted_at.utcoffset() == timedelta(0)


def test_a_job_that_names_no_file_still_has_one(harness: Harness) -> None:
    job = running(harness)
    assert Path(job.stdout).is_absolute()
    assert job.job_id in job.stdout


def test_the_list_and_the_single_look_say_the_same(harness: Harness) -> None:
    job = running(harness)
    assert [found for found in harness.client.jobs() if found.job_id == job.job_id] == [harness.client.job(job.job_id)]


@pytest.mark.parametrize(
    ("exit_code", "state"), [(0, JobState.COMPLETED), (7, JobState.FAILED), (137, JobState.FAILED)]
)
def test_an_ended_job_stays_known_with_its_exit_code(harness: Harness, exit_code: int, state: JobState) -> None:
    job = wait_for(harness, harness.submit(seconds=1, exit_code=exit_code), state)
    assert (job.exit_code, job.exit_signal) == (exit_code, None)
    assert job.started_at is not None
    assert job.ended_at is not None
    assert job.started_at <= job.ended_at
    assert job.job_id in {found.job_id for found in harness.client.jobs()}


def test_a_job_that_waits_for_nodes_is_pending_without_any(harness: Harness) -> None:
    all_nodes = len(harness.client.nodes())
    running(harness, nodes=all_nodes)
    waiting = harness.submit(seconds=1)
    harness.advance(2)
    job = harness.client.job(waiting)
    assert (job.state, job.nodes, job.started_at, job.ended_at) == (JobState.PENDING, (), None, None)
    assert job.state_reason


def test_a_cancelled_job_is_cancelled(harness: Harness) -> None:
    job = running(harness)
    harness.cancel(job.job_id)
    wait_for(harness, job.job_id, JobState.CANCELLED)


# --- unknown and hostile ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("job_id", [UNKNOWN_JOB, "all", "-1", "1,2", ""])
def test_what_is_no_known_job_is_not_found(harness: Harness, job_id: str) -> None:
    for operation, call in JOB_CALLS.items():
        if not harness.client.can(operation):
            assert_denied(harness.client, operation)
            continue
        with pytest.raises(JobNotFound) as caught:
            call(harness.client, job_id)
        assert caught.value.permanent
        assert caught.value.tried


# --- requeue ---------------------------------------------------------------------------------------------------------


@needs(Operation.REQUEUE)
def test_a_requeued_job_is_the_same_job_in_a_new_attempt(harness: Harness) -> None:
    first = running(harness)
    harness.advance(1.5)  # a submit time in whole seconds must be able to move
    harness.client.requeue(first.job_id, hold=False)
    waiting = wait_for(harness, first.job_id, JobState.PENDING, restarts=1)
    assert (waiting.nodes, waiting.started_at, waiting.held) == ((), None, False)
    again = wait_for(harness, first.job_id, JobState.RUNNING, restarts=1)
    assert (again.name, again.user) == (first.name, first.user)
    assert again.submitted_at > first.submitted_at
    assert again.unique_id == waiting.unique_id
    assert not first.unique_id or again.unique_id not in ("", first.unique_id)  # Slurm's own is of one execution
    assert again.started_at is not None
    assert again.started_at - again.submitted_at >= timedelta(seconds=harness.client.health().requeue_delay_s - 2)


@needs(Operation.REQUEUE)
def test_a_failed_job_can_be_requeued(harness: Harness) -> None:
    job = wait_for(harness, harness.submit(seconds=1, exit_code=3), JobState.FAILED)
    harness.client.requeue(job.job_id, hold=False)
    waiting = wait_for(harness, job.job_id, JobState.PENDING, restarts=1)
    assert (waiting.exit_code, waiting.ended_at) == (None, None)


@pytest.mark.parametrize("hold", [False, True])
@needs(Operation.REQUEUE, Operation.REQUEUE_HOLD)
def test_a_pending_job_is_not_requeued_again(harness: Harness, hold: bool) -> None:
    job = running(harness)
    harness.client.requeue(job.job_id, hold=True)
    wait_for(harness, job.job_id, JobState.PENDING, restarts=1)
    with pytest.raises(SlurmRefused) as caught:
        harness.client.requeue(job.job_id, hold=hold)
    assert not isinstance(caught.value, JobNotFound)
    assert harness.client.job(job.job_id).restart_count == 1


@needs(Operation.REQUEUE)
def test_a_job_that_must_not_be_requeued_is_not(harness: Harness) -> None:
    job = running(harness, requeue=False)
    assert not job.requeueable
    with pytest.raises(SlurmRefused):
        harness.client.requeue(job.job_id, hold=False)
    assert harness.client.job(job.job_id).state is JobState.RUNNING


@needs(Operation.REQUEUE_HOLD, Operation.SET_EXCLUDED_NODES, Operation.RELEASE)
def test_a_held_requeue_waits_until_it_is_released_and_then_avoids_the_excluded_node(harness: Harness) -> None:
    first = running(harness, nodes=1)
    harness.client.requeue(first.job_id, hold=True)
    held = wait_for(harness, first.job_id, JobState.PENDING, restarts=1)
    assert (held.held, held.state_reason) == (True, HELD_BY_REQUEUE)
    harness.client.set_excluded_nodes(first.job_id, first.nodes)
    assert harness.client.job(first.job_id).excluded_nodes == first.nodes
    harness.advance(harness.client.health().requeue_delay_s + 2)
    assert harness.client.job(first.job_id).state is JobState.PENDING
    harness.client.release(first.job_id)
    assert not harness.client.job(first.job_id).held
    again = wait_for(harness, first.job_id, JobState.RUNNING, restarts=1)
    assert not set(again.nodes) & set(first.nodes)
    assert again.excluded_nodes == first.nodes


@needs(Operation.REQUEUE_HOLD, Operation.SET_EXCLUDED_NODES)
def test_excluding_replaces_the_list_and_nothing_clears_it(harness: Harness) -> None:
    job = running(harness)
    harness.client.requeue(job.job_id, hold=True)
    wait_for(harness, job.job_id, JobState.PENDING, restarts=1)
    one, two = (node.name for node in harness.client.nodes()[:2])
    for names in ((one, two), (two,), ()):
        harness.client.set_excluded_nodes(job.job_id, names)
        assert harness.client.job(job.job_id).excluded_nodes == names


@needs(Operation.REQUEUE_HOLD, Operation.RELEASE)
def test_releasing_twice_is_no_error(harness: Harness) -> None:
    job = running(harness)
    harness.client.requeue(job.job_id, hold=True)
    wait_for(harness, job.job_id, JobState.PENDING, restarts=1)
    harness.client.release(job.job_id)
    harness.client.release(job.job_id)
    assert not harness.client.job(job.job_id).held


@needs(Operation.SET_EXCLUDED_NODES)
def test_a_running_jobs_excluded_nodes_can_not_be_changed(harness: Harness) -> None:
    job = running(harness)
    with pytest.raises(SlurmRefused):
        harness.client.set_excluded_nodes(job.job_id, job.nodes)
    assert harness.client.job(job.job_id).excluded_nodes == ()


@pytest.mark.parametrize("name", ["no-such-node", "n1 n2", "", "-n"])
@needs(Operation.REQUEUE_HOLD, Operation.SET_EXCLUDED_NODES)
def test_a_node_that_there_is_not_can_not_be_excluded(harness: Harness, name: str) -> None:
    job = running(harness)
    harness.client.requeue(job.job_id, hold=True)
    wait_for(harness, job.job_id, JobState.PENDING, restarts=1)
    with pytest.raises(SlurmRefused):
        harness.client.set_excluded_nodes(job.job_id, (name,))
    assert harness.client.job(job.job_id).excluded_nodes == ()


@needs(Operation.REQUEUE, Operation.REQUEUE_HOLD, Operation.SET_EXCLUDED_NODES, Operation.RELEASE)
def test_a_preview_names_job_and_nodes_and_does_nothing(harness: Harness) -> None:
    job = running(harness)
    for operation in (Operation.REQUEUE, Operation.REQUEUE_HOLD, Operation.SET_EXCLUDED_NODES, Operation.RELEASE):
        assert job.job_id in harness.client.preview(operation, job.job_id, nodes=job.nodes)
    assert job.nodes[0] in harness.client.preview(Operation.SET_EXCLUDED_NODES, job.job_id, nodes=job.nodes)
    assert harness.client.job(job.job_id) == job


# --- node failures ---------------------------------------------------------------------------------------------------


def test_a_lost_node_is_down_and_slurm_itself_requeues_its_job(harness: Harness) -> None:
    job = running(harness, nodes=2)
    harness.fail_node(job.nodes[0])
    wait_for(harness, job.job_id, JobState.PENDING, restarts=1)
    (node,) = [node for node in harness.client.nodes() if node.name == job.nodes[0]]
    assert node.state is NodeState.DOWN
    assert node.reason
    again = wait_for(harness, job.job_id, JobState.RUNNING, restarts=1)
    assert job.nodes[0] not in again.nodes


def test_a_lost_node_ends_a_job_that_must_not_be_requeued(harness: Harness) -> None:
    job = running(harness, requeue=False)
    harness.fail_node(job.nodes[0])
    ended = wait_for(harness, job.job_id, JobState.NODE_FAIL)
    assert ended.restart_count == 0


# --- accounting ------------------------------------------------------------------------------------------------------


def attempts_until(
    harness: Harness, job: JobRecord, seen: Callable[[list[AttemptRecord]], bool]
) -> list[AttemptRecord]:
    """Accounting lags behind the controller: asked until it shows what is known to have happened."""

    def look() -> list[AttemptRecord]:
        found = harness.client.attempts([job.job_id], since=job.submitted_at).get(job.job_id, [])
        return found if seen(found) else []

    return wait_until(harness, look)


def test_accounting_is_offered_where_there_is_some(accounted: Harness) -> None:
    """Where the cluster keeps accounts that the back end can't read, none are offered."""
    assert accounted.client.health().accounting == bool(accounted.client.can(Operation.ATTEMPTS))


@needs(Operation.ATTEMPTS, Operation.REQUEUE)
def test_attempts_are_numbered_by_their_submission_and_keep_their_ends(accounted: Harness) -> None:
    first = wait_for(accounted, accounted.submit(seconds=1, exit_code=7), JobState.FAILED)
    accounted.client.requeue(first.job_id, hold=False)
    wait_for(accounted, first.job_id, JobState.FAILED, restarts=1)
    found = attempts_until(accounted, first, lambda all_: [a.exit_code for a in all_] == [7, 7])
    assert [attempt.number for attempt in found] == [0, 1]
    assert [attempt.state for attempt in found] == [JobState.FAILED, JobState.FAILED]
    assert found[0].nodes == first.nodes
    assert found[0].submitted_at == first.submitted_at < found[1].submitted_at
    assert all(attempt.started_at and attempt.ended_at for attempt in found)


@needs(Operation.ATTEMPTS, Operation.REQUEUE_HOLD)
def test_an_attempt_that_was_put_back_reads_requeued(accounted: Harness) -> None:
    job = running(accounted)
    accounted.client.requeue(job.job_id, hold=True)
    wait_for(accounted, job.job_id, JobState.PENDING, restarts=1)
    found = attempts_until(accounted, job, lambda all_: bool(all_) and all_[0].state.is_terminal)
    assert found[0].state is JobState.REQUEUED
    assert found[0].cancelled_by == ""


@needs(Operation.ATTEMPTS)
def test_an_attempt_that_lost_a_node_reads_node_fail(accounted: Harness) -> None:
    job = running(accounted, nodes=2)
    accounted.fail_node(job.nodes[1])
    found = attempts_until(accounted, job, lambda all_: bool(all_) and all_[0].state.is_terminal)
    assert found[0].state is JobState.NODE_FAIL
    assert job.nodes[0] in found[0].nodes  # the lost one may be missing


@needs(Operation.ATTEMPTS)
def test_an_attempt_that_was_cancelled_says_by_whom(accounted: Harness) -> None:
    job = running(accounted)
    accounted.cancel(job.job_id)
    wait_for(accounted, job.job_id, JobState.CANCELLED)
    (attempt,) = attempts_until(accounted, job, lambda all_: bool(all_) and all_[0].state.is_terminal)
    assert (attempt.state, attempt.cancelled_by) == (JobState.CANCELLED, accounted.user)


@needs(Operation.ATTEMPTS)
def test_accounting_knows_nothing_of_an_unknown_job(accounted: Harness) -> None:
    assert accounted.client.attempts([UNKNOWN_JOB], since=accounted.now() - timedelta(days=1)) == {}


def ended_until(harness: Harness, start: datetime, count: int) -> list[JobRecord]:
    """What accounting knows of what ended since `start`, asked until it is so many.

    slurmdbd calls a job "allocation" whose end came to it before its start, until that comes as well.
    """

    def look() -> list[JobRecord]:
        found = harness.client.ended_between(start, harness.now() + timedelta(seconds=2))
        return found if len(found) >= count and all(record.name != "allocation" for record in found) else []

    return wait_until(harness, look)


@needs(Operation.ENDED_BETWEEN)
def test_what_ended_is_told_without_its_id(accounted: Harness) -> None:
    comment = '{"recovery": {"run": "llama"}}'
    start = accounted.now()
    accounted.advance(1)
    good = accounted.submit(seconds=1)
    bad = accounted.submit(seconds=1, nodes=2, exit_code=7, name="llama-70b", comment=comment)
    running(accounted)
    seen = wait_for(accounted, bad, JobState.FAILED)
    found = {record.job_id: record for record in ended_until(accounted, start, 2)}
    assert set(found) == {good, bad}
    told = found[bad]
    assert (told.state, told.exit_code, told.exit_signal) == (JobState.FAILED, 7, None)
    assert (told.name, told.user, told.comment, told.restart_count) == ("llama-70b", accounted.user, comment, 0)
    same = ("submitted_at", "started_at", "ended_at", "nodes", "node_count", "account", "partition", "qos", "work_dir")
    assert [getattr(told, name) for name in same] == [getattr(seen, name) for name in same]
    assert (told.gpus, told.time_limit_s) == (seen.gpus, seen.time_limit_s)
    assert told.stdout in ("", seen.stdout)  # 22.05 keeps no paths


@needs(Operation.ENDED_BETWEEN)
def test_what_ended_before_or_later_is_not_told(accounted: Harness) -> None:
    start = accounted.now()
    accounted.advance(1)
    first = accounted.submit(seconds=1)
    (record,) = ended_until(accounted, start, 1)
    assert (record.job_id, record.ended_at is not None) == (first, True)
    between = record.ended_at or start
    accounted.advance(3)
    second = accounted.submit(seconds=1)
    ended_until(accounted, start, 2)
    later = accounted.client.ended_between(between + timedelta(seconds=1), accounted.now() + timedelta(seconds=2))
    assert [record.job_id for record in later] == [second]
    earlier = accounted.client.ended_between(start, between + timedelta(seconds=1))
    assert [record.job_id for record in earlier] == [first]


@needs(Operation.ENDED_BETWEEN, Operation.REQUEUE)
def test_each_execution_that_ended_is_told(accounted: Harness) -> None:
    start = accounted.now()
    accounted.advance(1)
    first = wait_for(accounted, accounted.submit(seconds=1, exit_code=7), JobState.FAILED)
    accounted.client.requeue(first.job_id, hold=False)
    last = wait_for(accounted, first.job_id, JobState.FAILED, restarts=1)
    found = ended_until(accounted, start, 2)
    assert [(record.job_id, record.restart_count) for record in found] == [(first.job_id, 0), (first.job_id, 1)]
    assert [record.submitted_at for record in found] == [first.submitted_at, last.submitted_at]
    assert [record.exit_code for record in found] == [7, 7]
    assert found[0].state in (JobState.FAILED, JobState.REQUEUED)  # without its steps 22.05 knows no better
    assert found[1].state is JobState.FAILED


@needs(Operation.ENDED_BETWEEN)
def test_tasks_of_an_array_are_told_by_their_names_and_what_never_was_a_job_is_not(accounted: Harness) -> None:
    start = accounted.now()
    accounted.advance(1)
    tasks = accounted.submit_array(tasks=2, seconds=1)
    assert {record.job_id for record in ended_until(accounted, start, 2)} == set(tasks)


# --- partitions, reservations, scripts, rights ----------------------------------------------------------------------


@needs(Operation.PARTITIONS)
def test_the_default_partition_is_up_and_holds_all_nodes(harness: Harness) -> None:
    partitions = harness.client.partitions()
    (default,) = [partition for partition in partitions if partition.default] or partitions  # v0.0.40 … 44 name none
    assert default.up
    assert set(default.nodes) == {node.name for node in harness.client.nodes()}
    assert all(default.name in node.partitions for node in harness.client.nodes())


@needs(Operation.RESERVATIONS)
def test_nodes_that_are_set_aside_are_in_a_reservation(harness: Harness) -> None:
    assert harness.client.reservations() == []
    names = tuple(node.name for node in harness.client.nodes())
    harness.reserve("swap_psu", names[:2], maintenance=True)
    (found,) = harness.client.reservations()
    assert (found.name, found.nodes, found.maintenance) == ("swap_psu", names[:2], True)
    assert found.users == (harness.user,)
    assert found.starts_at - timedelta(seconds=2) <= harness.now() < found.ends_at


@needs(Operation.TOPOLOGY)
def test_the_switch_that_each_node_hangs_on_is_told(harness: Harness) -> None:
    nodes = harness.client.nodes()
    truth = {node.name: harness.switch_of(node.name) for node in nodes}
    assert len(set(truth.values())) > 1
    assert harness.client.topology() == truth
    assert all(node.switch in (None, truth[node.name]) for node in nodes)


@needs(Operation.BATCH_SCRIPT)
def test_the_script_that_a_job_was_submitted_with_is_read_as_it_was(harness: Harness) -> None:
    job = running(harness)
    script = harness.client.batch_script(job.job_id)
    assert script.startswith("#!")
    assert script == harness.script_of(job.job_id)


def test_rights_are_told_with_how_they_are_known(harness: Harness) -> None:
    rights = harness.client.rights()
    assert rights.user
    assert rights.how


def test_what_has_not_changed_is_not_told_again(harness: Harness) -> None:
    job = running(harness)
    first = harness.client.jobs_since("")
    assert first.jobs is not None
    assert job.job_id in {found.job_id for found in first.jobs}
    second = harness.client.jobs_since(first.mark)
    assert second.jobs is None or second.jobs == first.jobs
    harness.cancel(job.job_id)
    wait_for(harness, job.job_id, JobState.CANCELLED)
    third = harness.client.jobs_since(first.mark)
    assert third.jobs is not None
    assert {found.state for found in third.jobs if found.job_id == job.job_id} == {JobState.CANCELLED}


def test_a_mark_of_nobody_is_no_mark(harness: Harness) -> None:
    job = running(harness)
    found = harness.client.jobs_since("from another world").jobs
    assert found is not None
    assert job.job_id in {record.job_id for record in found}


# --- arrays and heterogeneous jobs ----------------------------------------------------------------------------------


@needs(Operation.REQUEUE_HOLD)
def test_each_task_of_an_array_is_a_job_of_its_own(harness: Harness) -> None:
    first, second = tasks = harness.submit_array(tasks=2, seconds=LONG_S)
    records = [wait_for(harness, task, JobState.RUNNING) for task in tasks]
    assert [record.job_id for record in records] == tasks
    assert len({record.stdout for record in records}) == 2
    assert set(tasks) <= {record.job_id for record in harness.client.jobs()}
    harness.client.requeue(second, hold=True)
    wait_for(harness, second, JobState.PENDING, restarts=1)
    assert harness.client.job(first).state is JobState.RUNNING


def test_each_component_of_a_heterogeneous_job_is_a_job_of_its_own(harness: Harness) -> None:
    components = harness.submit_het(components=2, seconds=LONG_S)
    records = [wait_for(harness, component, JobState.RUNNING) for component in components]
    assert [record.job_id for record in records] == components
    assert len({record.nodes for record in records}) == len(components)
    if components and harness.client.can(Operation.REQUEUE):
        with pytest.raises(SlurmRefused):
            harness.client.requeue(components[1], hold=False)
        assert harness.client.job(components[0]).state is JobState.RUNNING
