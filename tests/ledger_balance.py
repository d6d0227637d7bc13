"""The ledger balances: an assertion for any test that has played a run, and a table of where its time went."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from recovery.core.ledger import Category, Totals, totals_of
from recovery.core.ledger.spans import to_datetime, to_us
from recovery.models import Attempt, LedgerDay, LedgerEntry, Run, RunLedger
from recovery.pipeline import account

TOLD: list[str] = []  # one line of each scenario: wall time, and where it went
COLUMNS = [(category, f"{category}_us", f"{category}_gpu_us") for category in Category]


def assert_balanced(run: Run, *, now: datetime | None = None) -> Totals:
    """Keep the run's ledger up to `now`; every microsecond from its first submission on is in exactly one entry, the
    days say the same as the entries, and keeping it from nothing gives the same. Returns the sums.

    May be called beside a desk that is at work: what a worker stores in between is looked at again.
    """
    now = now or datetime.now(UTC)
    for patience in (2, 1, 0):
        with transaction.atomic():
            RunLedger.objects.select_for_update().get_or_create(pk=run.pk)
            totals = _kept(run, now)
            before = stored(run)
            account.forget_run(run.pk)
            account.keep_run(run.pk, now=now)
            if stored(run) == before:
                return totals
        assert patience, f"{run}: kept from nothing the ledger differs"
    raise AssertionError


def _kept(run: Run, now: datetime) -> Totals:
    ledger = account.keep_run(run.pk, now=now)
    rows = stored(run)
    attempts = Attempt.objects.filter(job__run=run, submitted_at__lte=now)
    begins = [at for each in attempts for at in (each.submitted_at, each.started_at) if at is not None and at <= now]
    assert rows or not begins or min(begins) == now, f"{run}: no entry"
    edge = to_us(min(begins)) if begins else 0
    for row in rows:
        assert row[0] == edge, f"{run}: a gap or an overlap at {to_datetime(edge)}"
        assert row[1] > row[0]
        edge = row[1]
    totals = totals_of(ledger)
    assert totals.wall_us == (edge - rows[0][0] if rows else 0)
    assert _days(run) == totals
    kept = RunLedger.objects.get(run=run)
    assert kept.tail_category == "" or edge == kept.kept_us or not rows
    return totals


def stored(run: Run) -> list[tuple[Any, ...]]:
    """The entries as they lie in the table, by time."""
    return list(LedgerEntry.objects.filter(run=run).order_by("start_us").values_list(*account.ENTRY_FIELDS))


def _days(run: Run) -> Totals:
    rows = list(LedgerDay.objects.filter(run=run))
    return Totals(
        time_us=tuple(sum(getattr(row, time) for row in rows) for _, time, _ in COLUMNS),
        gpu_us=tuple(sum(getattr(row, gpus) for row in rows) for _, _, gpus in COLUMNS),
        before_start_us=sum(row.before_start_us for row in rows),
    )


def assert_all_balanced(name: str, *, now: datetime | None = None) -> None:
    """The ledgers of all runs balance; their sum is printed at the end of the tests (`TOLD`) under this name."""
    runs = list(Run.objects.order_by("pk"))
    total = sum((assert_balanced(run, now=now) for run in runs), Totals())
    parts = [f"{category} {total.time(category) / 1e6:.1f}" for category in Category if total.time(category)]
    TOLD.append(f"{name}: {len(runs)} runs, {total.wall_us / 1e6:.1f} s = {' + '.join(parts) or 'nothing'}")
