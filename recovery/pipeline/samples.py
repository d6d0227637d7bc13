"""Part of ingest: progress samples on their way into the table, each stored once.

In a transaction of its own or of the caller's: the samples, and which ten minutes of which attempt must be rolled up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from django.db import connection, transaction

from recovery.models import Sample

FIELDS = ("attempt_id", "rank", "step", "at", "loss", "throughput", "step_time_s", "tokens")
_TYPES = ("bigint", "int", "int", "timestamptz", "float8", "float8", "float8", "float8")
TEN_MINUTES = timedelta(minutes=10)

# One statement however many rows: an array for each column. Measured (benchmarks/samples.py): four times as fast as a
# list of values, and without the temporary table that COPY would need to leave out what is there already.
_POSTGRESQL = (
    f"INSERT INTO recovery_sample ({', '.join(FIELDS)}) "  # noqa: S608 - our own names
    f"SELECT * FROM unnest({', '.join(f'%s::{kind}[]' for kind in _TYPES)}) ON CONFLICT DO NOTHING"
)
_SQLITE = (
    f"INSERT INTO recovery_sample ({', '.join(FIELDS)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join('%s' for _ in FIELDS)}) ON CONFLICT DO NOTHING"
)
# The update locks the row: whoever rolls up waits for us, or we for them, and no sample is left out.
_DUE = (
    "INSERT INTO recovery_rollupdue (attempt_id, at, touched) VALUES (%s, %s, 0) "
    "ON CONFLICT (attempt_id, at) DO UPDATE SET touched = 1"
)


def store_samples(rows: Sequence[Sample]) -> None:
    """Store each sample once: a row whose key is there already is left as it is."""
    if not rows:
        return
    due = sorted({(row.attempt_id, ten_minutes_of(row.at)) for row in rows})
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_POSTGRESQL, [_array(rows, field) for field in FIELDS])
        else:
            cursor.executemany(_SQLITE, _values(rows))
        cursor.executemany(_DUE, [(attempt, stored(at)) for attempt, at in due])


def ten_minutes_of(at: datetime) -> datetime:
    """When the ten minutes begin that `at` lies in."""
    return at.replace(minute=at.minute // 10 * 10, second=0, microsecond=0)


def stored(at: datetime) -> str:
    """As this database takes it in SQL of our own."""
    return str(connection.ops.adapt_datetimefield_value(at))


def _values(rows: Iterable[Sample]) -> list[tuple[str | float | None, ...]]:
    return [
        (r.attempt_id, r.rank, r.step, stored(r.at), r.loss, r.throughput, r.step_time_s, r.tokens) for r in rows
    ]  # fmt: skip


def _array(rows: Iterable[Sample], field: str) -> str:
    """A column as PostgreSQL writes an array: numbers and times hold nothing that needs quoting but blanks."""
    text: Callable[[object], str] = _time if field == "at" else str
    column = (getattr(row, field) for row in rows)
    return f"{{{','.join('NULL' if value is None else text(value) for value in column)}}}"


def _time(at: object) -> str:
    return f'"{at}"'
