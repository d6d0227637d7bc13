"""Tokens: their making, use, ending, and what they never do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from recovery.access import ROLE_PERMISSIONS, SYSTEM, Forbidden, Permission, actor_for
from recovery.api import tokens
from recovery.models import ApiToken, Event
from recovery.models.access import Role
from recovery.selectors import NotFound
from tests.api.conftest import Api, with_token
from tests.factories import ago, make_token, make_user

Ask = Callable[[str], Api]

NEW = {"name": "status board", "scopes": ["view"]}


def prefix_of(text: str) -> str:
    return text.split("_")[1]


# --- use


def test_a_token_acts_for_its_owner(viewer: User) -> None:
    me = with_token(make_token(user=viewer, name="board", scopes=[Permission.VIEW])).get("me").body
    assert me == {
        "name": "viewer (token board)",
        "kind": "token",
        "permissions": {"view": Permission.VIEW.sentence},
    }


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("scope", Permission)
def test_it_may_what_role_and_scopes_both_allow(role: Role, scope: Permission, db: None) -> None:
    user = make_user(role=role)
    permissions = with_token(make_token(user=user, scopes=[scope])).get("me").body["permissions"]
    assert set(permissions) == {scope} & ROLE_PERMISSIONS[role]


def test_a_role_that_was_taken_away_takes_the_token_along(approver: User) -> None:
    script = with_token(make_token(user=approver))
    assert script.get("incidents").status == 200
    approver.memberships.all().delete()
    assert script.get("incidents").status == 403


def test_a_stored_scope_that_is_no_permission_gives_nothing(admin: User) -> None:
    text = make_token(user=admin)
    ApiToken.objects.update(scopes=["everything", "view"])
    assert set(with_token(text).get("me").body["permissions"]) == {"view"}


def refused(text: str) -> str:
    answer = with_token(text).get("me")
    assert (answer.status, answer.error["code"]) == (401, "authentication_failed")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    message: str = answer.error["message"]
    return message


@pytest.mark.parametrize(
    "text",
    ["", "x", "rd", "rd_", "rd__", "rd_p_", "rd__secret", "gh_p_secret", "rd-p-secret", "rd_p_" + "s" * 200, "rd_p_é"],
)
def test_what_is_no_token_is_refused(db: None, text: str) -> None:
    assert "rd_<prefix>_<secret>" in refused(text)


def test_a_wrong_secret_tells_nothing_of_the_token(viewer: User) -> None:
    text = make_token(user=viewer, secret="right", revoked_at=ago(5))
    unknown = refused("rd_nosuchone_right")
    assert refused(text.removesuffix("right") + "wrong") == unknown
    assert "not known" in unknown


def test_who_has_the_secret_of_a_revoked_token_is_told(viewer: User) -> None:
    assert "was revoked at" in refused(make_token(user=viewer, revoked_at=ago(5)))


def test_an_expired_token_is_refused_and_said_so(viewer: User) -> None:
    assert "expired at" in refused(make_token(user=viewer, expires_at=ago(0.001)))
    assert with_token(make_token(user=viewer, expires_at=ago(-60))).get("me").status == 200


def test_a_token_of_an_account_that_was_switched_off_is_refused(viewer: User) -> None:
    text = make_token(user=viewer)
    viewer.is_active = False
    viewer.save()
    assert "switched off" in refused(text)


def test_a_wrong_token_is_not_made_good_by_a_session(api: Ask) -> None:
    answer = api("admin").get("me", headers={"authorization": "Bearer rd_no_such"})
    assert answer.status == 401


def test_another_scheme_is_left_to_others(api: Ask) -> None:
    assert api("admin").get("me", headers={"authorization": "Basic YWRtaW46"}).status == 200


def test_the_scheme_is_written_in_any_case(viewer: User, client: Any) -> None:
    answer = client.get("/api/v1/me", headers={"authorization": f"bearer {make_token(user=viewer)}"})
    assert answer.status_code == 200


def test_use_is_noted_at_most_once_a_minute(
    viewer: User, time_machine: Any, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    start = timezone.now()
    time_machine.move_to(start, tick=False)
    script = with_token(make_token(user=viewer))
    script.get("me")
    assert ApiToken.objects.get().used_at == start
    time_machine.move_to(start + timedelta(seconds=59), tick=False)
    with django_assert_num_queries(2):  # the token with its owner, and the role: no write
        script.get("me")
    assert ApiToken.objects.get().used_at == start
    time_machine.move_to(start + timedelta(seconds=61), tick=False)
    script.get("me")
    assert ApiToken.objects.get().used_at == start + timedelta(seconds=61)


def test_a_refused_token_is_not_noted_as_used(viewer: User) -> None:
    refused(make_token(user=viewer, revoked_at=ago(5)))
    assert ApiToken.objects.get().used_at is None


# --- making


def test_a_token_is_shown_once_and_kept_as_a_digest(api: Ask) -> None:
    operator = api("operator")
    made = operator.post("tokens", NEW)
    assert made.status == 201
    text = made.body["token"]
    row = ApiToken.objects.get()
    assert text == f"rd_{row.prefix}_{text.split('_', 2)[2]}"
    assert row.digest == tokens.digest(text.split("_", 2)[2])
    assert made.headers["Cache-Control"] == "no-store"
    [listed] = operator.get("tokens").rows
    assert "token" not in listed
    assert text.split("_", 2)[2] not in str(listed)
    assert with_token(text).get("me").status == 200


def test_unless_told_otherwise_it_is_good_for_90_days(api: Ask) -> None:
    operator = api("operator")
    operator.post("tokens", NEW)
    row = ApiToken.objects.get()
    assert row.expires_at
    assert (row.expires_at - row.created_at).days == 90
    assert operator.post("tokens", {**NEW, "expires_at": None}).body["expires_at"] is None
    later = (timezone.now() + timedelta(days=5)).isoformat()
    assert operator.post("tokens", {**NEW, "expires_at": later}).body["expires_at"]


def test_no_two_tokens_are_alike(api: Ask) -> None:
    operator = api("operator")
    assert len({operator.post("tokens", NEW).body["token"] for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "  "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": None}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": "view"}, "scopes"),
        ({"scopes": ["everything"]}, "scopes.0"),
        ({"scopes": ["view", "decide"]}, "scopes"),  # an operator may not decide
        ({"expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "soon"}, "expires_at"),
    ],
)
def test_a_wrong_wish_is_refused_by_field(api: Ask, change: dict[str, Any], field: str) -> None:
    answer = api("operator").post("tokens", {**NEW, **change})
    assert (answer.status, answer.error["code"]) == (400, "invalid")
    assert list(answer.error["fields"]) == [field]
    assert not ApiToken.objects.exists()


def test_nobody_gives_more_than_they_have(api: Ask) -> None:
    message = api("operator").post("tokens", {**NEW, "scopes": ["decide"]}).error["message"]
    assert message == "scopes: You may not approve and reject recommendations, so leave out decide."


def test_a_token_makes_no_tokens(admin: User) -> None:
    answer = with_token(make_token(user=admin)).post("tokens", NEW)
    assert (answer.status, answer.error["message"].partition(".")[0]) == (403, "A token can't make tokens")
    assert ApiToken.objects.count() == 1


def test_there_is_an_end_to_tokens_in_use(api: Ask, operator: User) -> None:
    for _ in range(tokens.MOST_LIVE - 1):
        make_token(user=operator)
    make_token(user=operator, revoked_at=ago(5))
    make_token(user=operator, expires_at=ago(5))
    asks = api("operator")
    assert asks.post("tokens", NEW).status == 201
    assert "revoke one first" in asks.post("tokens", NEW).error["message"]


def test_the_product_itself_holds_no_tokens(db: None) -> None:
    with pytest.raises(Forbidden):
        tokens.make(actor=SYSTEM, name="x", scopes=[Permission.VIEW], expires_at=None, now=timezone.now())


# --- listing and revoking


def test_each_sees_their_own(api: Ask, operator: User, admin: User) -> None:
    mine = prefix_of(make_token(user=operator))
    make_token(user=admin)
    assert [row["prefix"] for row in api("operator").get("tokens").rows] == [mine]


def test_a_revoked_token_is_over_at_once(api: Ask, operator: User) -> None:
    text = make_token(user=operator)
    pk = ApiToken.objects.get().pk
    answer = api("operator").ask("delete", f"tokens/{pk}")
    assert answer.status == 200
    assert answer.body["revoked_at"]
    refused(text)


def test_revoking_again_changes_nothing(api: Ask, operator: User) -> None:
    make_token(user=operator, revoked_at=ago(500))
    row = ApiToken.objects.get()
    assert api("operator").ask("delete", f"tokens/{row.pk}").status == 200
    assert ApiToken.objects.get().revoked_at == row.revoked_at
    assert not Event.objects.exists()


def test_a_token_may_end_itself(operator: User) -> None:
    text = make_token(user=operator)
    assert with_token(text).ask("delete", f"tokens/{ApiToken.objects.get().pk}").status == 200
    refused(text)


def test_somebody_elses_token_is_not_there(api: Ask, operator: User) -> None:
    make_token(user=operator)
    pk = ApiToken.objects.get().pk
    answer = api("admin").ask("delete", f"tokens/{pk}")
    assert (answer.status, answer.error["message"]) == (404, f"You have no token {pk}.")
    assert ApiToken.objects.get().revoked_at is None


def test_making_and_revoking_stand_in_the_audit_trail(api: Ask, operator: User) -> None:
    pk = api("operator").post("tokens", NEW).body["id"]
    api("operator").ask("delete", f"tokens/{pk}")
    made, revoked = Event.objects.all()
    assert (made.verb, revoked.verb) == ("token.made", "token.revoked")
    assert (made.actor_kind, made.actor_name, made.subject_kind) == ("user", "operator", "token")
    assert made.subject_id == revoked.subject_id == str(pk)
    assert made.data == {"name": "status board", "prefix": ApiToken.objects.get().prefix, "scopes": ["view"]}


def test_the_services_ask_for_permission_themselves(viewer: User) -> None:
    actor = actor_for(viewer)
    make_token(user=viewer)
    with pytest.raises(Forbidden):
        tokens.make(actor=actor, name="x", scopes=[Permission.VIEW], expires_at=None, now=timezone.now())
    with pytest.raises(Forbidden):
        tokens.revoke(token_id=ApiToken.objects.get().pk, actor=actor, now=timezone.now())


def test_there_is_nothing_to_revoke_where_there_is_no_token(operator: User) -> None:
    with pytest.raises(NotFound):
        tokens.revoke(token_id=404, actor=actor_for(operator), now=timezone.now())


def test_the_services_refuse_a_wrong_wish_themselves(operator: User) -> None:
    with pytest.raises(tokens.Invalid) as refusal:
        tokens.make(actor=actor_for(operator), name=" ", scopes=[], expires_at=ago(1), now=timezone.now())
    assert set(refusal.value.fields) == {"name", "scopes", "expires_at"}
    assert "operate, token.manage, view" in str(refusal.value)
