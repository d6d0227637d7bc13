"""A site that has stored samples for a while migrates: nothing is lost, and on PostgreSQL nothing is copied."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from pytest_django import DjangoDbBlocker

from tests.factories import ago

BEFORE = ("recovery", "0004_examinations_of_clusters")
AFTER = ("recovery", "0009_days_and_rollups")
OLDEST = ago(3 * 86_400)


@pytest.fixture
def old_site(
    tmp_path: Path, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[BaseDatabaseWrapper]:
    """A database of its own at 0004, with 500 samples of one attempt over three days."""
    with django_db_blocker.unblock():
        yield from _old_site(tmp_path)


def _old_site(tmp_path: Path) -> Iterator[BaseDatabaseWrapper]:
    usual = connections["default"]
    site = usual.copy()
    site.settings_dict["NAME"] = str(tmp_path / "old.sqlite3") if usual.vendor == "sqlite" else "old_site"
    if usual.vendor == "postgresql":
        with usual.cursor() as cursor:
            cursor.execute("CREATE DATABASE old_site")
    connections["default"] = site  # migrations ask for no other
    try:
        MigrationExecutor(site).migrate([BEFORE])
        _fill(site)
        yield site
    finally:
        site.close()
        connections["default"] = usual
        if usual.vendor == "postgresql":
            with usual.cursor() as cursor:
                cursor.execute("DROP DATABASE old_site")


def _fill(site: BaseDatabaseWrapper) -> None:
    apps = MigrationExecutor(site).loader.project_state([BEFORE]).apps
    now = datetime.now(UTC)

    def make(model: str, **fields: object) -> object:
        return apps.get_model("recovery", model)._default_manager.create(**fields)

    cluster = make("Cluster", name="old")
    run = make("Run", cluster=cluster, key="r", name="r", user="u", created_at=now)
    job = make(
        "Job", cluster=cluster, run=run, job_id="1", first_submitted_at=OLDEST, state="running", submitted_at=OLDEST,
        seen_at=now,
    )  # fmt: skip
    attempt = make("Attempt", job=job, number=0, state="running", submitted_at=OLDEST, started_at=OLDEST, seen_at=now)
    sample = apps.get_model("recovery", "Sample")
    every = timedelta(days=3) / 500
    sample._default_manager.bulk_create(
        sample(attempt=attempt, rank=-1, step=step, at=OLDEST + step * every, loss=1 / (1 + step))
        for step in range(500)
    )


def test_every_sample_is_there_afterwards_and_is_due_to_be_rolled_up(old_site: BaseDatabaseWrapper) -> None:
    rows = "SELECT attempt_id, rank, step, at, loss FROM recovery_sample ORDER BY step"
    before = _all(old_site, rows)
    MigrationExecutor(old_site).migrate([AFTER])
    assert _all(old_site, rows) == before
    assert len(before) == 500
    due = _all(old_site, "SELECT count(*) FROM recovery_rollupdue")[0][0]
    assert 3 * 144 <= due <= 3 * 144 + 2


def test_the_way_back_keeps_every_sample(old_site: BaseDatabaseWrapper) -> None:
    MigrationExecutor(old_site).migrate([AFTER])
    MigrationExecutor(old_site).migrate([("recovery", "0008_accounting_that_is_silent")])
    assert _all(old_site, "SELECT count(*) FROM recovery_sample")[0][0] == 500
    MigrationExecutor(old_site).migrate([AFTER])
    assert _all(old_site, "SELECT count(*) FROM recovery_sample")[0][0] == 500


def test_what_was_stored_is_not_copied(old_site: BaseDatabaseWrapper) -> None:
    """On PostgreSQL it becomes the first part as it is; SQLite keeps its one table."""
    if old_site.vendor == "sqlite":
        where = "SELECT rootpage FROM sqlite_master WHERE name = %s"
        part = "recovery_sample"
    else:
        where = "SELECT relfilenode FROM pg_class WHERE relname = %s"
        part = f"recovery_sample_before_{datetime.now(UTC).date() + timedelta(days=1):%Y%m%d}"
    before = _all(old_site, where, "recovery_sample")
    MigrationExecutor(old_site).migrate([AFTER])
    assert _all(old_site, where, part) == before


def _all(site: BaseDatabaseWrapper, statement: str, *parameters: str) -> list[tuple[Any, ...]]:
    with site.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
