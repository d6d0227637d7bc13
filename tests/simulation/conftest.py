"""The first throw-away database of a session is migrated as ever; the later ones are copies of what it was then."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections

from recovery.simulation import database


@pytest.fixture(scope="session", autouse=True)
def _migrated_once() -> Iterator[None]:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as kept, pytest.MonkeyPatch.context() as patch:

        def migrate(name: str, **options: Any) -> None:
            connection = connections["default"]
            connection.ensure_connection()
            if kept.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                kept.backup(connection.connection)
                return
            call_command(name, **options)
            connection.connection.backup(kept)

        patch.setattr(database, "call_command", migrate)
        yield
