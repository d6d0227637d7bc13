"""Many rows at once: how poll keeps the number of its queries small."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

from django.db import connection
from django.db.models import Model

CHUNK = 500  # keys in one question (SQLite takes 999 values in a statement), rows in one insert

Item = TypeVar("Item")
Row = TypeVar("Row", bound=Model)


def chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]


def write_changes(rows: Sequence[Row], fields: Sequence[str]) -> None:
    """Write these columns of rows that exist.

    As an insert that meets its own row: far cheaper than bulk_update, which writes a CASE for each value.
    A row that was deleted meanwhile comes back whole.
    """
    if rows:
        type(rows[0])._default_manager.bulk_create(
            rows, batch_size=CHUNK, update_conflicts=True, unique_fields=["id"], update_fields=fields
        )


class Snapshot(Generic[Row]):
    """Rows as they were read, to write what has changed since: those columns in which any of them differs.

    Most of what a poll writes is a few columns of many.
    """

    def __init__(self, rows: Iterable[Row], fields: Sequence[str]) -> None:
        """`fields`: at least two, of which the others are never written."""
        self._fields = fields
        self._values = attrgetter(*fields)
        self._before: dict[object, tuple[object, ...]] = {row.pk: self._values(row) for row in rows}

    def write(self, rows: Sequence[Row]) -> None:
        pairs = [(self._before[row.pk], self._values(row)) for row in rows]
        differing = [
            name
            for place, name in enumerate(self._fields)
            if any(before[place] != after[place] for before, after in pairs)
        ]
        update_rows(rows, differing)


def update_rows(rows: Sequence[Row], fields: Sequence[str]) -> None:
    """Write these columns of rows, as one prepared statement that is run for each; what was deleted stays so.

    In the order of the keys, so that two writers wait for each other instead of for ever.
    """
    if not rows or not fields:
        return
    meta = type(rows[0])._meta
    columns = [column for column in meta.concrete_fields if column.name in fields]
    quote = connection.ops.quote_name
    assigned = ", ".join(f"{quote(column.column or column.attname)} = %s" for column in columns)
    values = [
        [*(column.get_db_prep_save(getattr(row, column.attname), connection) for column in columns), row.pk]
        for row in sorted(rows, key=attrgetter("pk"))
    ]
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {quote(meta.db_table)} SET {assigned} WHERE {quote('id')} = %s", values)  # noqa: S608 - our own names
