"""The whole path on the simulated cluster, in virtual time: each fault as it looks in logs, states and checkpoints."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from recovery.access import actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.types import ActionKind, FailureClass, FindingKind, JobState, Outcome
from recovery.models import Attempt, Incident
from recovery.pipeline import by_hand
from recovery.slurm.simulator import (
    Fault,
    FaultKind,
)
from tests.pipeline.sim_desk import RHYTHM, SimDesk, make_policy


@pytest.fixture
def sim(db: None, tmp_path: Path, settings: Settings) -> SimDesk:
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    for name, value in RHYTHM.items():
        setattr(settings, name, value)
    make_policy(
        {"name": "node", "classes": ["node_fault"], "mode": "auto"},
        {"name": "rest", "classes": "*", "mode": "approve"},
    )
    return SimDesk(tmp_path)


def test_a_job_without_a_fault_opens_no_case(sim: SimDesk) -> None:
    sim.submit(total_steps=100)
    sim.run(180)
    attempt = Attempt.objects.get()
    assert attempt.state == JobState.COMPLETED
    assert attempt.closed_at is not None
    assert attempt.last_step == 100
    assert not Incident.objects.exists()


def test_a_job_that_starts_and_dies_between_two_polls_opens_a_case(sim: SimDesk) -> None:
    sim.now += timedelta(seconds=0.6)
    sim.run(2)
    job = sim.submit(Fault(kind=FaultKind.EXIT), name="short", startup_s=0, load_s=0, warm_up_s=0, step_time_s=0.05)
    while sim.client.job(job).state is not JobState.FAILED:
        sim.now += timedelta(seconds=0.5)
        sim.world.advance()
    assert not Attempt.objects.exists()
    sim.run_until(Incident.objects.exists, within=30)
    assert sim.incident.kind == FindingKind.CRASH


@pytest.mark.parametrize(
    ("kind", "failure_class"),
    [(FaultKind.ECC, FailureClass.GPU_HARDWARE), (FaultKind.XID79, FailureClass.GPU_HARDWARE)],
)
def test_a_gpu_fault_is_recovered_on_other_nodes(
    sim: SimDesk, approver: User, kind: FaultKind, failure_class: FailureClass
) -> None:
    job = sim.submit(Fault(kind=kind, step=33, rank=9))
    sim.run_until(sim.in_state(IncidentState.AWAITING_DECISION))
    assert sim.incident.failure_class == failure_class
    assert sim.recommendation.exclude_nodes == ["gpu-02"]
    assert sim.recommendation.restore_step == 20
    sim.approve(approver)
    sim.run_until(sim.in_state(IncidentState.CLOSED))
    assert sim.incident.outcome == Outcome.RECOVERED
    assert sim.incident.restored_step == 20
    assert sim.incident.next_checkpoint_step == 40
    record = sim.client.job(job)
    assert record.restart_count == 1
    assert "gpu-02" not in record.nodes


def test_a_node_that_goes_down_is_followed_to_the_next_checkpoint_without_a_click(sim: SimDesk) -> None:
    sim.submit(Fault(kind=FaultKind.NODE_DOWN, step=33, rank=9))
    sim.run_until(sim.in_state(IncidentState.CLOSED), within=400)
    assert sim.incident.failure_class == FailureClass.NODE_FAULT
    assert sim.incident.outcome == Outcome.RECOVERED


def test_a_hang_is_found_and_recovered(sim: SimDesk, approver: User) -> None:
    sim.submit(Fault(kind=FaultKind.HANG, step=33))
    sim.run_until(sim.in_state(IncidentState.AWAITING_DECISION))
    assert sim.incident.kind == FindingKind.HANG
    assert sim.recommendation.action == ActionKind.REQUEUE
    sim.approve(approver)
    sim.run_until(sim.in_state(IncidentState.CLOSED))
    assert sim.incident.outcome == Outcome.RECOVERED
    assert Incident.objects.count() == 1


@pytest.mark.parametrize(
    ("kind", "failure_class"),
    [
        (FaultKind.TRACEBACK, FailureClass.USER_CODE),
        (FaultKind.GPU_OOM, FailureClass.GPU_OOM),
        (FaultKind.HOST_OOM, FailureClass.HOST_OOM),
        (FaultKind.DISK_FULL, FailureClass.STORAGE_FULL),
    ],
)
def test_what_a_restart_cannot_mend_is_not_restarted(
    sim: SimDesk, kind: FaultKind, failure_class: FailureClass
) -> None:
    job = sim.submit(Fault(kind=kind, step=33, rank=9))
    sim.run_until(sim.in_state(IncidentState.WATCHING))
    sim.run(30)
    assert sim.incident.failure_class == failure_class
    assert sim.recommendation.action == ActionKind.NOTHING
    assert sim.client.job(job).restart_count == 0


def test_a_job_cancelled_by_its_user_is_left_alone(sim: SimDesk) -> None:
    job = sim.submit()
    sim.run(40)
    sim.world.cancel(job, by="ada")
    sim.run_until(sim.in_state(IncidentState.CLOSED))
    assert sim.incident.outcome == Outcome.STOPPED_ON_PURPOSE
    assert not sim.incident.recommendations.exists()


def test_a_restart_that_ignores_its_checkpoint_does_not_close(sim: SimDesk, approver: User) -> None:
    ignore = Fault(kind=FaultKind.IGNORE_CHECKPOINT, attempt=1)
    sim.submit(Fault(kind=FaultKind.ECC, step=33, rank=9), ignore)
    sim.run_until(sim.in_state(IncidentState.AWAITING_DECISION))
    sim.approve(approver)
    sim.run_until(sim.in_state(IncidentState.NEEDS_PERSON))
    sim.run(60)
    assert sim.incident.state == IncidentState.NEEDS_PERSON
    assert "from scratch" in sim.incident.alarm


def test_a_torn_checkpoint_is_not_what_the_restart_is_measured_against(sim: SimDesk, approver: User) -> None:
    sim.submit(Fault(kind=FaultKind.TEAR, step=40), Fault(kind=FaultKind.ECC, step=47, rank=9))
    sim.run_until(sim.in_state(IncidentState.AWAITING_DECISION))
    assert sim.recommendation.restore_step == 20
    sim.approve(approver)
    sim.run_until(sim.in_state(IncidentState.CLOSED))
    assert sim.incident.outcome == Outcome.RECOVERED


def test_a_slow_job_is_reported_and_left_running(sim: SimDesk) -> None:
    job = sim.submit(Fault(kind=FaultKind.SLOW, step=60, factor=3.0))
    sim.run_until(sim.in_state(IncidentState.WATCHING), within=400)
    assert sim.incident.kind == FindingKind.SLOWDOWN
    assert sim.recommendation.action == ActionKind.NOTHING
    assert sim.client.job(job).state is JobState.RUNNING


def test_a_job_that_stays_slow_for_long_is_not_called_well_again(sim: SimDesk) -> None:
    sim.submit(Fault(kind=FaultKind.SLOW, step=80, factor=2.0), step_time_s=0.1, total_steps=8000)
    sim.run_until(sim.in_state(IncidentState.WATCHING), within=400)
    sim.run(150)  # more slow samples than a detector is given
    assert Attempt.objects.get().samples.count() > 600
    assert sim.incident.state == IncidentState.WATCHING


def test_a_slowdown_that_a_person_closed_is_not_reported_again(sim: SimDesk, operator: User) -> None:
    sim.submit(Fault(kind=FaultKind.SLOW, step=60, factor=3.0))
    sim.run_until(sim.in_state(IncidentState.WATCHING), within=400)
    by_hand.close_incident(
        sim.incident.pk, outcome=Outcome.FALSE_ALARM, reason="known", actor=actor_for(operator), now=sim.now
    )
    sim.run(60)
    assert Incident.objects.count() == 1
