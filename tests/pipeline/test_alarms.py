"""Alarms from rows to rows: raised once, ended once, never acted on."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from recovery.core.types import FindingKind, JobState, Phase
from recovery.models import Action, Alarm, Attempt, Cluster, Event, Incident, Run
from recovery.pipeline.alarms import EVERY, alarms_are_due, look_for_alarms
from recovery.pipeline.facts import attempt_facts
from recovery.pipeline.judge import judge, site_digest
from recovery.pipeline.reading import _inherit_pauses, _note_pause
from recovery.pipeline.surroundings import stalled_with, surroundings
from tests.factories import (
    ago,
    make_action,
    make_alarm,
    make_attempt,
    make_checkpoint,
    make_cluster,
    make_incident,
    make_job,
    make_run,
    make_samples,
    make_signal,
)

pytestmark = pytest.mark.django_db


def look(attempt: Attempt, now: datetime | None = None) -> list[str]:
    """Kinds of the alarms that hold after a look."""
    now = now or timezone.now()
    look_for_alarms(attempt, now=now)
    held = Alarm.objects.filter(run=attempt.job.run, ended_at=None)
    return [alarm.kind for alarm in held.order_by("kind")]


def losing(attempt: Attempt) -> None:
    make_samples(attempt=attempt, count=60, first_step=1, last_at=ago(400))
    make_samples(attempt=attempt, count=12, first_step=61, last_at=ago(20), loss=None)


def test_an_alarm_is_raised_once_and_ends_once_and_both_are_events() -> None:
    attempt = make_attempt()
    losing(attempt)
    assert look(attempt) == ["numerics"]
    assert look(attempt) == ["numerics"]
    make_samples(attempt=attempt, count=3, first_step=73, last_at=ago(1), every_s=2)
    assert look(attempt) == []
    assert look(attempt) == []
    verbs = Event.objects.filter(subject_kind="attempt", subject_id=str(attempt.pk)).order_by("pk")
    assert list(verbs.values_list("verb", flat=True)) == ["alarm.raised", "alarm.ended"]
    assert not Incident.objects.exists()
    assert not Action.objects.exists()


def test_a_stale_picture_raises_and_ends_nothing() -> None:
    old = make_attempt(job=make_job(run=make_run(cluster=make_cluster(seen_at=ago(600), tried_at=ago(600)))))
    losing(old)
    make_alarm(attempt=old, kind="unsaved")
    assert look(old) == ["unsaved"]


def test_what_the_run_left_behind_ends_with_its_next_attempt() -> None:
    first = make_attempt(state=JobState.FAILED)
    make_alarm(attempt=first, kind="crash_loop")
    beside = make_attempt(job=make_job(run=first.job.run))
    assert look(beside) == ["crash_loop"]  # it started before the other ended: nothing follows from it
    following = make_attempt(job=make_job(run=first.job.run), started_at=ago(60))
    assert look(following) == []


def test_two_ends_alike_at_one_step_are_a_crash_loop_until_a_checkpoint_comes() -> None:
    run = make_run()
    for end in (4000, 480):
        failed = make_attempt(job=make_job(run=run, state=JobState.FAILED), state=JobState.FAILED, ended_at=ago(end))
        make_signal(attempt=failed, at=ago(end + 1))
    assert look(failed) == ["crash_loop"]
    assert "cuda.ecc_uncorrectable" in Alarm.objects.get().reason
    make_checkpoint(run=run, step=860, completed_at=ago(5))
    assert look(failed) == []


def test_a_job_that_our_exclusion_keeps_from_its_nodes_is_known() -> None:
    done = make_action(exclude_nodes=["gpu-02"], state="converged")
    run = done.incident.run
    job = make_job(run=run, state=JobState.PENDING, excluded_nodes=["gpu-02", "gpu-09"])
    attempt = make_attempt(job=job, state=JobState.PENDING, started_at=None)
    around = surroundings(attempt, attempt_facts(attempt, now=timezone.now()), now=timezone.now())
    assert around.waiting is not None
    assert around.waiting.ours == ("gpu-02",)


def test_the_rhythm_and_the_expected_step_are_those_of_the_runs_checkpoints() -> None:
    attempt = make_attempt(started_at=ago(1000))
    for step, done in ((100, 9000), (200, 6000), (300, 3000)):
        make_checkpoint(run=attempt.job.run, step=step, completed_at=ago(done))
    make_checkpoint(run=attempt.job.run, step=400, completed_at=ago(10), attempt=attempt)
    around = surroundings(attempt, attempt_facts(attempt, now=timezone.now()), now=timezone.now())
    assert (around.saved_step, around.expected_step) == (400, 300)
    assert around.save_every_s == pytest.approx(3000, abs=20)


def test_one_gap_between_two_checkpoints_is_no_rhythm() -> None:
    attempt = make_attempt(started_at=ago(9000))
    for step, done in ((100, 5000), (200, 4200)):
        make_checkpoint(run=attempt.job.run, step=step, completed_at=ago(done), attempt=attempt)
    around = surroundings(attempt, attempt_facts(attempt, now=timezone.now()), now=timezone.now())
    assert (around.saved_step, around.save_every_s) == (200, None)


def test_alarms_are_looked_for_now_and_then_and_once_more_at_the_end() -> None:
    now = timezone.now()
    assert alarms_are_due(make_attempt(), now=now)
    assert not alarms_are_due(make_attempt(alarms_at=now), now=now)
    assert alarms_are_due(make_attempt(alarms_at=now - EVERY), now=now)
    ended = make_attempt(state=JobState.FAILED, alarms_at=ago(500))
    assert alarms_are_due(ended, now=now)
    ended.alarms_at = now
    assert not alarms_are_due(ended, now=now)


def on(cluster: Cluster, *nodes: str, slow: bool = True) -> Attempt:
    """A job of its own run that trains on these nodes."""
    attempt = make_attempt(job=make_job(run=make_run(cluster=cluster)), nodes=list(nodes))
    if slow:
        make_incident(run=attempt.job.run, attempt=attempt, kind=FindingKind.SLOWDOWN, detected_at=ago(600))
    return attempt


def test_the_node_that_slow_jobs_share_and_no_healthy_one_has_is_named() -> None:
    cluster = make_cluster()
    first = on(cluster, "gpu-01", "gpu-02", "gpu-03", "gpu-04")
    for nodes in (("gpu-04", "gpu-05"), ("gpu-03", "gpu-04", "gpu-06")):
        earlier = on(cluster, *nodes)
        Attempt.objects.filter(pk=earlier.pk).update(state=JobState.COMPLETED, ended_at=ago(300), closed_at=ago(300))
    on(cluster, "gpu-03", slow=False)
    assert look(first) == ["straggler"]
    assert "gpu-04 was among the nodes of 2 other slow jobs" in Alarm.objects.get().reason
    alone = on(cluster, "gpu-07", "gpu-08")
    assert look(alone) == []


def silent(cluster_of: Attempt | None, since: float, longest: float = 60.0) -> Attempt:
    cluster = cluster_of.job.cluster if cluster_of else make_cluster()
    job = make_job(run=make_run(cluster=cluster), options={"run": "x"})
    attempt = make_attempt(job=job, last_progress_at=ago(since), longest_wait_s=longest)
    make_samples(attempt=attempt, count=50, first_step=800, last_at=ago(since))
    return attempt


def test_jobs_that_fell_silent_together_are_no_hang_of_their_own_yet() -> None:
    first = silent(None, 2000)
    now = timezone.now()
    assert stalled_with(first, now=now) == 0
    silent(first, 1950)
    assert stalled_with(first, now=now) == 0  # one other may be chance
    silent(first, 2050)
    silent(first, 2010, longest=5000)  # it was silent for longer before
    silent(first, 400)
    assert stalled_with(first, now=now) == 2
    assert judge(first, None, site=site_digest(), now=now) is None
    assert first.alarms_at is None
    assert look(first, now) == ["shared_stall"]
    alone = silent(None, 2800)
    found = judge(alone, None, site=site_digest(), now=now)
    assert found is not None
    assert found.kind == FindingKind.HANG


def refreshed(attempt: Attempt, now: datetime) -> None:
    """Slurm was asked just now."""
    attempt.job.cluster.seen_at = now
    attempt.job.cluster.save()


def starting(run: Run) -> Attempt:
    """No step came in the 5500 seconds since it started."""
    return make_attempt(
        job=make_job(run=run, options={"run": "x"}), started_at=ago(5500), phase=Phase.STARTING, phase_since=ago(5500),
        first_step=None, last_step=None, last_progress_at=None,
    )  # fmt: skip


def test_a_start_may_take_as_long_as_the_runs_earlier_ones() -> None:
    first = make_attempt(state=JobState.FAILED, started_at=ago(90_000), first_step_at=ago(87_000))
    slow, now = starting(first.job.run), timezone.now()
    assert judge(slow, None, site=site_digest(), now=now) is None
    assert slow.quiet_until is not None
    assert slow.quiet_until > now
    alone = judge(starting(make_run()), None, site=site_digest(), now=now)
    assert alone is not None
    assert alone.kind == FindingKind.HANG
    refreshed(slow, later := now + timedelta(seconds=2100))
    hung = judge(slow, None, site=site_digest(), now=later)
    assert hung is not None
    assert hung.kind == FindingKind.HANG


def test_a_silence_in_which_a_checkpoint_is_written_is_no_hang() -> None:
    now = timezone.now()
    attempt, other = silent(None, 2800), silent(None, 2800)
    for each, changed in ((attempt, 40), (other, 2900)):
        make_checkpoint(run=each.job.run, step=900, state="announced", completed_at=None, changed_at=ago(changed))
    assert judge(attempt, None, site=site_digest(), now=now) is None
    assert judge(other, None, site=site_digest(), now=now) is not None


def test_a_silence_is_as_long_as_it_was_looked_at() -> None:
    now = timezone.now()
    attempt = make_attempt(last_progress_at=now - timedelta(seconds=900), read_at=now - timedelta(seconds=10))
    _note_pause(attempt, now=now)
    assert attempt.longest_wait_s == pytest.approx(890)
    down = make_attempt(last_progress_at=now - timedelta(hours=3), read_at=now - timedelta(hours=3))
    _note_pause(down, now=now)
    assert down.longest_wait_s == 0  # nobody looked: the job may have reported all the while


def test_the_next_attempt_begins_with_what_the_run_had_shown() -> None:
    first = make_attempt(state=JobState.FAILED, longest_wait_s=420.0)
    following = make_attempt(job=make_job(run=first.job.run))
    _inherit_pauses(following)
    assert following.longest_wait_s == 420.0
    other = make_attempt()
    _inherit_pauses(other)
    assert other.longest_wait_s == 0
