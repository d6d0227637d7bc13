from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib import import_module

import pytest
from django.db import connection

guards = import_module("recovery.migrations.0002_append_only_events")


def break_in(statement: str, *parameters: str | int | datetime) -> None:
    """What somebody does who owns the tables and hides it: lift the triggers, change rows, put the triggers back."""
    guards.drop(connection)
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
    guards.create(connection)


def delete_with_seals(where: str, *parameters: str | int | datetime) -> None:
    """Events and their seals, so that no seal tells of an event that is gone."""
    for table in ("recovery_event", "recovery_seal"):
        break_in(f"DELETE FROM {table} WHERE {where}", *parameters)  # noqa: S608 - our own names


@pytest.fixture
def tamper(db: None) -> Callable[..., None]:
    return break_in
