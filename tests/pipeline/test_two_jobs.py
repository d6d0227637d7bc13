"""Two jobs of one run fail while one case is open: the newest failure leads it, and none is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from recovery.access import actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState, Outcome
from recovery.models import Attempt, Finding, Incident, PolicyVersion
from recovery.pipeline import by_hand
from tests.pipeline.conftest import ECC, Desk

Policy = Callable[..., PolicyVersion]


@pytest.fixture
def beside(desk: Desk) -> Desk:
    """Jobs 1 and 2 of one run, side by side; job 1 has crashed, and its case waits for a decision or is watched."""
    desk.run_with_checkpoint()
    desk.submit("2", stdout=str(desk.folder / "other.out"))
    desk.slurm.start("2", nodes=("n3", "n4"))
    desk.tick(times=2)
    desk.crash_with_ecc()
    desk.tick()
    return desk


def crash_of_job_2(desk: Desk) -> None:
    (desk.folder / "other.out").write_text(f"{ECC}\n")
    desk.slurm.end("2")
    desk.tick(times=3)


def job_of(incident: Incident) -> str:
    return incident.attempt.job.job_id


def test_the_newest_failure_leads_the_case_and_the_other_one_stays_as_a_finding(beside: Desk, policy: Policy) -> None:
    policy(gpu_hardware="approve")
    beside.tick(times=2)
    assert beside.incident.state == IncidentState.AWAITING_DECISION
    shown = beside.recommendation
    crash_of_job_2(beside)
    incident = Incident.objects.get()
    assert job_of(incident) == "2"
    assert incident.state == IncidentState.AWAITING_DECISION
    assert beside.recommendation.pk != shown.pk
    kept = Finding.objects.get(attempt__isnull=False)
    assert kept.attempt is not None
    assert kept.attempt.job.job_id == "1"


def test_the_other_failure_is_judged_when_the_case_ends_without_a_restart(beside: Desk, approver: object) -> None:
    crash_of_job_2(beside)
    assert job_of(beside.incident) == "2"
    actor = actor_for(approver)  # type: ignore[arg-type]
    by_hand.close_incident(beside.incident.pk, outcome=Outcome.GAVE_UP, reason="x", actor=actor, now=beside.now)
    beside.tick_until(lambda: Incident.objects.count() == 2)
    assert job_of(beside.incident) == "1"
    assert beside.incident.state != IncidentState.CLOSED


def test_what_the_run_has_overtaken_opens_no_case(beside: Desk, approver: object) -> None:
    crash_of_job_2(beside)
    beside.slurm.requeue("2", hold=False)
    beside.slurm.start("2", nodes=("n3", "n4"))
    beside.tick(times=2)
    actor = actor_for(approver)  # type: ignore[arg-type]
    by_hand.close_incident(beside.incident.pk, outcome=Outcome.GAVE_UP, reason="x", actor=actor, now=beside.now)
    beside.tick(seconds=31, times=3)
    assert Incident.objects.count() == 1
    assert not Attempt.objects.filter(job__job_id="1", closed_at=None).exists()


def test_a_failure_beside_a_restart_is_kept_and_does_not_disturb_it(
    beside: Desk, policy: Policy, approver: object
) -> None:
    policy(gpu_hardware="auto")
    beside.tick_until(lambda: beside.incident.state == IncidentState.RESTORING)
    crash_of_job_2(beside)
    incident = Incident.objects.get()
    assert (job_of(incident), incident.state) == ("1", IncidentState.RESTORING)
    kept = Finding.objects.get(attempt__isnull=False)
    assert kept.attempt is not None
    assert kept.attempt.job.job_id == "2"
    assert Attempt.objects.get(job__job_id="2").closed_at is None


def test_the_next_job_of_a_chain_that_crashes_as_well_opens_the_case_that_follows(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.submit("2", stdout=str(desk.folder / "other.out"))
    desk.crash_with_ecc()
    desk.tick()
    desk.slurm.start("2", nodes=("n3", "n4"))
    desk.tick(times=2)
    crash_of_job_2(desk)
    first, second = Incident.objects.order_by("pk")
    assert (job_of(first), first.outcome, first.resolved_by_others) == ("1", Outcome.NO_PROGRESS, True)
    assert (job_of(second), second.previous_id) == ("2", first.pk)


def test_a_restart_that_its_user_cancels_and_submits_anew_is_verified_to_its_checkpoint(
    desk: Desk, policy: Policy
) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick_until(lambda: desk.incident.state == IncidentState.RESTORING)
    desk.start(nodes=("n1", "n3"))
    desk.tick()
    assert not desk.incident.resolved_by_others
    desk.slurm.end(state=JobState.CANCELLED, exit_code=0, reason="None")
    desk.tick(times=2)
    assert desk.incident.state == IncidentState.RESTORING
    assert "A new job of the run is waited for." in desk.incident.verification[0]["seen"]

    desk.submit("7")
    desk.tick(times=2)
    assert "Job 7 of the run was submitted." in desk.incident.verification[0]["seen"]
    desk.now += timedelta(minutes=20)  # it waits in the queue: nothing is late
    desk.tick(times=2)
    assert desk.incident.state == IncidentState.RESTORING
    desk.start("7", nodes=("n1", "n3"))
    desk.tick()
    desk.load(10)
    desk.train(11, 19)
    desk.save(20)
    desk.tick(times=4)
    assert (desk.incident.outcome, desk.incident.resolved_by_others) == (Outcome.RECOVERED, True)
    assert desk.incident.verification[0]["queued_s"] > 1000


def test_a_restart_that_its_user_cancels_for_good_ends_the_case(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick_until(lambda: desk.incident.state == IncidentState.RESTORING)
    desk.start(nodes=("n1", "n3"))
    desk.tick()
    desk.slurm.end(state=JobState.CANCELLED, exit_code=0, reason="None")
    stopped = desk.slurm.table["1"].ended_at
    assert stopped is not None
    desk.tick(times=2)
    waits = desk.incident.verification[0]
    assert datetime.fromisoformat(waits["at"]) == stopped
    assert datetime.fromisoformat(waits["deadline_at"]) == stopped + timedelta(minutes=5) == desk.incident.deadline_at
    assert waits["deadline_from"] == "then the case ends as stopped on purpose"
    desk.tick(seconds=310)
    desk.tick(times=2)
    assert desk.incident.outcome == Outcome.STOPPED_ON_PURPOSE
