"""What every test may use: fixed actors with their logged-in clients, a database as in production, no network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.db import connections
from django.test import Client

from recovery.models.access import Role
from tests import loopback
from tests.factories import make_user

if TYPE_CHECKING:
    from django.contrib.auth.models import User

loopback.guard()


@pytest.fixture(autouse=True)
def _stay_on_this_machine() -> Iterator[None]:
    loopback.OUTSIDE.clear()
    yield
    if loopback.OUTSIDE:
        pytest.fail("left the machine: " + ", ".join(loopback.OUTSIDE))


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """SQLite in a file, as in production: its in-memory form locks whole tables and knows no WAL."""
    connection = connections["default"]
    if connection.vendor == "sqlite":
        folder: Path = tmp_path_factory.mktemp("database")
        connection.settings_dict["TEST"]["NAME"] = str(folder / "test.sqlite3")


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
