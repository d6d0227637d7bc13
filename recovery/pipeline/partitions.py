"""The days of the table of samples on PostgreSQL: made ahead of time, dropped when they are too old.

A part is named for its day (UTC). What no part is there for (a log that is read days later) lies in the default part
until its day is made; so a sample always has a place, whatever upkeep does or doesn't. A part whose name has "before"
in it is what was stored when days were introduced.

Every change of the parts needs a short lock on the table. Who waits for one holds up all who come after it, so nobody
waits for long: what can't be had now is tried again a minute later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper

TABLE = "recovery_sample"
DEFAULT = f"{TABLE}_default"
AHEAD = 3  # days
LOCK_WAIT = "2s"
_NAME = re.compile(rf"{TABLE}_(day|before)_([0-9]{{8}})")
_NO_LOCK = ("55P03", "40P01")  # SQLSTATE: lock_not_available, deadlock_detected
_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    name: str
    start: date | None  # None: from the beginning
    end: date  # the first day that is no longer in it


def divided() -> bool:
    return connection.vendor == "postgresql"


def parts() -> list[Part]:
    """Those with a day, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = %s::regclass", [TABLE]
        )
        found = [part for (name,) in cursor.fetchall() if (part := _part(name)) is not None]
    return sorted(found, key=lambda part: part.end)


def _part(name: str) -> Part | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    day = datetime.strptime(found[2], "%Y%m%d").replace(tzinfo=UTC).date()
    if found[1] == "before":
        return Part(name=name, start=None, end=day)
    return Part(name=name, start=day, end=day + _DAY)


def make_parts(*, now: datetime, oldest: datetime) -> int:
    """A part for today and each of the days to come, and for each day since `oldest` that has rows without one."""
    today = now.astimezone(UTC).date()
    wanted = {today + number * _DAY for number in range(AHEAD + 1)} | _days_without(oldest)
    there = parts()
    made = 0
    for day in sorted(wanted):
        if not any((part.start or date.min) <= day < part.end for part in there):
            made += _make(day)
    return made


def _days_without(oldest: datetime) -> set[date]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT DISTINCT (at AT TIME ZONE 'UTC')::date FROM {DEFAULT} WHERE at >= %s",  # noqa: S608 - our own names
            [_midnight(oldest.astimezone(UTC).date())],
        )
        return {day for (day,) in cursor.fetchall()}


def _make(day: date) -> int:
    """Make the part and move into it what lies in the default part. Returns 1, or 0 where the table is busy."""
    name = f"{TABLE}_day_{day:%Y%m%d}"
    start, end = _midnight(day), _midnight(day + _DAY)
    with _brief_locks() as got, transaction.atomic(), connection.cursor() as cursor:
        _wait_no_longer(cursor)
        cursor.execute(f"LOCK TABLE {DEFAULT} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(f"CREATE TABLE {name} (LIKE {TABLE} INCLUDING DEFAULTS)")
        cursor.execute(
            f"WITH late AS (DELETE FROM {DEFAULT} WHERE at >= %s AND at < %s RETURNING *) "  # noqa: S608 - our own names
            f"INSERT INTO {name} SELECT * FROM late",
            [start, end],
        )
        cursor.execute(f"ALTER TABLE {TABLE} ATTACH PARTITION {name} FOR VALUES FROM (%s) TO (%s)", [start, end])
        got.append(name)
    return len(got)


def drop_parts(*, before: datetime) -> int:
    """Drop those that end before; how many were dropped."""
    last = before.astimezone(UTC).date()
    got: list[str] = []
    for part in parts():
        if part.end <= last:
            with _brief_locks() as dropped, transaction.atomic(), connection.cursor() as cursor:
                _wait_no_longer(cursor)
                cursor.execute(f"DROP TABLE {part.name}")
                dropped.append(part.name)
            got += dropped
    return len(got)


def _wait_no_longer(cursor: CursorWrapper) -> None:
    cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_WAIT])


@contextmanager
def _brief_locks() -> Iterator[list[str]]:
    """What was done within. A lock that can't be had in time undoes it, and that is no error."""
    done: list[str] = []
    try:
        yield done
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) not in _NO_LOCK:
            raise
        done.clear()


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
