"""The ledger's stage: kept as things change, the same as from nothing, and it outlives samples and signals."""

from __future__ import annotations

import random
from datetime import timedelta
from unittest.mock import patch

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from recovery.core.ledger import Category, Totals, keep_ledger, totals_of
from recovery.core.lifecycle import IncidentState
from recovery.core.types import FindingKind, JobState, SignalKind
from recovery.models import (
    Attempt,
    AttemptTrace,
    BlindSpell,
    IncidentCost,
    LedgerEntry,
    Run,
    RunLedger,
    Sample,
    Signal,
)
from recovery.pipeline import account
from recovery.pipeline.blind_spells import note_blindness
from recovery.pipeline.ledger_facts import facts_of, history_of, traces_of
from recovery.selectors.ledger_reads import Window, totals_by
from tests.factories import (
    ago,
    make_attempt,
    make_checkpoint,
    make_finding,
    make_incident,
    make_job,
    make_policy,
    make_run,
    make_samples,
    make_signal,
)
from tests.ledger_balance import assert_balanced, stored

pytestmark = pytest.mark.django_db
HOUR = 3600


def a_long_run() -> Run:
    """Two attempts of ten hours, each with its saves, and a crash between them; all of it is over and settled."""
    run = make_run()
    job = make_job(run=run, state=JobState.COMPLETED, first_submitted_at=ago(24 * HOUR), submitted_at=ago(24 * HOUR))
    for number, (start, end) in enumerate([(23.5, 13.5), (13, 3)]):
        origin = 580 * number
        attempt = make_attempt(
            job=job, number=number, state=JobState.NODE_FAIL if number == 0 else JobState.COMPLETED,
            submitted_at=ago((start + 0.25) * HOUR), started_at=ago(start * HOUR), ended_at=ago(end * HOUR),
            closed_at=ago(end * HOUR), restored_step=origin,
        )  # fmt: skip
        make_signal(attempt=attempt, kind=SignalKind.LOADED, step=origin, at=ago(start * HOUR - 240))
        make_samples(attempt=attempt, count=590, first_step=origin + 1, last_at=ago(end * HOUR + 60), every_s=60)
        for save in range(60, 590, 60):
            at = end * HOUR + 60 + (589 - save) * 60
            make_signal(attempt=attempt, kind=SignalKind.SAVE_STARTED, step=origin + save, at=ago(at - 5))
            make_signal(attempt=attempt, kind=SignalKind.SAVE_DURABLE, step=origin + save, at=ago(at - 35))
            make_checkpoint(run=run, attempt=attempt, step=origin + save, completed_at=ago(at - 37))
        if number == 0:
            make_incident(
                attempt=attempt, state=IncidentState.CLOSED, failed_at=ago(end * HOUR),
                detected_at=ago(end * HOUR - 20), closed_at=ago(12 * HOUR), failed_step=590, restored_step=580,
            )  # fmt: skip
    return run


def test_kept_hour_by_hour_it_is_the_same_as_kept_once() -> None:
    run = a_long_run()
    for hour in range(24, 0, -1):
        account.keep_run(run.pk, now=ago(hour * HOUR))
    account.keep_run(run.pk, now=timezone.now())
    bit_by_bit = stored(run)
    traces = list(AttemptTrace.objects.order_by("pk").values_list("marks", "signals", "final"))
    account.forget_run(run.pk)
    AttemptTrace.objects.all().delete()
    account.keep_run(run.pk, now=timezone.now())
    assert stored(run) == bit_by_bit
    assert list(AttemptTrace.objects.order_by("pk").values_list("marks", "signals", "final")) == traces
    assert len(bit_by_bit) > 40
    assert_balanced(run)


def test_a_ledger_outlives_samples_and_signals() -> None:
    run = a_long_run()
    now = timezone.now()
    account.keep_run(run.pk, now=now)
    before = stored(run)
    assert AttemptTrace.objects.filter(final=True).count() == 2
    Sample.objects.all().delete()
    Signal.objects.all().delete()
    account.forget_run(run.pk)
    account.keep_run(run.pk, now=now)
    assert stored(run) == before


def test_a_trace_is_far_smaller_than_its_samples_and_tells_the_same() -> None:
    run = a_long_run()
    thinned = account.keep_run(run.pk, now=timezone.now())
    facts = facts_of(run.pk)
    with patch("recovery.pipeline.ledger_facts.thin", lambda marks, **_: sorted(set(marks))):
        AttemptTrace.objects.all().delete()
        whole = keep_ledger(history_of(facts, traces_of(facts, now=timezone.now())), now=timezone.now())
    assert totals_of(thinned).time_us == pytest.approx(totals_of(whole).time_us, abs=1_000_000)


def test_a_quiet_look_writes_nothing() -> None:
    run = make_attempt().job.run
    clock = timezone.now()
    account.watch_ledger(run.pk, clock=lambda: clock)
    row = RunLedger.objects.get()
    later = clock + timedelta(minutes=1)
    with CaptureQueriesContext(connection) as caught:
        account.watch_ledger(run.pk, clock=lambda: later)
    assert not [query for query in caught if "ledgerentry" in query["sql"] or "recovery_sample" in query["sql"]]
    again = RunLedger.objects.get()
    assert (again.kept_us, again.facts_key) == (row.kept_us, row.facts_key)
    assert again.next_look_at == later + account.EVERY


def test_what_is_learned_rewrites_only_what_differs() -> None:
    run = a_long_run()
    account.keep_run(run.pk, now=timezone.now())
    before = dict(LedgerEntry.objects.values_list("start_us", "pk"))
    IncidentCost.objects.update(lost_us=1)
    make_checkpoint(run=run, step=1165, completed_at=ago(3 * HOUR + 60), attempt=Attempt.objects.latest("pk"))
    account.keep_run(run.pk, now=timezone.now())
    after = dict(LedgerEntry.objects.values_list("start_us", "pk"))
    kept = [start for start, pk in before.items() if after.get(start) == pk]
    assert len(kept) >= len(before) - 5
    assert IncidentCost.objects.get().lost_us != 1


def test_killed_in_the_middle_nothing_is_half_stored() -> None:
    run = a_long_run()
    account.keep_run(run.pk, now=ago(10 * HOUR))
    before = stored(run), RunLedger.objects.values().get()
    with patch.object(account, "_store_costs", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        account.keep_run(run.pk, now=timezone.now())
    assert (stored(run), RunLedger.objects.values().get()) == before
    assert_balanced(run)


def test_a_look_that_comes_late_takes_nothing_back() -> None:
    run = make_attempt().job.run
    now = timezone.now()
    account.keep_run(run.pk, now=now)
    account.keep_run(run.pk, now=now - timedelta(minutes=5))
    assert RunLedger.objects.get().kept_us == stored(run)[-1][1]
    assert stored(run)[-1][1] > 0
    totals = assert_balanced(run, now=now)
    assert totals.wall_us > 0


# --- what is due
def test_a_new_run_is_due_then_every_minute_then_no_more_once_it_is_over() -> None:
    run = a_long_run()
    now = timezone.now()
    assert account.due(now) == [[run.pk]]
    account.watch_ledger(run.pk, clock=lambda: now)
    assert account.due(now + timedelta(days=1)) == []
    Attempt.objects.update(closed_at=None)
    assert account.due(now) == [[run.pk]]
    account.watch_ledger(run.pk, clock=lambda: now)
    assert RunLedger.objects.get().next_look_at == now + account.SETTLING


def test_an_open_case_wakes_a_ledger_that_slept() -> None:
    run = a_long_run()
    now = timezone.now()
    account.watch_ledger(run.pk, clock=lambda: now)
    make_incident(attempt=Attempt.objects.earliest("pk"), state=IncidentState.AWAITING_DECISION)
    assert account.due(now) == [[run.pk]]


def test_a_run_that_is_gone_is_passed_over() -> None:
    account.watch_ledger(4711, clock=timezone.now)
    assert not RunLedger.objects.exists()


def test_while_one_worker_looks_the_other_leaves_it_alone() -> None:
    run = make_attempt().job.run
    RunLedger.objects.create(run=run, leased_until=ago(-60))
    account.watch_ledger(run.pk, clock=timezone.now)
    assert stored(run) == []


# --- blindness, slowdowns, GPUs
def test_a_blind_spell_is_unknown_time_until_it_can_be_seen_again() -> None:
    attempt = make_attempt(submitted_at=ago(1000), started_at=ago(1000), blind_reason="The log can't be read.")
    attempt.job.first_submitted_at = ago(1000)
    attempt.job.save()
    note_blindness(attempt, "", ago(600))
    note_blindness(attempt, "", ago(500))  # said twice, by a worker that was killed
    attempt.blind_reason = "The log does not exist."
    note_blindness(attempt, "The log can't be read.", ago(400))
    attempt.blind_reason = ""
    note_blindness(attempt, "The log does not exist.", ago(100))
    (spell,) = BlindSpell.objects.all()
    assert (spell.reason, (spell.ended_at - spell.started_at).total_seconds()) == (  # type: ignore[operator]
        "The log can't be read.", pytest.approx(500, abs=1),
    )  # fmt: skip
    totals = assert_balanced(attempt.job.run)
    assert totals.time(Category.UNKNOWN) == pytest.approx(500e6, abs=1e6)


def test_a_slowdown_lasts_from_its_first_slow_report_to_the_first_quick_one() -> None:
    attempt = make_attempt(submitted_at=ago(9000), started_at=ago(9000), closed_at=ago(10), ended_at=ago(20),
                           state=JobState.COMPLETED)  # fmt: skip
    at = [ago(9000 - 10 * n) for n in range(300)] + [ago(6000 - 40 * n) for n in range(60)]
    at += [ago(3600 - 10 * n) for n in range(100)]
    Sample.objects.bulk_create(Sample(attempt=attempt, step=n + 1, at=when) for n, when in enumerate(at))
    make_checkpoint(run=attempt.job.run, step=455, completed_at=ago(2620), attempt=attempt)
    incident = make_incident(
        attempt=attempt, kind=FindingKind.SLOWDOWN, state=IncidentState.CLOSED, failed_at=at[301], detected_at=at[320],
        closed_at=ago(2600),
    )  # fmt: skip
    make_finding(incident=incident, kind=FindingKind.SLOWDOWN, since=at[301], at=at[320])
    totals = assert_balanced(attempt.job.run)
    slow = totals.time(Category.SLOWED) / 1e6
    assert slow == pytest.approx((at[360] - at[301]).total_seconds(), abs=45)


def test_each_attempt_holds_the_gpus_of_its_own_allocation() -> None:
    job = make_job(gpus=64, first_submitted_at=ago(3000), state=JobState.COMPLETED)
    times = {"submitted_at": ago(3000), "state": JobState.REQUEUED}
    make_attempt(job=job, number=0, started_at=ago(3000), ended_at=ago(2000), gpus=32, **times)
    make_attempt(job=job, number=1, started_at=ago(2000), ended_at=ago(1500), gpus=None, **times)
    totals = assert_balanced(job.run)
    assert totals.allocated_us == pytest.approx((1000 * 32 + 500 * 64) * 1e6, rel=1e-3)


# --- windows
def test_every_window_is_exact_to_the_microsecond() -> None:
    run = a_long_run()
    make_policy(created_at=ago(20 * HOUR))
    now = timezone.now()
    ledger = account.keep_run(run.pk, now=now)
    chance = random.Random(7)
    for _ in range(40):
        start, end = sorted(ago(chance.uniform(-1, 50) * HOUR) for _ in range(2))
        expected = totals_of(ledger, start=start, end=end)
        for by in ("run", "policy", "day"):
            found = totals_by(Window(start=start, end=end, only={}), by, now=now)
            assert sum(found.values(), Totals()) == expected


def test_the_tail_of_a_run_that_goes_on_is_in_every_window() -> None:
    attempt = make_attempt(submitted_at=ago(1000), started_at=ago(900))
    attempt.job.first_submitted_at = ago(1000)
    attempt.job.save()
    kept = timezone.now()
    ledger = account.keep_run(attempt.job.run_id, now=kept)
    later = kept + timedelta(days=3, seconds=5)
    window = Window(start=kept - timedelta(days=1), end=later + timedelta(days=9), only={})
    found = totals_by(window, "day", now=later)
    whole = sum(found.values(), Totals())
    assert whole.wall_us == totals_of(ledger).wall_us + (later - kept) // timedelta(microseconds=1)
    assert len(found) in (4, 5)


def test_time_counts_for_the_account_of_the_job_that_was_submitted_last() -> None:
    run = make_run()
    for name, submitted, ended in (("research", 5000, 3000), ("urgent", 2500, 500)):
        job = make_job(run=run, account=name, first_submitted_at=ago(submitted), state=JobState.COMPLETED)
        make_attempt(
            job=job,
            submitted_at=ago(submitted),
            started_at=ago(submitted),
            ended_at=ago(ended),
            state=JobState.COMPLETED,
        )
    now = timezone.now()
    account.keep_run(run.pk, now=now)
    found = totals_by(Window(start=ago(9000), end=now, only={}), "account", now=now)
    assert {name: total.wall_us / 1e6 for name, total in found.items()} == pytest.approx(
        {"research": 2500, "urgent": 2000}, abs=1
    )
    only = totals_by(Window(start=ago(9000), end=now, only={"account": "urgent"}), "partition", now=now)
    assert only["train"].wall_us / 1e6 == pytest.approx(2000, abs=1)
