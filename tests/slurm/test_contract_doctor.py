"""The doctor on each back end: what it says of a cluster that is well, as root, and that it changes nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery.doctor import Group, Result, State, examine_cluster
from recovery.doctor.calls import WORDS
from recovery.pipeline.poll import poll_cluster
from recovery.slurm.base import READS, Operation
from tests.factories import make_cluster
from tests.slurm.contract import running
from tests.slurm.harness import Harness


def examined(harness: Harness) -> dict[str, Result]:
    """By what each result is of; the groups that look at files are this machine's affair."""
    cluster = make_cluster(name="lab", next_look_at=harness.now() + timedelta(hours=1))
    assert poll_cluster(cluster, client=harness.client, now=harness.now()).observed
    results = examine_cluster(cluster, client_for=lambda _: harness.client, clock=harness.now)
    return {result.what: result for result in results if result.group in (Group.CONTROLLER, Group.CALLS)}


@pytest.mark.django_db
def test_the_doctor_finds_a_healthy_cluster_well_and_leaves_it_as_it_was(accounted: Harness) -> None:
    job = running(accounted)
    told = examined(accounted)
    assert [(result.what, result.detail) for result in told.values() if result.state is State.BROKEN] == []
    assert told["reachable"].state is State.GOOD
    assert accounted.client.health().release in told["release"].detail
    assert accounted.client.job(job.job_id) == job
    assert not any(accounted.node_truth(node.name).drained for node in accounted.client.nodes())


@pytest.mark.django_db
def test_the_doctor_has_tried_each_read_and_says_what_each_back_end_has_not(accounted: Harness) -> None:
    running(accounted)
    told = examined(accounted)
    for operation in Operation:
        result = told[WORDS[operation]]
        if not accounted.client.can(operation):
            assert (result.state, bool(result.remedy)) == (State.ATTENTION, True), operation
        elif operation in READS:
            assert result.state is State.GOOD, (operation, result.detail)
