"""A real Slurm in trouble: what is not seen is said so, and afterwards everything is as it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recovery.core.types import JobState, NodeState
from recovery.demo.lab import SlurmLab
from recovery.demo.processes import wait_until
from recovery.slurm.base import SlurmUnreachable
from recovery.slurm.cli import CliClient
from tests.slurm.contract import running, wait_for
from tests.slurm.lab_harness import LabHarness

pytestmark = [pytest.mark.slurm]


@pytest.fixture
def harness(slurm_lab: SlurmLab, slurm_client: CliClient, tmp_path: Path) -> Iterator[LabHarness]:
    opened = LabHarness(slurm_lab, slurm_client, tmp_path)
    yield opened
    opened.close()


def test_a_controller_that_restarts_is_no_observation_and_forgets_nothing(
    slurm_lab: SlurmLab, slurm_client: CliClient, harness: LabHarness
) -> None:
    job = running(harness)
    started, state = time.time(), slurm_lab.root / "state" / "job_state"
    slurm_client.set_admin_comment(job.job_id, "to be written down")  # what it hasn't written yet it forgets
    assert wait_until(lambda: state.exists() and state.stat().st_mtime > started, timeout_s=30)
    slurm_lab.kill_controller()
    calls: list[Callable[[], object]] = [
        slurm_client.jobs,  # each takes two seconds: that long Slurm's commands try
        lambda: slurm_client.job(job.job_id),
        lambda: slurm_client.requeue(job.job_id, hold=True),
    ]
    try:
        for call in calls:
            with pytest.raises(SlurmUnreachable) as caught:
                call()
            assert not caught.value.permanent
    finally:
        slurm_lab.start_controller()
    assert wait_for(harness, job.job_id, JobState.RUNNING).submitted_at == job.submitted_at


@pytest.mark.accounting
def test_accounting_that_is_down_is_no_history_without_attempts(
    slurm_lab: SlurmLab, slurm_client: CliClient, harness: LabHarness
) -> None:
    job = running(harness)
    slurm_lab.kill_accounting()
    try:
        with pytest.raises(SlurmUnreachable):
            slurm_client.attempts([job.job_id], since=job.submitted_at)
        assert slurm_client.job(job.job_id).state is JobState.RUNNING
        assert slurm_client.health().accounting  # there is one, it is only silent
    finally:
        slurm_lab.start_accounting()
    assert wait_until(lambda: bool(slurm_client.attempts([job.job_id], since=job.submitted_at)), timeout_s=20)


def test_half_the_nodes_gone_silent_are_down_and_the_other_half_is_not(
    slurm_lab: SlurmLab, slurm_client: CliClient, harness: LabHarness
) -> None:
    silent, others = slurm_lab.node_names[:2], slurm_lab.node_names[2:]
    for name in silent:
        slurm_lab.kill_node(name)

    def down() -> set[str]:
        return {node.name for node in slurm_client.nodes() if node.state is NodeState.DOWN}

    try:
        assert wait_until(lambda: down() == set(silent), timeout_s=40)
        assert {node.state for node in slurm_client.nodes() if node.name in others} == {NodeState.UP}
    finally:
        for name in silent:
            slurm_lab.start_node(name)
