"""The audit trail and the policy's versions can be added to, and that is all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import Model

from recovery.models import Event, PolicyVersion
from tests.factories import make_event, make_policy

MAKERS: list[Callable[[], Event | PolicyVersion]] = [make_event, make_policy]
guards = import_module("recovery.migrations.0002_append_only_events")


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__)
def row(request: pytest.FixtureRequest, db: None) -> Iterator[Event | PolicyVersion]:
    """A stored row that must still be there, unchanged, when the test is over."""
    made: Event | PolicyVersion = request.param()
    yield made
    assert type(made)._default_manager.filter(pk=made.pk, reason=made.reason).count() == 1


def refused(statement: str, row: Model) -> None:
    """The database refuses a statement on the {table} of `row`."""
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(table=row._meta.db_table))


@pytest.mark.parametrize(
    "change",
    [
        lambda row: type(row).objects.filter(pk=row.pk).update(reason="another"),
        lambda row: type(row)(pk=row.pk, **{**fields_of(row), "reason": "another"}).save(),
        lambda row: type(row).objects.filter(pk=row.pk).delete(),
        lambda row: type(row).objects.get(pk=row.pk).delete(),
        lambda row: type(row).objects.bulk_update([type(row)(pk=row.pk, reason="another")], ["reason"]),
    ],
    ids=["update", "save", "delete of a set", "delete of one", "bulk update"],
)
def test_the_orm_can_neither_change_nor_delete(
    row: Event | PolicyVersion, change: Callable[[Event | PolicyVersion], object]
) -> None:
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        change(row)


def fields_of(row: Model) -> dict[str, object]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields if not field.primary_key}


UPSERT = "INSERT INTO {table} SELECT * FROM {table} WHERE true ON CONFLICT (id) DO UPDATE SET reason = 'another'"
STATEMENTS = {
    "sqlite": ["REPLACE INTO {table} SELECT * FROM {table}", "UPDATE OR REPLACE {table} SET id = id + 1"],
    "postgresql": ["TRUNCATE {table} CASCADE", "TRUNCATE recovery_cluster, {table} CASCADE"],
}


@pytest.mark.parametrize(
    "statement",
    ["UPDATE {table} SET reason = 'another'", "DELETE FROM {table}", UPSERT, *STATEMENTS[connection.vendor]],
)
def test_sql_can_neither_change_nor_delete(row: Event | PolicyVersion, statement: str) -> None:
    refused(statement, row)


def test_rows_are_still_added(row: Event | PolicyVersion) -> None:
    assert (make_event if isinstance(row, Event) else make_policy)().pk > row.pk


def test_the_triggers_can_be_dropped_and_made_again(row: Event | PolicyVersion) -> None:
    guards.drop(connection)
    type(row)._default_manager.filter(pk=row.pk).update(reason=row.reason)
    guards.create(connection)
    guards.create(connection)
    refused("DELETE FROM {table}", row)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("turn", [1, 2])
def test_a_transactional_test_starts_empty_and_guarded(turn: int) -> None:
    assert not Event.objects.exists()
    refused("DELETE FROM {table}", make_event())
