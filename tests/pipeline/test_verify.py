"""Verification judges each look anew: whatever is seen, in whatever order, only proof closes a case as recovered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recovery.core.lifecycle import IncidentState
from recovery.core.types import ActionKind, CheckpointState, JobState, Outcome, Phase, SignalKind
from recovery.models import Attempt, Checkpoint, Cluster, Incident, Job, Run
from recovery.models.progress import WORD_PATH
from recovery.pipeline.successor import is_ours
from recovery.pipeline.verify import verify_incident, watch_danger
from tests.factories import (
    ago,
    make_action,
    make_attempt,
    make_checkpoint,
    make_incident,
    make_job,
    make_recommendation,
    make_run,
    make_samples,
    make_signal,
)

STEP = 10.0  # seconds from one look to the next


@dataclass
class Restarted:
    """A run that failed at step 852 with checkpoints 800, 820 and 840, and whose job runs again since five minutes."""

    run: Run = field(default_factory=make_run)
    now: datetime = field(default_factory=timezone.now)

    def __post_init__(self) -> None:
        self.job = make_job(run=self.run, state=JobState.RUNNING, restart_count=1)
        self.failed = make_attempt(job=self.job, number=0, state=JobState.FAILED, started_at=ago(7000))
        for number, step in enumerate((800, 820, 840)):
            self.checkpoint(step, attempt=self.failed, at=ago(2000 - 400 * number))
        self.incident = make_incident(state=IncidentState.RESTORING, attempt=self.failed, expected_step=840)
        self.attempt = make_attempt(
            job=self.job, number=1, submitted_at=ago(360), started_at=ago(300), first_step=None, last_step=None,
            last_progress_at=None, phase=Phase.STARTING,
        )  # fmt: skip

    def checkpoint(
        self, step: int, *, attempt: Attempt | None, at: datetime | None = None,
        state: CheckpointState = CheckpointState.COMPLETE, path: str = "",
    ) -> Checkpoint:  # fmt: skip
        at = at or self.now
        return make_checkpoint(
            run=self.run, step=step, path=path or f"/ckpt/iter_{step}-{Checkpoint.objects.count()}", attempt=attempt,
            state=state, first_seen_at=at, checked_at=at,
            completed_at=at if state is CheckpointState.COMPLETE else None,
        )  # fmt: skip

    def load(self, step: int) -> None:
        self._say(SignalKind.LOADED, line=17, step=step)
        self.seen(restored_step=step, restored_at=self.now, fresh_start=False, first_step=None)

    def start_fresh(self) -> None:
        self._say(SignalKind.FRESH_START, line=9)
        self.seen(restored_step=None, restored_at=self.now, fresh_start=True, first_step=None)

    def requeue(self) -> None:
        """By somebody else, before it was seen to be restored, say."""
        self.seen(state=JobState.FAILED, ended_at=self.now)
        self.attempt = make_attempt(
            job=self.job, number=self.attempt.number + 1, submitted_at=self.now, started_at=self.now, first_step=None,
            last_step=None, last_progress_at=None, phase=Phase.STARTING,
        )  # fmt: skip

    def _say(self, kind: SignalKind, *, line: int, step: int | None = None) -> None:
        offset = self.attempt.signals.count()
        make_signal(
            attempt=self.attempt, kind=kind, step=step, file="/logs/a.out", line=line, offset=offset, at=self.now
        )  # fmt: skip

    def step(self, step: int) -> None:
        first = self.attempt.first_step or step
        self.seen(first_step=first, first_step_at=self.attempt.first_step_at or self.now, last_step=step)

    def seen(self, **fields: object) -> None:
        Attempt.objects.filter(pk=self.attempt.pk).update(**fields)
        self.attempt.refresh_from_db()

    def look(self, *, after_s: float = STEP, blindly: bool = False) -> Incident:
        """`blindly`: the scheduler has not answered and the log was not read since the look before."""
        self.now += timedelta(seconds=after_s)
        if not blindly:
            Cluster.objects.filter(pk=self.run.cluster_id).update(seen_at=self.now)
            Attempt.objects.filter(pk=self.attempt.pk).update(read_at=self.now)
        self.incident.refresh_from_db()
        if self.incident.state != IncidentState.CLOSED:
            verify_incident(self.incident, now=self.now)
            self.incident.refresh_from_db()
        return self.incident

    def check(self, key: str) -> dict[str, object]:
        return next(check for check in self.incident.verification if check["key"] == key)


@pytest.fixture
def restarted(db: None) -> Restarted:
    return Restarted()


def test_each_check_says_what_was_expected_seen_where_and_by_when(restarted: Restarted) -> None:
    restarted.seen(places={"tracker": {"step": 840, "file": "/ckpt/latest.txt", "at": ""}})
    restarted.look()
    waiting = restarted.check("restored")
    assert (waiting["state"], waiting["expected"]) == ("waiting", "It continues at step 840 or later.")
    assert waiting["deadline_at"] is not None
    assert str(waiting["deadline_from"]).startswith("no start of this run was seen before")
    restarted.load(840)
    restarted.step(841)
    restarted.look()
    restored = restarted.check("restored")
    assert restored["state"] == "as_expected"
    assert [(place["source"], place["file"], place["line"]) for place in restored["places"]] == [  # type: ignore[attr-defined]
        ("load line", "/logs/a.out", 17),
        ("first step line", "", None),
        ("tracker file", "/ckpt/latest.txt", None),
    ]
    assert restarted.check("converged")["queued_s"] == pytest.approx(60, abs=1)
    assert restarted.incident.state == IncidentState.AWAITING_CHECKPOINT
    assert restarted.incident.deadline_at is not None


def test_a_deadline_is_learned_from_the_runs_own_starts_without_the_queue(restarted: Restarted) -> None:
    Attempt.objects.filter(pk=restarted.failed.pk).update(
        submitted_at=ago(9000), restored_at=ago(6800), first_step_at=ago(6700)
    )
    restarted.look()
    due = datetime.fromisoformat(str(restarted.check("restored")["deadline_at"]))
    assert restarted.attempt.started_at is not None
    assert (due - restarted.attempt.started_at).total_seconds() == pytest.approx(400, abs=2)


def test_a_deadline_that_was_told_does_not_move(restarted: Restarted) -> None:
    first = restarted.look().deadline_at
    Attempt.objects.filter(pk=restarted.failed.pk).update(first_step_at=ago(6900))
    assert restarted.look().deadline_at == first


def test_steps_that_belie_the_load_line_later_raise_the_alarm(restarted: Restarted) -> None:
    restarted.load(840)
    assert restarted.look().state == IncidentState.AWAITING_CHECKPOINT
    restarted.step(1)
    incident = restarted.look()
    assert (incident.state, incident.trouble) == (IncidentState.NEEDS_PERSON, Outcome.FROM_SCRATCH)
    assert restarted.check("restored")["contradictions"]


def test_a_late_restore_is_as_expected_after_all(restarted: Restarted) -> None:
    restarted.look()
    incident = restarted.look(after_s=4000)
    assert (incident.state, incident.trouble) == (IncidentState.NEEDS_PERSON, Outcome.NO_PROGRESS)
    assert incident.advice
    restarted.load(840)
    incident = restarted.look()
    assert (incident.state, incident.trouble, incident.alarm) == (IncidentState.AWAITING_CHECKPOINT, "", "")


def test_a_restart_that_cannot_be_seen_is_not_said_to_stand_still(restarted: Restarted) -> None:
    restarted.look()
    remedy = "Add its folder to RECOVERY_LOG_ROOTS."
    Attempt.objects.exclude(pk=restarted.failed.pk).update(blind_reason="Its log is out of reach.", blind_remedy=remedy)
    incident = restarted.look(after_s=4000)
    assert incident.trouble == Outcome.NO_PROGRESS
    assert "Its log is out of reach." in incident.alarm
    assert incident.advice.startswith(f"It may well train, unseen. {remedy}")


def test_nothing_is_late_that_nobody_looked_for_since(restarted: Restarted) -> None:
    assert restarted.look().alarm == ""
    assert restarted.look(after_s=8000, blindly=True).alarm == ""
    Cluster.objects.filter(pk=restarted.run.cluster_id).update(seen_at=restarted.now)
    assert restarted.look(blindly=True).alarm == ""  # the log was not read yet
    assert restarted.look().trouble == Outcome.NO_PROGRESS


def test_a_checkpoint_that_comes_late_still_closes_the_case(restarted: Restarted) -> None:
    restarted.load(840)
    restarted.step(841)
    restarted.look()
    incident = restarted.look(after_s=30_000)
    assert (incident.state, incident.trouble) == (IncidentState.NEEDS_PERSON, Outcome.NO_CHECKPOINT)
    restarted.step(860)
    restarted.checkpoint(860, attempt=restarted.attempt)
    assert restarted.look().outcome == Outcome.RECOVERED


def test_a_checkpoint_by_the_trainers_word_is_said_to_be_that(restarted: Restarted) -> None:
    restarted.load(840)
    restarted.step(860)
    restarted.checkpoint(860, attempt=restarted.attempt, path=f"/ckpt{WORD_PATH}860")
    incident = restarted.look()
    assert incident.outcome == Outcome.RECOVERED
    assert "durable by the trainer's word" in incident.outcome_reason
    assert restarted.check("checkpoint")["places"][0]["by_word"]  # type: ignore[index]


def test_what_the_failed_attempt_wrote_is_no_next_checkpoint(restarted: Restarted) -> None:
    restarted.load(840)
    restarted.checkpoint(860, attempt=restarted.failed)
    restarted.checkpoint(880, attempt=None)  # seen first after the start, but the new attempt has not trained so far
    restarted.step(845)
    assert restarted.look().state == IncidentState.AWAITING_CHECKPOINT


def test_the_good_checkpoint_is_in_danger_until_the_job_ends(restarted: Restarted) -> None:
    make_samples(attempt=restarted.attempt, count=5, first_step=1, every_s=2.0)
    restarted.start_fresh()
    restarted.step(5)
    incident = restarted.look()
    assert incident.danger_step == 840
    assert incident.danger == "It overwrites step 840 with its save at step 840, the 42nd from now."
    assert incident.danger_at is not None
    assert (incident.danger_at - restarted.now).total_seconds() == pytest.approx(835 * 2, abs=5)
    assert incident.advice.startswith("Cancel the job before step 840 is gone")
    restarted.seen(state=JobState.CANCELLED, ended_at=restarted.now)
    incident = restarted.look()
    assert (incident.danger_at, incident.danger) == (None, "")


def test_the_danger_is_told_as_it_is_now_while_a_proposal_waits(restarted: Restarted) -> None:
    make_samples(attempt=restarted.attempt, count=5, first_step=1, every_s=2.0)
    restarted.start_fresh()
    restarted.step(5)
    restarted.look()
    Incident.objects.filter(pk=restarted.incident.pk).update(state=IncidentState.AWAITING_DECISION)
    restarted.step(105)
    restarted.incident.refresh_from_db()
    watch_danger(restarted.incident, now=restarted.now)
    restarted.incident.refresh_from_db()
    assert restarted.incident.danger == "It overwrites step 840 with its save at step 840, the 37th from now."
    restarted.seen(state=JobState.CANCELLED, ended_at=restarted.now)
    watch_danger(Incident.objects.get(pk=restarted.incident.pk), now=restarted.now)
    restarted.incident.refresh_from_db()
    assert restarted.incident.danger_at is None
    assert restarted.incident.state == IncidentState.AWAITING_DECISION


def test_a_job_that_saves_into_another_folder_destroys_nothing_here(restarted: Restarted) -> None:
    Run.objects.filter(pk=restarted.run.pk).update(checkpoint_dir="/ckpt")
    restarted.start_fresh()
    restarted.step(1)
    assert restarted.look().danger_at is not None
    make_signal(attempt=restarted.attempt, kind=SignalKind.SAVE_STARTED, step=20, path="/ckpt2", at=restarted.now)
    incident = restarted.look()
    assert (incident.trouble, incident.danger_at) == (Outcome.FROM_SCRATCH, None)


def test_a_load_of_a_torn_checkpoint_is_shown_as_a_contradiction(restarted: Restarted) -> None:
    restarted.checkpoint(850, attempt=restarted.failed, state=CheckpointState.TORN)
    restarted.load(850)
    restarted.look()
    assert restarted.check("restored")["contradictions"] == [
        "The trainer says that it loaded step 850, but that checkpoint is torn on disk."
    ]


@pytest.mark.parametrize("old", [{"state": JobState.CANCELLED}, {"vanished_at": ago(5000)}])
def test_a_job_that_we_submitted_anew_is_waited_for_whatever_became_of_the_old_one(
    restarted: Restarted, old: dict[str, object]
) -> None:
    restarted.attempt.delete()
    Job.objects.filter(pk=restarted.job.pk).update(**old)
    Attempt.objects.filter(pk=restarted.failed.pk).update(ended_at=ago(5000))
    recommendation = make_recommendation(incident=restarted.incident, action=ActionKind.RESUBMIT)
    make_action(
        recommendation=recommendation, kind=ActionKind.RESUBMIT, state="converged", called_at=ago(60),
        calls=[{"operation": "submit", "answer": "9911"}],
    )  # fmt: skip
    Incident.objects.filter(pk=restarted.incident.pk).update(acted_at=ago(50))
    assert restarted.look().state == IncidentState.RESTORING  # the new job is not in the picture yet
    new = make_job(run=restarted.run, job_id="9911", state=JobState.PENDING, first_submitted_at=ago(55))
    make_attempt(job=new, state=JobState.PENDING, submitted_at=ago(55), started_at=None)
    assert restarted.look(after_s=3000).state == IncidentState.RESTORING
    assert str(restarted.check("converged")["seen"]).startswith("Job 9911 is pending")


def test_a_good_checkpoint_that_was_overwritten_is_said_to_be_gone(restarted: Restarted) -> None:
    restarted.load(820)
    restarted.step(821)
    restarted.look()
    old = Checkpoint.objects.get(run=restarted.run, step=840)
    old.attempt, old.completed_at = restarted.attempt, restarted.now
    old.save()
    incident = restarted.look()
    assert incident.trouble == Outcome.RESTORED_OLDER
    assert incident.alarm.endswith("Step 840 was overwritten since.")
    assert incident.expected_step == 840


def test_only_what_our_call_started_is_our_doing(restarted: Restarted) -> None:
    assert not is_ours(restarted.attempt, restarted.incident)
    make_action(
        recommendation=make_recommendation(incident=restarted.incident), state="converged", called_at=ago(370)
    )  # fmt: skip
    assert is_ours(restarted.attempt, restarted.incident)
    third = make_attempt(job=restarted.job, number=2)
    assert not is_ours(third, restarted.incident)


def test_an_attempt_that_somebody_else_started_is_recorded_as_resolved_by_others(restarted: Restarted) -> None:
    assert restarted.look().resolved_by_others


def _loads_by_a_clock_gone_back(restarted: Restarted) -> None:
    restarted.load(840)
    restarted.seen(restored_at=ago(9000))


_OBSERVATIONS: dict[str, Callable[[Restarted], object]] = {
    "loads 840": lambda r: r.load(840),
    "loads 820": lambda r: r.load(820),
    "loads what was never trained": lambda r: r.load(2**31 - 1),
    "loads by a clock gone back": _loads_by_a_clock_gone_back,
    "tracker ahead of the folder": lambda r: r.seen(places={"tracker": {"step": 900, "file": "/t", "at": ""}}),
    "requeued meanwhile": lambda r: r.requeue(),
    "suspended": lambda r: r.seen(state=JobState.SUSPENDED),
    "runs": lambda r: r.seen(state=JobState.RUNNING),
    "starts fresh": lambda r: r.start_fresh(),
    "first step": lambda r: r.step(1),
    "step 841": lambda r: r.step(841),
    "step 861": lambda r: r.step(861),
    "own 860": lambda r: r.checkpoint(860, attempt=r.attempt),
    "own 860 torn": lambda r: r.checkpoint(860, attempt=r.attempt, state=CheckpointState.TORN),
    "own 20": lambda r: r.checkpoint(20, attempt=r.attempt),
    "old 860": lambda r: r.checkpoint(860, attempt=r.failed),
    "nobody's 860": lambda r: r.checkpoint(860, attempt=None),
    "an hour": lambda r: r.look(after_s=3600),
    "completed": lambda r: r.seen(state=JobState.COMPLETED, ended_at=r.now),
    "cancelled": lambda r: r.seen(state=JobState.CANCELLED, ended_at=r.now),
}


def _is_proved(restarted: Restarted) -> bool:
    """Independent of the code under test: it continued at 840 or later, and wrote a later one itself."""
    attempt = restarted.attempt
    continued = (attempt.restored_step or 0) >= 840 or (attempt.restored_step is None and not attempt.fresh_start)
    continued = continued and (attempt.first_step is None or attempt.first_step > 840)
    told = attempt.restored_step is not None or attempt.first_step is not None
    own = Checkpoint.objects.filter(run=restarted.run, step__gt=840, state=CheckpointState.COMPLETE)
    wrote = own.filter(attempt=attempt).exists()
    trained = own.filter(attempt=None, step__lte=attempt.last_step or 0).exists()
    return continued and told and (wrote or trained)


@pytest.mark.django_db
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.lists(st.sampled_from(sorted(_OBSERVATIONS)), min_size=1, max_size=7))
def test_whatever_the_order_of_observations_only_a_checkpoint_of_its_own_closes_a_case_as_recovered(
    order: list[str],
) -> None:
    with transaction.atomic():
        restarted = Restarted()
        for name in order:
            _OBSERVATIONS[name](restarted)
            incident = restarted.look()
            if incident.state == IncidentState.CLOSED:
                break
        assert (incident.outcome == Outcome.RECOVERED) <= _is_proved(restarted)
        transaction.set_rollback(True)
