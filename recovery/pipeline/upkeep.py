"""Keeping the tables: rolling samples up, making and dropping their days, removing what is older than a site keeps.

Driven by the tick like all other work that is due, in small transactions each of which leaves a right state behind: it
may be killed at any point, and the next pass goes on from there. docs/storage.md says what is kept for how long.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Model

from recovery.core.lifecycle import IncidentState
from recovery.core.types import SignalKind
from recovery.models import Incident, MinuteRollup, Sample, Signal, TenMinuteRollup, Upkeep
from recovery.pipeline import lock_out, measure, notices, partitions
from recovery.pipeline.leasing import Clock, with_lease
from recovery.pipeline.rollup import roll_up
from recovery.pipeline.samples import stored

EVERY = timedelta(minutes=1)
PASS = timedelta(seconds=20)  # so long one pass works; what is left follows at once, after other work
BATCH = 5000  # rows removed in one transaction: a writer waits for no more than that

_KEYS: dict[type[Model], str] = {
    Sample: "attempt_id, rank, step, at",
    MinuteRollup: "attempt_id, rank, at",
    TenMinuteRollup: "attempt_id, rank, at",
}


def due(now: datetime) -> list[int]:
    """The key of the row that drives it, where it is due. It is made where it is missing."""
    if not Upkeep.objects.exists():
        Upkeep.objects.bulk_create([Upkeep(next_look_at=now)], ignore_conflicts=True)
    return list(Upkeep.due(now).values_list("pk", flat=True))


def keep(pk: int, *, clock: Clock) -> None:
    """One pass, once at a time however many workers there are."""

    def look(row: Upkeep) -> datetime:
        began = clock()
        cut = False

        def go_on() -> bool:
            nonlocal cut
            cut = cut or clock() - began > PASS
            return not cut

        daily = row.at is None or row.at.date() != began.date() or bool(row.done.get("more"))
        done = _pass(now=began, daily=daily, go_on=go_on)
        done["more"] = int(cut)
        ended = clock()
        took_s = (ended - began).total_seconds()
        Upkeep.objects.filter(pk=row.pk).update(at=ended, took_s=took_s, done=done, error="")
        return ended if cut else ended + EVERY

    with_lease(Upkeep, pk, look, clock=clock)


def samples_kept_since(now: datetime) -> datetime:
    """Samples since then are all there; of the days before nothing may be. A midnight (UTC): whole days go."""
    oldest = now - timedelta(days=settings.KEEP_SAMPLES_DAYS)
    return datetime.combine(oldest.date(), time(), oldest.tzinfo)


def _pass(*, now: datetime, daily: bool, go_on: Callable[[], bool]) -> dict[str, int]:
    """What was done, in rows or parts."""
    oldest = samples_kept_since(now)
    done = {}
    if partitions.divided():
        done["days made"] = partitions.make_parts(now=now, oldest=oldest)
    done["stretches rolled up"] = roll_up(now=now, whole_since=oldest, go_on=go_on)
    if not go_on():
        return done  # after a long outage, say: what is not rolled up yet must not go
    if partitions.divided():
        done["days dropped"] = partitions.drop_parts(before=oldest)
    if daily:
        done |= _remove_old(now=now, oldest=oldest, go_on=go_on)
    return done


def _remove_old(*, now: datetime, oldest: datetime, go_on: Callable[[], bool]) -> dict[str, int]:
    done = {}
    minutes, ten_minutes = settings.KEEP_MINUTES_DAYS, settings.KEEP_TEN_MINUTES_DAYS
    done["samples removed"] = _remove(Sample, before=oldest, go_on=go_on)
    done["minutes removed"] = _remove(MinuteRollup, before=now - timedelta(days=minutes), go_on=go_on)
    done["ten minutes removed"] = _remove(TenMinuteRollup, before=now - timedelta(days=ten_minutes), go_on=go_on)
    lines_since = now - timedelta(days=settings.KEEP_FAILURE_LINES_DAYS)
    done["failure lines removed"] = _remove_failure_lines(before=lines_since, go_on=go_on)
    done["readings removed"] = measure.forget(now=now)
    done["notices and deliveries removed"] = notices.forget(now=now)
    done["sessions removed"] = Session.objects.filter(expire_date__lt=now).delete()[0]
    done["tries to log in forgotten"] = lock_out.forget(now=now)
    return done


def _remove(model: type[Model], *, before: datetime, go_on: Callable[[], bool]) -> int:
    """Row by row, in batches: on SQLite everything, on PostgreSQL what lies in no day of its own."""
    table, key = model._meta.db_table, _KEYS[model]
    statement = (
        f"DELETE FROM {table} WHERE at < %s AND ({key}) IN "  # noqa: S608 - our own names
        f"(SELECT {key} FROM {table} WHERE at < %s LIMIT {BATCH})"
    )
    removed = 0
    while go_on():
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, [stored(before), stored(before)])
            count = cursor.rowcount
        removed += count
        if count < BATCH:
            break
    return removed


def _remove_failure_lines(*, before: datetime, go_on: Callable[[], bool]) -> int:
    """Of attempts that ended before then and have no open case. Lines that a verdict rests on are copied in it."""
    busy = Incident.objects.exclude(state=IncidentState.CLOSED).values("attempt_id")
    old = Signal.objects.filter(kind=SignalKind.FAILURE, attempt__closed_at__lt=before).exclude(attempt__in=busy)
    removed = 0
    while go_on():
        count, _ = Signal.objects.filter(pk__in=old.order_by().values("pk")[:BATCH]).delete()
        removed += count
        if count < BATCH:
            break
    return removed
