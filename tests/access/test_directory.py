"""A back end of the site's own, as for LDAP: who it lets in, and the roles of the groups that it tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from pytest_django import Settings

from recovery.apps import import_back_end
from recovery.env import OidcSettings, group_roles, oidc
from recovery.models import Membership

pytestmark = pytest.mark.django_db

GROUPS: dict[str, set[str]] = {}


class Directory(BaseBackend):
    """Tells groups as django-auth-ldap does."""

    def authenticate(self, request: Any, username: str = "", password: str = "", **kwargs: Any) -> User | None:
        if password != f"{username} at the directory":
            return None
        user, _ = User.objects.get_or_create(username=username)
        vars(user)["ldap_user"] = SimpleNamespace(group_names=GROUPS.get(username, set()))
        return user

    def get_user(self, user_id: int) -> User | None:
        return User.objects.filter(pk=user_id, is_active=True).first()


@pytest.fixture(autouse=True)
def _directory(settings: Settings) -> None:
    GROUPS.clear()
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, "tests.access.test_directory.Directory"]
    settings.GROUP_ROLES = group_roles("gpu-ops: operator; cn=leads,ou=groups: approver for partition=gpu")


def log_in(name: str, password: str) -> Client:
    client = Client()
    client.post("/login/", {"username": name, "password": password})
    return client


def roles() -> list[str]:
    return [str(row) for row in Membership.objects.order_by("pk")]


def test_the_directory_lets_in_and_its_groups_give_and_take_roles() -> None:
    GROUPS["mira"] = {"gpu-ops", "cn=leads,ou=groups"}
    assert log_in("mira", "mira at the directory").get("/").status_code == 200
    assert roles() == ["mira as operator for everything", "mira as approver for partition gpu"]
    GROUPS["mira"] = {"cn=leads,ou=groups"}
    log_in("mira", "mira at the directory")
    assert roles() == ["mira as approver for partition gpu"]
    assert log_in("mira", "wrong").get("/").status_code == 302


def test_it_is_locked_like_any_other_log_in() -> None:
    for _ in range(5):
        log_in("mira", "wrong")
    assert log_in("mira", "mira at the directory").get("/").status_code == 302


def test_a_back_end_that_is_not_there_stops_the_start() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"RECOVERY_AUTH_BACKENDS: not\.there can't be imported"):
        import_back_end("not.there")


@pytest.mark.parametrize("text", ["gpu-ops", "gpu-ops: king", ": viewer", "mira: owner"])
def test_a_mapping_that_can_not_be_read_is_refused(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="RECOVERY_GROUP_ROLES"):
        group_roles(text)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"issuer": "http://login.example.org"}, "RECOVERY_OIDC_ISSUER must be https"),
        ({"client_id": ""}, "RECOVERY_OIDC_CLIENT_ID is not set"),
        ({"secret_file": "/not/there"}, "RECOVERY_OIDC_SECRET_PATH=/not/there is no file"),
        ({"scopes": "profile"}, "RECOVERY_OIDC_SCOPES must have openid"),
    ],
)
def test_settings_of_a_provider_that_are_wrong_are_named(change: dict[str, str], told: str) -> None:
    right = {"issuer": "https://login.example.org/realm", "client_id": "desk", "secret_file": __file__}
    assert oidc(OidcSettings(**right)) is not None
    with pytest.raises(ImproperlyConfigured, match=told):
        oidc(OidcSettings(**{**right, **change}))
