"""Time for which somebody holds or suspends a job that was restarted is in no deadline, and is shown."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState, Outcome
from recovery.models import Incident
from tests.factories import make_attempt
from tests.pipeline.cases import Case
from tests.pipeline.test_verify import Restarted


def check(incident: Incident, key: str) -> dict[str, Any]:
    return next(check for check in incident.verification if check["key"] == key)


@pytest.fixture
def requeued(case: Case) -> Case:
    """Back in the queue after our restart."""
    case.approve()
    case.settle()
    assert case.desk.incident.state == IncidentState.RESTORING
    return case


def hold(case: Case, *, seconds: int) -> None:
    case.desk.slurm.change("1", held=True, state_reason="JobHeldAdmin")
    for _ in range(seconds // 10):
        case.desk.tick(seconds=10)


def test_an_admins_hold_on_what_we_restarted_is_shown_and_counts_in_no_deadline(requeued: Case) -> None:
    desk = requeued.desk
    hold(requeued, seconds=600)
    assert desk.incident.state == IncidentState.NEEDS_PERSON
    assert "held (JobHeldAdmin)" in desk.incident.alarm
    waits = check(desk.incident, "converged")
    assert waits["queued_s"] == pytest.approx(600, abs=20), "it is told on, also while a person is asked to look"
    assert waits["at"] == waits["held_since"]
    assert desk.now - datetime.fromisoformat(waits["held_since"]) == timedelta(seconds=590)
    desk.slurm.change("1", held=False, state_reason="Priority")
    desk.tick(times=2)
    assert (desk.incident.state, desk.incident.alarm) == (IncidentState.RESTORING, ""), "nobody holds it any more"
    assert check(desk.incident, "converged")["held_s"] == pytest.approx(600, abs=20)
    desk.start(nodes=("n1", "n3"))
    desk.tick()
    converged, restored = check(desk.incident, "converged"), check(desk.incident, "restored")
    assert converged["held_s"] == pytest.approx(600, abs=20)
    assert restored["state"] == "waiting"
    assert datetime.fromisoformat(restored["deadline_at"]) > desk.now
    desk.load(10)
    desk.train(11, 20)
    desk.save(20)
    desk.tick(times=4)
    assert desk.incident.outcome == Outcome.RECOVERED


def test_a_hold_that_ends_with_the_start_is_counted_up_to_the_start_alone(requeued: Case) -> None:
    desk = requeued.desk
    hold(requeued, seconds=40)
    desk.start(nodes=("n1", "n3"))
    desk.tick(seconds=30)
    assert check(desk.incident, "converged")["held_s"] == pytest.approx(40, abs=12)
    assert check(desk.incident, "converged")["held_since"] is None


def test_the_alarm_of_an_action_that_failed_is_not_taken_back_by_a_free_job(requeued: Case) -> None:
    desk = requeued.desk
    Incident.objects.update(state=IncidentState.NEEDS_PERSON, alarm="Slurm refuses: no")
    desk.tick(times=3)
    assert (desk.incident.state, desk.incident.alarm) == (IncidentState.NEEDS_PERSON, "Slurm refuses: no")


# --- suspended --------------------------------------------------------------------------------------------------------


@pytest.fixture
def restarted(db: None) -> Restarted:
    return Restarted()


def suspend(restarted: Restarted, *, hours: int) -> None:
    """By our pictures for so long: from the first look that shows it to the first that doesn't."""
    restarted.seen(state=JobState.SUSPENDED)
    restarted.look()
    for _ in range(hours * 6):
        restarted.look(after_s=600)
    restarted.seen(state=JobState.RUNNING)
    restarted.look(after_s=0)


def test_a_deadline_moves_by_the_time_for_which_the_job_was_suspended(restarted: Restarted) -> None:
    restarted.look()
    told = datetime.fromisoformat(str(restarted.check("restored")["deadline_at"]))
    suspend(restarted, hours=5)
    assert restarted.incident.state == IncidentState.RESTORING, "it is not late: it might not run"
    restarted.look()
    moved = datetime.fromisoformat(str(restarted.check("restored")["deadline_at"])) - told
    assert moved == timedelta(hours=5)
    assert restarted.check("converged")["held_s"] == moved.total_seconds()
    for _ in range(80):
        restarted.look(after_s=60)
    assert restarted.incident.trouble == Outcome.NO_PROGRESS, "from then on it is late as ever"


def test_while_it_is_suspended_that_is_said_and_nothing_is_late(restarted: Restarted) -> None:
    restarted.look()
    restarted.seen(state=JobState.SUSPENDED)
    for _ in range(24):
        restarted.look(after_s=600)
    assert "It is suspended since" in str(restarted.check("converged")["seen"])
    assert restarted.check("restored")["state"] == "waiting"


def test_each_suspension_moves_it_once(restarted: Restarted) -> None:
    restarted.load(840)
    restarted.step(841)
    restarted.look()
    told = datetime.fromisoformat(str(restarted.check("checkpoint")["deadline_at"]))
    for _ in range(2):
        suspend(restarted, hours=1)
        for _ in range(5):
            restarted.look()
    moved = datetime.fromisoformat(str(restarted.check("checkpoint")["deadline_at"])) - told
    assert moved == timedelta(hours=2)
    assert restarted.incident.state == IncidentState.AWAITING_CHECKPOINT


def test_what_was_held_before_another_restart_is_not_counted_to_that_one(restarted: Restarted) -> None:
    suspend(restarted, hours=1)
    restarted.look()
    restarted.seen(state=JobState.FAILED, ended_at=restarted.now)
    make_attempt(job=restarted.job, number=2, submitted_at=restarted.now, started_at=restarted.now, first_step=None,
                 last_step=None, last_progress_at=None)  # fmt: skip
    restarted.look()
    assert restarted.check("converged")["held_s"] == 0


# --- the queue --------------------------------------------------------------------------------------------------------


def test_while_it_waits_it_is_said_how_long_the_run_waited_before(requeued: Case) -> None:
    desk = requeued.desk
    desk.tick()
    said = check(desk.incident, "converged")
    assert said["deadline_from"].startswith(
        "time in the queue is not counted; the longest wait of this run so far took"
    )
    assert said["deadline_at"] is None
