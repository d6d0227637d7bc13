"""Samples by the minute and by ten minutes, for charts of days and months.

Ten minutes of an attempt are due from the moment it gets a sample in them (recovery/pipeline/samples.py), and are
rolled up once they are over; whatever comes later makes them due again. Each is computed from its samples anew, in one
transaction with the note that it was due: killed at any point, it is as if nothing had been done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.db import connection, transaction

from recovery.models import MinuteRollup, RollupDue, TenMinuteRollup
from recovery.pipeline.samples import TEN_MINUTES, stored

GRACE = timedelta(minutes=1)  # after the ten minutes are over: the last lines are still being read
AT_ONCE = 2000  # due rows that are read in one go
_DAY = timedelta(days=1)

_STRETCHES = {
    "postgresql": {
        MinuteRollup: "date_trunc('minute', at)",
        TenMinuteRollup: "date_bin('10 minutes', at, TIMESTAMPTZ '2000-01-01 00:00:00+00')",
    },
    # times are texts there: 2026-01-31 23:59:59.123456
    "sqlite": {MinuteRollup: "substr(at, 1, 16) || ':00'", TenMinuteRollup: "substr(at, 1, 15) || '0:00'"},
}
_MEANS = ("loss", "throughput", "step_time_s")
_SET = ", ".join(f"{name} = excluded.{name}" for name in ("last_at", "step", "samples", *_MEANS, "tokens"))
_ROLL_UP = f"""
    INSERT INTO {{table}} (attempt_id, rank, at, last_at, step, samples, {", ".join(_MEANS)}, tokens)
    SELECT attempt_id, rank, stretch, max(at), max(CASE WHEN newest = 1 THEN step END), count(*),
           {", ".join(f"avg({name})" for name in _MEANS)}, max(tokens)
    FROM (
        SELECT *, row_number() OVER (PARTITION BY rank, stretch ORDER BY at DESC, step DESC) AS newest
        FROM (SELECT *, {{stretch}} AS stretch FROM recovery_sample
              WHERE attempt_id = %s AND at >= %s AND at < %s) AS its
    ) AS ranked
    WHERE true GROUP BY attempt_id, rank, stretch
    ON CONFLICT (attempt_id, rank, at) DO {{conflict}}
"""  # noqa: S608 - our own names


@dataclass(frozen=True, kw_only=True, slots=True)
class _Span:
    """Due stretches of one attempt within one day; what lies between them is rolled up with them."""

    attempt_id: int
    first: datetime
    last: datetime
    count: int


def roll_up(*, now: datetime, whole_since: datetime, go_on: Callable[[], bool]) -> int:
    """Roll up what is due while `go_on`; how many stretches were.

    Samples older than `whole_since` may have been removed: what was rolled up of them before stays as it is.
    """
    done = 0
    while go_on() and (spans := list(_due(now))):
        for span in spans:
            if not go_on():
                return done
            _roll_up(span, whole_since=whole_since)
            done += span.count
    return done


def _due(now: datetime) -> Iterator[_Span]:
    over = RollupDue.objects.filter(at__lte=now - TEN_MINUTES - GRACE)
    rows = sorted(over.order_by("at").values_list("attempt_id", "at")[:AT_ONCE])
    for (attempt_id, _), its in groupby(rows, key=lambda row: (row[0], row[1].date())):
        times = [at for _, at in its]
        yield _Span(attempt_id=attempt_id, first=times[0], last=times[-1], count=len(times))


def _roll_up(span: _Span, *, whole_since: datetime) -> None:
    conflict = f"UPDATE SET {_SET}" if span.first >= whole_since else "NOTHING"
    with transaction.atomic(), connection.cursor() as cursor:
        due = RollupDue.objects.filter(attempt_id=span.attempt_id, at__gte=span.first, at__lte=span.last)
        due._raw_delete(due.db)  # waits for those who are storing samples in it
        for model, stretch in _STRETCHES[connection.vendor].items():
            statement = _ROLL_UP.format(table=model._meta.db_table, stretch=stretch, conflict=conflict)
            cursor.execute(statement, [span.attempt_id, stored(span.first), stored(span.last + TEN_MINUTES)])
