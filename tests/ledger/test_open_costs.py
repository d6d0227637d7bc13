"""What an open case costs is told as of the moment of reading, not as of its ledger's last change."""

from __future__ import annotations

from datetime import datetime, timedelta
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from recovery.core.ledger import Category
from recovery.core.ledger.spans import EPOCH
from recovery.core.lifecycle import IncidentState
from recovery.core.types import FailureClass, FindingKind, JobState, Outcome
from recovery.models import Attempt, Incident, IncidentCost, RunLedger
from recovery.pipeline import account
from recovery.pipeline.report import incident_report, report
from recovery.selectors.ledger_reads import Window, costs_by, dearest
from tests.factories import ago, make_attempt, make_incident, make_job, make_run, make_samples

pytestmark = pytest.mark.django_db

LATER = timedelta(minutes=4, seconds=28)
CHARGES = ("stalled_us", "stalled_gpu_us", "deciding_us", "deciding_gpu_us", "acting_us", "acting_gpu_us",
           "deciding_run_gpu_us", "lost_us", "lost_gpu_us")  # fmt: skip


def a_stop(*, held: bool = False, number: int = 0, **fields: object) -> Incident:
    """An open case on a run of 64 GPUs; `held`: its job hangs and holds them."""
    run = make_run(key=f"run-{number}", user=f"user-{number}")
    if held:
        attempt = make_attempt(job=make_job(run=run, job_id=str(700 + number)))
        make_samples(attempt=attempt, count=20, last_at=ago(600))
        fields = {"kind": FindingKind.HANG, **fields}
    else:
        job = make_job(run=run, job_id=str(700 + number), state=JobState.FAILED)
        attempt = make_attempt(job=job, state=JobState.FAILED, ended_at=ago(482))
    return make_incident(attempt=attempt, **{"state": IncidentState.AWAITING_DECISION, **fields})  # type: ignore[arg-type]


def charged(incident: Incident, *, now: datetime) -> tuple[object, ...]:
    window = Window(start=EPOCH, end=now, only={"run": incident.run_id})
    ((_, values),) = costs_by(window, "run", CHARGES, now=now)
    return tuple(values)


def stored(incident: Incident) -> tuple[object, ...]:
    return tuple(IncidentCost.objects.values_list(*CHARGES).get(pk=incident.pk))


@pytest.mark.parametrize("held", [False, True], ids=["gone", "held"])
@pytest.mark.parametrize("state", [IncidentState.AWAITING_DECISION, IncidentState.ACTING, IncidentState.WATCHING])
def test_it_costs_what_its_ledger_would_say_if_it_were_kept_now(state: IncidentState, held: bool) -> None:
    incident = a_stop(held=held, state=state)
    kept = timezone.now()
    account.keep_run(incident.run_id, now=kept)
    told = charged(incident, now=kept + LATER)
    account.keep_run(incident.run_id, now=kept + LATER)
    assert told == stored(incident) == charged(incident, now=kept + LATER)


def test_the_page_and_the_report_tell_the_same_wait_as_the_clock() -> None:
    incident = a_stop()
    kept = timezone.now()
    account.keep_run(incident.run_id, now=kept)
    now = kept + LATER
    waited = (now - incident.detected_at).total_seconds()
    cost = incident_report(incident, now=now)
    assert cost.decision_wait_s == pytest.approx(waited)
    assert cost.decision_gpu_hours == pytest.approx(64 * waited / 3600)
    for by in ("run", "user", "policy", "cluster"):
        figures = report(Window(start=EPOCH, end=now, only={}), by=by, now=now).total.figures
        assert figures.decision_wait_s == pytest.approx(figures.seconds[Category.DECIDING]) == pytest.approx(waited)


def test_waiting_ends_with_the_decision_though_the_ledger_was_not_looked_at_since() -> None:
    incident = a_stop()
    kept = timezone.now()
    account.keep_run(incident.run_id, now=kept)
    decided = kept + timedelta(seconds=40)
    Incident.objects.update(decided_at=decided, state=IncidentState.ACTING)
    waited = (decided - incident.detected_at).total_seconds()
    assert incident_report(incident, now=kept + LATER).decision_wait_s == pytest.approx(waited)


def test_the_newest_stop_of_a_run_is_charged_and_no_older_one_and_no_slowdown() -> None:
    newest = a_stop()
    older = make_incident(attempt=newest.attempt, state=IncidentState.CLOSED, failed_at=ago(900), detected_at=ago(890),
                          closed_at=ago(800))  # fmt: skip
    slow = make_incident(attempt=newest.attempt, kind=FindingKind.SLOWDOWN, state=IncidentState.CLOSED,
                         failed_at=ago(300), detected_at=ago(290), closed_at=ago(280))  # fmt: skip
    kept = timezone.now()
    account.keep_run(newest.run_id, now=kept)
    before = {each.pk: stored(each) for each in (newest, older, slow)}
    cost = {each.pk: incident_report(each, now=kept + LATER).decision_wait_s for each in (newest, older, slow)}
    grown = {pk: round((cost[pk] or 0) - before[pk][2] / 1e6, 6) for pk in before}  # type: ignore[operator]
    assert grown == {newest.pk: LATER.total_seconds(), older.pk: 0, slow.pk: 0}


def test_a_run_that_trains_again_costs_nothing_more() -> None:
    incident = a_stop(state=IncidentState.AWAITING_CHECKPOINT)
    job = incident.attempt.job
    job.__class__.objects.update(state=JobState.RUNNING)
    again = make_attempt(job=job, number=1, submitted_at=ago(200), started_at=ago(190))
    make_samples(attempt=again, count=5, last_at=ago(5))
    account.keep_run(incident.run_id, now=timezone.now())
    assert RunLedger.objects.get().tail_category == Category.NOT_YET_KEPT
    assert charged(incident, now=timezone.now() + LATER) == stored(incident)


def test_the_dearest_are_told_and_sorted_by_what_they_cost_now() -> None:
    waits, closed = a_stop(number=0), a_stop(number=1, state=IncidentState.CLOSED, closed_at=ago(10))
    kept = timezone.now()
    for each in (waits, closed):
        account.keep_run(each.run_id, now=kept)
    IncidentCost.objects.filter(pk=waits.pk).update(deciding_run_gpu_us=0, lost_gpu_us=0)
    IncidentCost.objects.filter(pk=closed.pk).update(deciding_run_gpu_us=60_000_000, lost_gpu_us=0, interruption=True)
    window = Window(start=EPOCH, end=kept + LATER, only={})
    assert [cost.pk for cost in dearest(window, 1, now=kept)] == [closed.pk]
    (first,) = dearest(window, 1, now=kept + LATER)
    assert (first.pk, first.deciding_run_gpu_us) == (waits.pk, 64 * int(LATER.total_seconds()) * 1_000_000)


def test_however_many_cases_are_open_the_statements_are_as_many(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    now = timezone.now()
    incident = a_stop()
    account.keep_run(incident.run_id, now=now)
    window = Window(start=EPOCH, end=now + LATER, only={})
    for number in range(1, 6):
        with django_assert_num_queries(2):
            incident_report(incident, now=now + LATER)
        with django_assert_num_queries(3):
            dearest(window, 10, now=now + LATER)
        with django_assert_num_queries(5):
            report(window, by="user", now=now + LATER)
        account.keep_run(a_stop(number=number).run_id, now=now)


# --- what is an interruption
def test_a_job_that_its_user_cancelled_is_no_interruption() -> None:
    incident = a_stop(state=IncidentState.CLOSED, failure_class=FailureClass.EXTERNAL_CANCEL,
                      outcome=Outcome.STOPPED_ON_PURPOSE, closed_at=ago(400))  # fmt: skip
    Attempt.objects.update(state=JobState.CANCELLED)
    account.keep_run(incident.run_id, now=timezone.now())
    figures = report(Window(start=EPOCH, end=timezone.now(), only={}), by="run", now=timezone.now()).total.figures
    assert (figures.interruptions, figures.interruptions_per_1000_gpu_hours) == (0, 0)
    assert figures.clocks["detect"] is None


def test_a_diagnosis_that_changes_is_seen_at_the_next_look() -> None:
    incident = a_stop()
    now = timezone.now()
    account.watch_ledger(incident.run_id, clock=lambda: now)
    assert IncidentCost.objects.get().interruption
    Incident.objects.update(failure_class=FailureClass.EXTERNAL_CANCEL)
    account.watch_ledger(incident.run_id, clock=lambda: now + timedelta(minutes=1))
    assert not IncidentCost.objects.get().interruption


def test_ledgers_that_sleep_are_woken_where_newer_rules_tell_them_differently() -> None:
    cancelled = a_stop(number=0, state=IncidentState.CLOSED, failure_class=FailureClass.EXTERNAL_CANCEL)
    other = a_stop(number=1, state=IncidentState.CLOSED, outcome=Outcome.RECOVERED)
    scratch = make_attempt(job=make_job(run=make_run(key="scratch"), job_id="799"), fresh_start=True)
    for run in (cancelled.run, other.run, scratch.job.run):
        RunLedger.objects.create(run=run, next_look_at=None)
    editor = SimpleNamespace(connection=connection)
    import_module("recovery.migrations.0015_ledgers_by_newer_rules").wake(apps, editor)
    woken = set(RunLedger.objects.exclude(next_look_at=None).values_list("pk", flat=True))
    assert woken == {cancelled.run_id, scratch.job.run_id}
