"""Mistakes in the set-up are named by id, each with its remedy."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, run_checks
from django.db import OperationalError, connection
from django.test import override_settings

from recovery.apps import guard_tables
from tests.factories import make_cluster

ROOT = Path(django_settings.BASE_DIR)


@pytest.fixture(autouse=True)
def _a_good_set_up(settings: Any, tmp_path: Path) -> None:
    """What each test then spoils."""
    settings.DATA_DIR = tmp_path
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    settings.SECRET_KEY = "k" * 50


def found(*, databases: list[str] | None = None, deploy: bool = False) -> dict[str, CheckMessage]:
    """Our own messages, by id."""
    messages = run_checks(databases=databases, include_deployment_checks=deploy)
    ours = [each for each in messages if str(each.id).startswith("recovery.")]
    assert all(each.hint for each in ours)
    return {str(each.id): each for each in ours}


def test_a_good_set_up_has_nothing_to_say() -> None:
    assert found(deploy=True) == {}


@pytest.mark.parametrize("name", ["LOG_ROOTS", "CHECKPOINT_ROOTS"])
@pytest.mark.parametrize("root", ["/", "logs", "", "//"])
def test_a_root_must_be_an_absolute_path_below_the_root(name: str, root: str) -> None:
    with override_settings(**{name: [root]}):
        assert f"RECOVERY_{name}" in found()["recovery.E001"].msg


@pytest.mark.parametrize("name", ["LOG_ROOTS", "CHECKPOINT_ROOTS"])
def test_a_root_that_is_not_there_is_named(name: str, settings: Any, tmp_path: Path) -> None:
    setattr(settings, name, [str(tmp_path), str(tmp_path / "absent")])
    message = found()["recovery.W002"]
    assert f"RECOVERY_{name}" in message.msg
    assert "absent" in message.msg


def test_a_data_folder_that_is_not_there_or_read_only(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # tests may run as root, whom no folder refuses
    monkeypatch.setattr("recovery.checks.os.access", lambda path, mode: path != settings.DATA_DIR)
    monkeypatch.setattr("recovery.checks.connection", SimpleNamespace(vendor="sqlite"))
    assert "RECOVERY_DATA_DIR" in found()["recovery.E003"].msg


def test_beside_a_database_server_a_read_only_data_folder_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.checks.os.access", lambda path, mode: False)
    monkeypatch.setattr("recovery.checks.connection", SimpleNamespace(vendor="postgresql"))
    assert found() == {}


def test_the_key_of_the_source_is_for_checkouts_only(settings: Any) -> None:
    settings.SECRET_KEY = settings.DEV_KEY
    settings.DEBUG = True
    assert found() == {}
    settings.DEBUG = False
    assert set(found()) == {"recovery.E004"}


def test_a_lease_must_outlive_a_look(settings: Any) -> None:
    settings.SLURM_TIMEOUT_S, settings.LEASE_S = 10, 70
    assert found() == {}
    settings.LEASE_S = 69
    assert "70 s" in found()["recovery.E005"].msg


def test_a_picture_must_be_able_to_be_fresh(settings: Any) -> None:
    settings.TICK_S, settings.STALE_AFTER_S = 5, 9
    assert set(found()) == {"recovery.W006"}


def test_a_folder_is_no_broker_for_production(settings: Any) -> None:
    settings.CELERY_BROKER_URL = "filesystem://"
    assert found() == {}
    assert set(found(deploy=True)) == {"recovery.W007"}


@pytest.mark.django_db
def test_no_cluster_is_worth_a_word() -> None:
    make_cluster(enabled=False)
    assert set(found(databases=["default"])) == {"recovery.I008"}
    make_cluster()
    assert found(databases=["default"]) == {}
    assert found() == {}


@pytest.mark.django_db
def test_a_cluster_must_be_polled_before_its_picture_is_stale(settings: Any) -> None:
    make_cluster(name="slow", poll_interval_s=settings.STALE_AFTER_S)
    assert "Cluster slow" in found(databases=["default"])["recovery.W009"].msg


@pytest.mark.django_db
def test_triggers_that_are_there_and_do_not_fire_are_noticed() -> None:
    """PostgreSQL's have modes; SQLite's fire or are not there."""
    modes = ["DISABLE TRIGGER", "ENABLE REPLICA TRIGGER"] if connection.vendor == "postgresql" else []
    for mode in modes:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE recovery_event {mode} recovery_event_no_change")
        assert "recovery_event" in found(databases=["default"])["recovery.W010"].msg
        guard_tables(using="default")
    assert "recovery.W010" not in found(databases=["default"])


@pytest.mark.django_db
def test_missing_triggers_are_noticed() -> None:
    make_cluster()
    guards = import_module("recovery.migrations.0002_append_only_events")
    guards.drop(connection)
    assert "recovery_seal" in found(databases=["default"])["recovery.W010"].msg
    guards.create(connection, only=["recovery_event", "recovery_seal"])
    assert "recovery_policyversion" in found(databases=["default"])["recovery.W010"].msg
    guard_tables(using="default")  # as `migrate` does
    assert found(databases=["default"]) == {}


@pytest.mark.django_db
def test_a_database_that_does_not_answer_is_for_others_to_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OperationalError("no route to host")

    monkeypatch.setattr(connection.introspection, "table_names", fail)
    assert found(databases=["default"]) == {}


def test_an_empty_database_is_no_mistake(tmp_path: Path) -> None:
    """Before its first migration there are no tables to look at."""
    assert "System check identified no issues" in manage(
        "check", "--database", "default", DATABASE_URL=f"sqlite:///{tmp_path}/empty.sqlite3", tmp_path=tmp_path
    )


def test_the_production_settings_pass_the_deployment_checks(tmp_path: Path) -> None:
    """With exactly the variables that the settings ask for."""
    assert "System check identified no issues" in manage(
        "check", "--deploy", "--fail-level", "INFO", **production(), tmp_path=tmp_path
    )


@pytest.mark.parametrize(
    ("variable", "message"),
    [("RECOVERY_SECRET_KEY", "RECOVERY_SECRET_KEY is not set"), ("RECOVERY_ALLOWED_HOSTS", "ALLOWED_HOSTS")],
)
def test_what_production_lacks_is_named(tmp_path: Path, variable: str, message: str) -> None:
    environment = production()
    del environment[variable]
    with pytest.raises(AssertionError, match=message):
        manage("check", "--deploy", "--fail-level", "WARNING", **environment, tmp_path=tmp_path)


def production() -> dict[str, str]:
    return {
        "RECOVERY_DEBUG": "false",
        "RECOVERY_SECRET_KEY": "".join(chr(33 + i) for i in range(60)),
        "RECOVERY_ALLOWED_HOSTS": "desk.example.org",
        "DATABASE_URL": "postgres://desk:secret@db.example.org/recovery",
        "REDIS_URL": "redis://redis.example.org:6379/0",
    }


def manage(*words: str, tmp_path: Path, **environment: str) -> str:
    """What the command says; an AssertionError with it where the command fails."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-W", "error", "manage.py", *words],
        cwd=ROOT,
        env={**kept, "RECOVERY_DATA_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
