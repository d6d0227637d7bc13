"""A throw-away database: in memory, with all tables, in place of the installation's own while a scenario runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.db import connections
from django.db.utils import load_backend

from recovery.env import sqlite


@contextmanager
def throw_away_database() -> Iterator[None]:
    """In this thread every query of the block goes there; the installation's own database is not even connected to."""
    usual = connections["default"]
    settings = connections.configure_settings({"default": {**sqlite(Path()), "NAME": ":memory:"}})["default"]
    connection = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, "default")
    connections["default"] = connection
    try:
        call_command("migrate", verbosity=0, interactive=False)
        yield
    finally:
        connections["default"] = usual
        connection.close()
