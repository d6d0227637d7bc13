"""A healthy run that would lose work to its time limit: told before, decided by a person, over by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, FindingKind, JobState, Outcome
from recovery.models import Action, Incident, PolicyVersion
from tests.pipeline.cases import Case
from tests.pipeline.conftest import Desk

Policy = Callable[..., PolicyVersion]


def train(desk: Desk, first: int, last: int) -> None:
    """A step every five minutes."""
    for step in range(first, last + 1):
        desk.step(step, ms=300_000)
        desk.tick(seconds=150, times=2)


def save(desk: Desk, step: int) -> None:
    desk.save(step)
    desk.tick(times=3)


@pytest.fixture
def near(desk: Desk, settings: Settings, operator: Any, approver: Any) -> Case:
    """Two hours of limit; it saved after 25 and after 75 minutes, so the next save is due after 125."""
    settings.HANG_FLOOR_S = settings.HANG_FIRST_STEP_S = 3600
    settings.STALE_AFTER_S = 600
    desk.submit(time_limit_s=7200.0)
    desk.tick()
    desk.start()
    desk.tick()
    train(desk, 1, 5)
    save(desk, 5)
    train(desk, 6, 15)
    save(desk, 15)
    return Case(desk, operator, approver)


def told(case: Case) -> Incident:
    train(case.desk, 16, 17)
    case.desk.tick(times=3)
    return Incident.objects.get()


def test_it_is_told_and_an_extension_waits_for_a_person(near: Case, policy: Policy) -> None:
    policy(walltime="approve")
    incident = told(near)
    assert (incident.kind, incident.state) == (FindingKind.LIMIT_NEAR, IncidentState.AWAITING_DECISION)
    assert "nears its time limit" in incident.headline
    assert near.desk.recommendation.action == ActionKind.EXTEND_TIME_LIMIT
    assert near.desk.recommendation.gpus_idle == 0
    near.approve()
    assert near.settle().state == ActionState.CONVERGED
    assert near.desk.slurm.table["1"].time_limit_s == near.desk.recommendation.parameters["seconds"] > 7500
    train(near.desk, 18, 25)
    assert Incident.objects.get().state == IncidentState.WATCHING
    save(near.desk, 25)
    near.desk.tick(seconds=40, times=2)
    incident.refresh_from_db()
    assert (incident.state, incident.outcome) == (IncidentState.CLOSED, Outcome.RECOVERED)


def test_without_a_rule_for_time_limits_nothing_is_done(near: Case, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    assert told(near).state == IncidentState.WATCHING
    assert not Action.objects.exists()


def test_a_save_that_comes_first_ends_it_as_a_false_alarm(near: Case, policy: Policy) -> None:
    policy(walltime="approve")
    incident = told(near)
    save(near.desk, 17)
    near.desk.tick(times=2)
    incident.refresh_from_db()
    assert (incident.state, incident.outcome) == (IncidentState.CLOSED, Outcome.FALSE_ALARM)


def test_somebody_elses_extension_ends_it(near: Case, policy: Policy) -> None:
    policy(walltime="approve")
    incident = told(near)
    near.desk.slurm.change("1", time_limit_s=14_400.0)
    near.desk.tick(times=3)
    incident.refresh_from_db()
    assert (incident.outcome, Incident.objects.count()) == (Outcome.FALSE_ALARM, 1)
    assert "240 min" in incident.outcome_reason or "4 h" in incident.outcome_reason


def test_a_crash_of_the_same_attempt_takes_its_place(near: Case, policy: Policy) -> None:
    policy(walltime="approve", gpu_hardware="approve")
    incident = told(near)
    near.desk.crash_with_ecc()
    near.desk.tick(times=3)
    incident.refresh_from_db()
    assert incident.kind == FindingKind.CRASH
    assert near.desk.recommendation.action == ActionKind.REQUEUE_EXCLUDING


def test_a_job_that_its_limit_ends_is_a_crash(near: Case, policy: Policy) -> None:
    policy(walltime="approve")
    incident = told(near)
    near.desk.slurm.end(state=JobState.TIMEOUT, reason="TimeLimit")
    near.desk.tick(times=4)
    incident.refresh_from_db()
    assert (incident.kind, incident.failure_class) == (FindingKind.CRASH, "walltime")


def test_an_attempt_that_can_not_be_seen_is_not_told_of(near: Case, policy: Policy) -> None:
    policy(walltime="approve")
    near.desk.log.unlink()
    near.desk.tick(seconds=150, times=4)
    assert not Incident.objects.filter(kind=FindingKind.LIMIT_NEAR).exists()
