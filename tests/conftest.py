"""What every test may use: fixed actors with their logged-in clients, a database as in production, no network."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction
from django.db.backends.base.operations import BaseDatabaseOperations
from django.test import Client
from hypothesis import settings as property_settings
from pytest_django import DjangoDbBlocker

from recovery.models.access import Role
from tests import loopback
from tests.factories import make_user
from tests.migrated import Migrated

if TYPE_CHECKING:
    from django.contrib.auth.models import User

loopback.guard()
# A property holds or doesn't; how long an example takes is the machine's affair.
property_settings.register_profile("any machine", deadline=None)
property_settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _stay_on_this_machine() -> Iterator[None]:
    loopback.OUTSIDE.clear()
    yield
    if loopback.OUTSIDE:
        pytest.fail("left the machine: " + ", ".join(loopback.OUTSIDE))


@pytest.fixture
def unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are kept for examples lead nowhere, without anybody being asked."""
    real = socket.getaddrinfo

    def look_up(host: str, *args: Any, **more: Any) -> Any:
        if host.endswith((".example", ".example.org")):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_keepdb: bool, django_db_use_migrations: bool) -> bool:
    """A copy of a migrated SQLite is migrated no further than it needs; it goes with the folder that it lies in."""
    return django_db_keepdb or (django_db_use_migrations and connections["default"].vendor == "sqlite")


@pytest.fixture(scope="session")
def migrated(django_db_modify_db_settings: None, django_db_use_migrations: bool) -> Migrated | None:
    connection = connections["default"]
    if not django_db_use_migrations or connection.vendor != "sqlite":
        return None
    found = Migrated()
    found.copy_to(Path(connection.settings_dict["TEST"]["NAME"]))
    return found


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """SQLite in a file, as in production: its in-memory form locks whole tables and knows no WAL."""
    connection = connections["default"]
    if connection.vendor == "sqlite":
        folder: Path = tmp_path_factory.mktemp("database")
        connection.settings_dict["TEST"]["NAME"] = str(folder / "test.sqlite3")


@pytest.fixture(scope="session")
def django_db_setup(
    migrated: Migrated | None, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """A transactional test ends with a flush, which the append-only tables refuse: it alone may lift their triggers."""
    if migrated:
        with django_db_blocker.unblock():
            migrated.keep(connections["default"])
    guards = import_module("recovery.migrations.0002_append_only_events")
    flush = BaseDatabaseOperations.execute_sql_flush

    def flush_all(operations: BaseDatabaseOperations, statements: Iterable[str]) -> None:
        with transaction.atomic():
            guards.drop(operations.connection)
            flush(operations, statements)
            guards.create(operations.connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", flush_all)
        yield
    if migrated:
        connections.close_all()


@pytest.fixture
def viewer(db: None) -> User:
    """Sees everything, changes nothing."""
    return make_user(role=Role.VIEWER)


@pytest.fixture
def operator(db: None) -> User:
    """Pauses automation and closes cases, decides nothing."""
    return make_user(role=Role.OPERATOR)


@pytest.fixture
def approver(db: None) -> User:
    """Approves and rejects."""
    return make_user(role=Role.APPROVER)


@pytest.fixture
def admin(db: None) -> User:
    """Writes policies as well."""
    return make_user(role=Role.ADMIN)


@pytest.fixture
def outsider(db: None) -> User:
    """Has an account and no role: must see nothing at all."""
    return make_user(role=None)


@pytest.fixture
def clients(viewer: User, operator: User, approver: User, admin: User, outsider: User) -> dict[str, Client]:
    """One test client for each actor, logged in, by name; "anonymous" is logged in as nobody."""
    found = {"anonymous": Client()}
    for user in (viewer, operator, approver, admin, outsider):
        found[user.username] = Client()
        found[user.username].force_login(user)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in ledger_told():
        terminalreporter.write_line(f"ledger balances, in seconds: {line}")


def ledger_told() -> list[str]:
    """Nothing where no test has kept a ledger: the module needs Django to be set up."""
    module = sys.modules.get("tests.ledger_balance")
    return sorted(module.TOLD) if module else []
