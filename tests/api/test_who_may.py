"""Each address, each actor: one table, which the addresses themselves are held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import URLPattern
from rest_framework.views import APIView

from recovery.access import ROLE_PERMISSIONS, Permission
from recovery.api.permissions import Access
from recovery.api.urls import urlpatterns
from tests.api.conftest import ACTORS, Answer, Api, with_token
from tests.factories import make_token

# method, route, what it requires
ROUTES: list[tuple[str, str, Permission | Access]] = [
    ("GET", "incidents", Permission.VIEW),
    ("GET", "incidents/<int:pk>", Permission.VIEW),
    ("POST", "incidents/<int:pk>/proposals", Permission.OPERATE),
    ("POST", "actions/<int:pk>/undo", Permission.OPERATE),
    ("POST", "incidents/<int:pk>/snooze", Permission.OPERATE),
    ("POST", "actions/<int:pk>/withdraw", Permission.DECIDE),
    ("POST", "runs/<int:pk>/take-over", Permission.OPERATE),
    ("POST", "runs/<int:pk>/give-back", Permission.OPERATE),
    ("GET", "kill-switch", Permission.VIEW),
    ("POST", "kill-switch/pull", Permission.OPERATE),
    ("POST", "kill-switch/reset", Permission.POLICY_EDIT),
    ("POST", "diagnose", Permission.VIEW),
    ("GET", "recommendations", Permission.VIEW),
    ("GET", "recommendations/<int:pk>", Permission.VIEW),
    ("POST", "recommendations/<int:pk>/approve", Permission.DECIDE),
    ("POST", "recommendations/<int:pk>/reject", Permission.DECIDE),
    ("GET", "runs", Permission.VIEW),
    ("GET", "alarms", Permission.VIEW),
    ("GET", "runs/<int:pk>", Permission.VIEW),
    ("GET", "runs/<int:pk>/samples", Permission.VIEW),
    ("GET", "runs/<int:pk>/ledger", Permission.VIEW),
    ("GET", "reports", Permission.VIEW),
    ("GET", "reports.csv", Permission.VIEW),
    ("GET", "jobs", Permission.VIEW),
    ("GET", "jobs/<int:pk>", Permission.VIEW),
    ("GET", "attempts", Permission.VIEW),
    ("GET", "attempts/<int:pk>", Permission.VIEW),
    ("GET", "attempts/<int:pk>/samples", Permission.VIEW),
    ("GET", "checkpoints", Permission.VIEW),
    ("GET", "clusters", Permission.VIEW),
    ("GET", "clusters/<int:pk>", Permission.VIEW),
    ("GET", "clusters/<int:pk>/examination", Permission.OPERATE),
    ("POST", "clusters/<int:pk>/examination", Permission.OPERATE),
    ("POST", "clusters/<int:pk>/suspects", Permission.OPERATE),
    ("GET", "suspects", Permission.VIEW),
    ("POST", "suspects/<int:pk>/remove", Permission.OPERATE),
    ("GET", "strikes", Permission.VIEW),
    ("GET", "outbreaks", Permission.VIEW),
    ("GET", "outbreaks/<int:pk>", Permission.VIEW),
    ("POST", "outbreaks/<int:pk>/end", Permission.OPERATE),
    ("GET", "policies", Permission.VIEW),
    ("POST", "policies/apply", Permission.POLICY_EDIT),
    ("POST", "policies/check", Permission.VIEW),
    ("POST", "policies/why", Permission.VIEW),
    ("POST", "policies/replay", Permission.POLICY_EDIT),
    ("GET", "policies/<int:pk>", Permission.VIEW),
    ("GET", "scorecards", Permission.VIEW),
    ("GET", "promotions", Permission.VIEW),
    ("GET", "promotions/<int:pk>", Permission.VIEW),
    ("POST", "promotions/<int:pk>/accept", Permission.POLICY_EDIT),
    ("POST", "promotions/<int:pk>/reject", Permission.POLICY_EDIT),
    ("GET", "events", Permission.VIEW),
    ("GET", "audit", Permission.AUDIT_VIEW),
    ("GET", "audit/export", Permission.AUDIT_VIEW),
    ("GET", "channels", Permission.CHANNEL_MANAGE),
    ("POST", "channels", Permission.CHANNEL_MANAGE),
    ("PATCH", "channels/<int:pk>", Permission.CHANNEL_MANAGE),
    ("DELETE", "channels/<int:pk>", Permission.CHANNEL_MANAGE),
    ("POST", "channels/<int:pk>/secret", Permission.CHANNEL_MANAGE),
    ("POST", "channels/<int:pk>/test", Permission.CHANNEL_MANAGE),
    ("GET", "deliveries", Permission.CHANNEL_MANAGE),
    ("POST", "deliveries/<int:pk>/again", Permission.CHANNEL_MANAGE),
    ("GET", "health", Access.OPEN),
    ("GET", "health/details", Permission.VIEW),
    ("GET", "me", Access.LOGGED_IN),
    ("GET", "tokens", Permission.TOKEN_MANAGE),
    ("POST", "tokens", Permission.TOKEN_MANAGE),
    ("DELETE", "tokens/<int:pk>", Permission.TOKEN_MANAGE),
    ("GET", "openapi.json", Access.LOGGED_IN),
    ("GET", "push-tokens", Permission.TOKEN_MANAGE),
    ("POST", "push-tokens", Permission.TOKEN_MANAGE),
    ("DELETE", "push-tokens/<int:pk>", Permission.TOKEN_MANAGE),
]
IDS = [f"{method} {route}" for method, route, _ in ROUTES]


def view_of(pattern: URLPattern) -> type[APIView]:
    view: type[APIView] = vars(pattern.callback)["view_class"]
    return view


def methods_of(view: type[APIView]) -> set[str]:
    return {method.upper() for method in ("get", "post", "put", "patch", "delete") if hasattr(view, method)}


def test_every_address_stands_in_the_table_with_what_it_requires() -> None:
    found = {
        (method, str(pattern.pattern), view_of(pattern).required)  # type: ignore[attr-defined]
        for pattern in urlpatterns
        for method in methods_of(view_of(pattern))
        if pattern.name != "api-no-such-address"
    }
    assert found == {*ROUTES, ("POST", "ingest", Access.PUSH)}  # tests/api/test_ingest.py asks that one


def ask(api: Api, method: str, route: str) -> Answer:
    """Ask for a row that is not there, with an empty body: who may is told before anything else."""
    return api.ask(method, route.replace("<int:pk>", "1000000"), {} if method == "POST" else None)


def allowed(role: str, required: Permission | Access) -> bool:
    if required is Access.OPEN:
        return True
    if isinstance(required, Permission):
        return required in ROLE_PERMISSIONS.get(role, frozenset())
    return role != "anonymous"


@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize(("method", "route", "required"), ROUTES, ids=IDS)
def test_who_may(method: str, route: str, required: Permission | Access, actor: str, api: Callable[[str], Api]) -> None:
    answer = ask(api(actor), method, route)
    if allowed(actor, required):
        assert answer.status in (200, 400, 404), answer.body
    elif actor == "anonymous":
        assert (answer.status, answer.error["code"]) == (401, "not_authenticated")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    else:
        assert (answer.status, answer.error["code"]) == (403, "forbidden")
        assert answer.error["message"].startswith(f"{actor} may not ")
        assert "An administrator can give the role" in answer.error["message"]


@pytest.mark.parametrize(("method", "route", "required"), ROUTES, ids=IDS)
def test_a_token_needs_the_scope(method: str, route: str, required: Permission | Access, admin: User) -> None:
    scopes = [each for each in Permission if each is not required]
    answer = ask(with_token(make_token(user=admin, scopes=scopes)), method, route)
    if isinstance(required, Permission):
        assert (answer.status, answer.error["code"]) == (403, "forbidden")
        assert f"scope {required}" in answer.error["message"]
    else:
        assert answer.status == 200


@pytest.mark.parametrize(("method", "route", "required"), ROUTES, ids=IDS)
def test_a_token_needs_its_owners_role(method: str, route: str, required: Permission | Access, outsider: User) -> None:
    answer = ask(with_token(make_token(user=outsider)), method, route)
    assert answer.status == (403 if isinstance(required, Permission) else 200)


@pytest.mark.parametrize(("method", "route", "required"), ROUTES, ids=IDS)
def test_a_token_with_scope_and_role_is_enough(
    method: str, route: str, required: Permission | Access, admin: User
) -> None:
    scopes = [required] if isinstance(required, Permission) else [Permission.VIEW]
    answer = ask(with_token(make_token(user=admin, scopes=scopes)), method, route)
    assert answer.status in (200, 400, 404), answer.body


def test_a_view_that_declares_nothing_is_closed(api: Callable[[str], Api], rf: Any, admin: User) -> None:
    class Forgotten(APIView):
        def get(self, request: Any) -> Any:
            raise AssertionError("reached")

    request = rf.get("/")
    request.user = admin
    request._dont_enforce_csrf_checks = True
    assert Forgotten.as_view()(request).status_code == 403


def test_an_account_that_was_switched_off_is_nobody(api: Callable[[str], Api], admin: User) -> None:
    admin.is_active = False
    admin.save()
    assert api("admin").get("incidents").status == 401
