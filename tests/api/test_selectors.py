from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from recovery import selectors
from recovery.core.lifecycle import IncidentState
from recovery.core.types import CheckpointState, JobState, NodeState, Phase
from recovery.models import Incident, Sample
from recovery.selectors import run_reads
from tests.factories import (
    ago,
    make_action,
    make_attempt,
    make_checkpoint,
    make_cluster,
    make_decision,
    make_event,
    make_finding,
    make_incident,
    make_job,
    make_log_file,
    make_node,
    make_policy,
    make_recommendation,
    make_run,
    make_samples,
    make_signal,
)

pytestmark = pytest.mark.django_db


def fill(count: int) -> None:
    """So many incidents, each with a run, jobs, attempts and all that hangs on them."""
    for state in [IncidentState.AWAITING_DECISION, IncidentState.NEEDS_PERSON, IncidentState.CLOSED] * count:
        incident = make_incident(state=state)
        make_finding(incident=incident)
        make_event(incident=incident)
        old = make_recommendation(incident=incident, superseded_at=ago(100))
        make_decision(recommendation=old)
        make_decision(recommendation=make_recommendation(incident=incident))
        make_action(recommendation=old)
        make_checkpoint(run=incident.run)
        attempt = make_attempt(job=make_job(run=incident.run), blind_reason="the log can't be read")
        make_samples(attempt=attempt, count=3)
        make_log_file(attempt=attempt)
        make_node(cluster=incident.run.cluster)


def shown(incident: Incident) -> list[object]:
    """What a row of the incident list shows."""
    recommendation = selectors.current_recommendation(incident)
    assert recommendation
    return [incident.run.cluster.name, incident.attempt.job.job_id, selectors.decision_on(recommendation)]


READS: dict[str, Callable[[], Any]] = {
    "needs_person": lambda: [shown(case) for case in selectors.needs_person()],
    "incidents": lambda: [shown(case) for case in selectors.incidents()],
    "recommendations": lambda: [each.incident.attempt.job.job_id for each in selectors.recommendations()],
    "running_attempts": lambda: [each.job.run.name + each.job.cluster.name for each in selectors.running_attempts()],
    "blind_attempts": lambda: [each.job.run.name + each.job.cluster.name for each in selectors.blind_attempts()],
    "cluster_pictures": lambda: selectors.cluster_pictures(now=timezone.now()),
    "runs": lambda: [run.cluster.name for run in selectors.runs()],
    "jobs": lambda: [job.cluster.name + job.run.name for job in selectors.jobs()],
    "nodes": lambda: [node.cluster.name for node in selectors.nodes()],
    "checkpoints": lambda: [look.run.name for look in selectors.checkpoints()],
    "events": lambda: list(selectors.events()),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_more_rows_need_no_more_queries(read: Callable[[], Any], django_assert_max_num_queries: Any) -> None:
    fill(1)
    with django_assert_max_num_queries(4) as few:
        read()
    fill(3)
    with django_assert_max_num_queries(len(few)):
        read()


# --- clusters


def test_a_picture_counts_what_its_cluster_does() -> None:
    cluster = make_cluster(name="lab")
    run = make_run(cluster=cluster)
    make_attempt(job=make_job(run=run), blind_reason="no progress line was recognised")
    make_job(run=run, state=JobState.PENDING)
    make_job(run=run, state=JobState.FAILED)
    make_node(cluster=cluster)
    make_node(cluster=cluster, state=NodeState.DOWN)
    make_job()  # of another cluster
    picture = selectors.cluster_pictures(now=timezone.now())[0]
    assert picture.cluster == cluster
    assert (picture.running_jobs, picture.pending_jobs, picture.blind_attempts) == (1, 1, 1)
    assert picture.nodes[NodeState.UP] == picture.nodes[NodeState.DOWN] == 1
    assert picture.nodes[NodeState.DRAINED] == 0
    assert not picture.stale


def test_a_picture_tells_its_age_and_a_failed_look_makes_it_stale() -> None:
    now = timezone.now()
    make_cluster(name="a", seen_at=now - timedelta(seconds=12))
    make_cluster(name="b", seen_at=now - timedelta(seconds=12), error="squeue: no answer within 10 s")
    make_cluster(name="c", seen_at=None)
    make_cluster(name="d", enabled=False)
    pictures = selectors.cluster_pictures(now=now)
    assert [(each.cluster.name, each.age_s, each.stale) for each in pictures] == [
        ("a", 12.0, False),
        ("b", 12.0, True),
        ("c", None, True),
    ]


# --- runs and attempts


def test_only_what_executes_is_running() -> None:
    running = make_attempt(started_at=ago(100))
    longest = make_attempt(state=JobState.COMPLETING, started_at=ago(900))
    make_attempt(state=JobState.PENDING)
    make_attempt(state=JobState.FAILED)
    make_attempt(closed_at=ago(10))
    assert list(selectors.running_attempts()) == [longest, running]


def test_what_ended_is_not_blind() -> None:
    blind = make_attempt(blind_reason="the log can't be read")
    make_attempt(blind_reason="the log can't be read", state=JobState.FAILED)
    make_attempt(blind_reason="the log can't be read", closed_at=ago(10))
    make_attempt()
    assert list(selectors.blind_attempts()) == [blind]


def test_a_run_stands_where_its_newest_attempt_and_newest_complete_checkpoint_do() -> None:
    incident = make_incident()
    run = incident.run
    make_attempt(job=make_job(run=run), submitted_at=ago(10), phase=Phase.FIRST_STEP, last_step=841)
    make_checkpoint(run=run, step=840)
    make_checkpoint(run=run, step=850, state=CheckpointState.TORN)
    make_incident(run=run, state=IncidentState.CLOSED)
    found = selectors.runs().get(pk=run.pk)
    assert (found.state, found.phase, found.last_step) == ("running", "first_step", 841)
    assert found.checkpoint_step == 840
    assert found.open_incident_id == incident.pk


def test_a_run_that_nothing_is_known_of_yet_says_so() -> None:
    found = selectors.runs().get(pk=make_run().pk)
    assert (found.state, found.last_step, found.checkpoint_step, found.open_incident_id) == (None, None, None, None)


def test_a_run_is_told_over_all_its_jobs() -> None:
    run = make_run()
    second = make_attempt(job=make_job(run=run), submitted_at=ago(100))
    first = make_attempt(job=make_job(run=run), submitted_at=ago(5000))
    make_checkpoint(run=run, step=840)
    make_checkpoint(run=run, step=860, state=CheckpointState.ANNOUNCED)
    detail = selectors.run_detail(run_id=run.pk)
    assert detail.attempts == (first, second)
    assert detail.newest == second
    assert [look.step for look in detail.checkpoints] == [840, 860]
    assert detail.restorable
    assert detail.restorable.step == 840


def test_a_run_without_anything_has_nothing_to_restore() -> None:
    detail = selectors.run_detail(run_id=make_run().pk)
    assert (detail.newest, detail.restorable) == (None, None)


def test_of_a_run_without_end_the_newest_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reads, "SHOWN", 3)
    run = make_run()
    made = [make_attempt(job=make_job(run=run), submitted_at=ago(1000 - 10 * n)) for n in range(5)]
    for step in range(5):
        make_checkpoint(run=run, step=step, state=CheckpointState.TORN if step else CheckpointState.COMPLETE)
    detail = selectors.run_detail(run_id=run.pk)
    assert detail.attempts == tuple(made[2:])
    assert [look.step for look in detail.checkpoints] == [2, 3, 4]
    assert detail.restorable is not None
    assert detail.restorable.step == 0


def test_details_bring_what_hangs_on_them(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    log = make_log_file()
    make_signal(attempt=log.attempt)
    with django_assert_num_queries(2):
        assert list(selectors.attempt_detail(attempt_id=log.attempt_id).logs.all()) == [log]
    with django_assert_num_queries(2):
        assert list(selectors.job_detail(job_pk=log.attempt.job_id).attempts.all()) == [log.attempt]
    assert selectors.signals(attempt_id=log.attempt_id).count() == 1


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: selectors.incident_detail(incident_id=404), "There is no incident 404."),
        (lambda: selectors.run_detail(run_id=404), "There is no run 404."),
        (lambda: selectors.job_detail(job_pk=404), "There is no job 404."),
        (lambda: selectors.attempt_detail(attempt_id=404), "There is no attempt 404."),
    ],
)
def test_what_is_not_there_is_said_by_name(read: Callable[[], Any], message: str) -> None:
    with pytest.raises(selectors.NotFound, match=message):
        read()


# --- samples


def test_few_samples_come_whole_and_in_order() -> None:
    attempt = make_attempt()
    make_samples(attempt=attempt, count=50)
    found = selectors.samples_for(attempt_id=attempt.pk)
    assert [sample.step for sample in found] == list(range(1, 51))


def test_many_samples_are_thinned_evenly_and_keep_their_ends() -> None:
    attempt = make_attempt()
    make_samples(attempt=attempt, count=1000)
    steps = [sample.step for sample in selectors.samples_for(attempt_id=attempt.pk, max_points=100)]
    assert len(steps) <= 100
    assert (steps[0], steps[-1]) == (1, 1000)
    assert {b - a for a, b in pairwise(steps[:-1])} == {steps[1] - steps[0]}


def test_a_restore_is_not_smoothed_away() -> None:
    run = make_run()
    first = make_attempt(job=make_job(run=run))
    second = make_attempt(job=make_job(run=run))
    make_samples(attempt=first, count=852, last_at=ago(5000), every_s=1)
    make_samples(attempt=second, count=300, first_step=841, every_s=1)
    found = selectors.samples_for(run_id=run.pk, max_points=50)
    assert len(found) <= 50
    drop = next(i for i, sample in enumerate(found) if sample.attempt_id == second.pk)
    assert (found[drop - 1].step, found[drop].step) == (852, 841)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6), max_points=st.integers(1, 60))
def test_there_are_never_more_points_than_asked_for(sizes: list[int], max_points: int) -> None:
    run = make_run()
    for i, size in enumerate(sizes):
        make_samples(attempt=make_attempt(job=make_job(run=run)), count=size, last_at=ago(10_000 - 100 * i), every_s=1)
    found = selectors.samples_for(run_id=run.pk, max_points=max_points)
    assert 0 < len(found) <= max_points
    assert [sample.at for sample in found] == sorted(sample.at for sample in found)


def test_an_attempt_is_told_by_its_lowest_rank_that_reports() -> None:
    attempt = make_attempt()
    make_samples(attempt=attempt, count=3, rank=4)
    make_samples(attempt=attempt, count=3, rank=0)
    assert {sample.rank for sample in selectors.samples_for(attempt_id=attempt.pk)} == {0}
    assert {sample.rank for sample in selectors.samples_for(attempt_id=attempt.pk, rank=4)} == {4}
    make_samples(attempt=attempt, count=3, rank=-1)
    assert {sample.rank for sample in selectors.samples_for(attempt_id=attempt.pk)} == {-1}


def test_samples_can_be_cut_to_a_stretch_of_time() -> None:
    attempt = make_attempt()
    samples = make_samples(attempt=attempt, count=10)
    found = selectors.samples_for(attempt_id=attempt.pk, since=samples[3].at, until=samples[5].at)
    assert [sample.step for sample in found] == [4, 5, 6]


def test_samples_need_one_subject() -> None:
    with pytest.raises(ValueError, match="either"):
        selectors.samples_for()
    with pytest.raises(ValueError, match="either"):
        selectors.samples_for(attempt_id=1, run_id=1)


def test_an_attempt_without_samples_gives_none() -> None:
    assert selectors.samples_for(attempt_id=make_attempt().pk) == []
    assert Sample.objects.count() == 0


# --- incidents and policies


def test_who_waits_longest_for_a_person_comes_first() -> None:
    newer = make_incident(detected_at=ago(60))
    older = make_incident(state=IncidentState.NEEDS_PERSON, detected_at=ago(600))
    make_incident(state=IncidentState.WATCHING)
    make_incident(state=IncidentState.CLOSED)
    assert list(selectors.needs_person()) == [older, newer]


def test_an_incident_comes_with_all_that_belongs_to_it(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    incident = make_incident()
    old = make_recommendation(incident=incident, superseded_at=ago(100))
    current = make_recommendation(incident=incident)
    decision = make_decision(recommendation=current)
    action = make_action(recommendation=current)
    finding = make_finding(incident=incident)
    first, second = make_event(incident=incident), make_event(incident=incident, verb="incident.diagnosed")
    make_event(incident=make_incident())
    with django_assert_num_queries(7):
        detail = selectors.incident_detail(incident_id=incident.pk)
        assert detail.incident == incident
        assert (detail.recommendation, detail.superseded, detail.decision) == (current, (old,), decision)
    assert (detail.findings, detail.actions, detail.events) == ((finding,), (action,), (first, second))


def test_an_undecided_recommendation_has_no_decision() -> None:
    recommendation = make_recommendation()
    assert selectors.decision_on(selectors.recommendations().get(pk=recommendation.pk)) is None
    assert selectors.incident_detail(incident_id=make_incident().pk).decision is None


def test_events_can_be_read_on_from_the_last_one_seen() -> None:
    first, second = make_event(), make_event()
    assert list(selectors.events(after_id=first.pk)) == [second]


def test_the_newest_policy_holds() -> None:
    assert selectors.current_policy() is None
    make_policy()
    newest = make_policy()
    assert selectors.current_policy() == newest
    assert selectors.policies().count() == 2
