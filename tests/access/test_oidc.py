"""Log-in at a provider, from the press to the page, and whom it does not let in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from recovery import oidc
from recovery.access import Permission, actor_for
from recovery.api import tokens
from recovery.doctor.results import State
from recovery.doctor.sign_on import examine_sign_on
from recovery.env import ROLES_BY_GROUP, GroupRole, OidcSettings
from recovery.models import Event, Identity, Membership
from recovery.models.access import Role, Scope
from tests.access.provider import CLIENT_ID, CLIENT_SECRET, Provider, provider
from tests.dashboard.conftest import text_of
from tests.factories import make_cluster, make_token, make_user

pytestmark = pytest.mark.django_db


class Stay(HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@pytest.fixture
def idp(settings: Settings, tmp_path: Path) -> Iterator[Provider]:
    cache.clear()
    secret = tmp_path / "secret"
    secret.write_text(f"{CLIENT_SECRET}\n")
    with provider() as found:
        settings.OIDC = OidcSettings(
            issuer=found.issuer, client_id=CLIENT_ID, secret_file=str(secret), slurm_user_claim="slurm_user"
        )
        settings.GROUP_ROLES = (
            GroupRole("gpu-ops", "operator"),
            GroupRole("leads", "approver", "cluster=alpha"),
            GroupRole("desk-admins", "admin"),
        )
        settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, "recovery.oidc.Backend"]
        yield found
    cache.clear()


def go_there(client: Client, then: str = "/") -> str:
    """Press the link and be let in by the provider; where it sends the browser back to."""
    asked = client.get(f"/login/provider/?next={then}")
    assert asked.status_code == 302, asked.headers
    try:
        build_opener(Stay).open(asked.headers["Location"], timeout=5)
    except OSError as redirected:
        back = str(vars(redirected)["hdrs"]["Location"])
    parts = urlsplit(back)
    assert (parts.netloc, parts.path) == ("testserver", "/login/provider/callback/")
    return f"{parts.path}?{parts.query}"


def log_in(then: str = "/") -> tuple[Client, Any]:
    client = Client()
    return client, client.get(go_there(client, then))


def refused(answer: Any) -> bool:
    return bool(answer.headers["Location"] == "/login/?provider=refused")


def roles() -> list[str]:
    return [str(row) for row in Membership.objects.order_by("pk")]


# --- in


def test_who_is_in_a_group_gets_an_account_with_its_role_and_the_page_that_was_asked_for(idp: Provider) -> None:
    client, answer = log_in(then="/nodes/")
    assert answer.headers["Location"] == "/nodes/"
    assert client.get("/nodes/").status_code == 200
    user = User.objects.get(username="mira")
    assert not user.has_usable_password()
    assert roles() == ["mira as operator for everything"]
    identity = Identity.objects.get()
    assert (identity.user, identity.issuer, identity.subject) == (user, idp.issuer, "u-17")
    verbs = list(Event.objects.order_by("pk").values_list("verb", flat=True))
    assert verbs == ["account.made", "account.role_changed", "account.logged_in"]


def test_the_log_in_page_links_there_and_no_form_leads_away(idp: Provider) -> None:
    page = Client().get("/login/?next=/nodes/")
    assert 'href="/login/provider/?next=/nodes/"' in text_of(page)
    assert "form-action 'self'" in page.headers["Content-Security-Policy"]


def test_a_scope_comes_with_the_role_and_a_training_user_by_a_claim(idp: Provider) -> None:
    make_cluster(name="alpha")
    idp.person = {"sub": "u-18", "preferred_username": "jonas", "groups": ["leads"], "slurm_user": "jo"}
    log_in()
    assert roles() == ["jonas as approver for cluster alpha", "jonas as owner for Slurm user jo"]


def test_a_scope_whose_cluster_is_not_there_gives_nothing(idp: Provider) -> None:
    idp.person["groups"] = ["leads", "gpu-ops"]
    log_in()
    assert roles() == ["mira as operator for everything"]


def test_groups_are_taken_from_the_other_place_that_a_provider_tells_them(idp: Provider) -> None:
    idp.userinfo = {"groups": idp.person.pop("groups")}
    log_in()
    assert roles() == ["mira as operator for everything"]


def test_each_log_in_gives_and_takes_what_groups_say_and_leaves_what_a_person_gave(idp: Provider) -> None:
    first, _ = log_in()
    user = User.objects.get(username="mira")
    Membership.objects.create(user=user, role=Role.VIEWER)
    idp.person = {**idp.person, "preferred_username": "mira-the-second", "groups": ["desk-admins"]}
    second, _ = log_in()
    assert sorted(roles()) == ["mira as admin for everything", "mira as viewer for everything"]
    assert first.get("/").status_code == 302  # that session was of another role
    assert second.get("/").status_code == 200
    idp.person["groups"] = []
    log_in()
    assert roles() == ["mira as viewer for everything"]
    assert not actor_for(user).can(Permission.ACCOUNT_MANAGE)
    assert User.objects.count() == 1


def test_a_token_keeps_what_groups_gave_only_for_a_while_after_the_last_log_in(
    idp: Provider, settings: Settings
) -> None:
    """Groups are told at a log-in; who was let go at the provider logs in no more, and has a token still."""
    log_in()
    user = User.objects.get(username="mira")
    Membership.objects.create(user=user, role=Role.OWNER, scope=Scope.USER, name="mira")
    text = make_token(user=user)
    token = tokens.authenticate(text, now=timezone.now())
    assert tokens.actor_of(token).can(Permission.OPERATE)
    for last in (timezone.now() - timedelta(seconds=settings.GROUP_ROLES_S + 1), None):
        User.objects.update(last_login=last)
        token = tokens.authenticate(text, now=timezone.now())
        actor = tokens.actor_of(token)
        assert [grant.role for grant in actor.grants or ()] == [Role.OWNER]  # a person gave that one
        assert not actor.can(Permission.OPERATE)
        assert actor_for(token.user).can(Permission.OPERATE)  # a session is as young as its log-in
    log_in()
    token = tokens.authenticate(text, now=timezone.now())
    assert tokens.actor_of(token).can(Permission.OPERATE)


def test_logging_out_ends_the_session_here_and_offers_to_end_the_one_there(idp: Provider) -> None:
    client, _ = log_in()
    answer = client.post("/logout/")
    assert answer.headers["Location"] == "/login/?provider=left"
    assert client.get("/").status_code == 302
    page = text_of(client.get("/login/?provider=left"))
    assert f'href="{idp.issuer}/leave?client_id=desk&amp;post_logout_redirect_uri=' in page


# --- not in

NOW = int(time.time())
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "another nonce": ({"nonce": "guessed"}, "SuspiciousOperation"),
    "no nonce": ({"nonce": None}, "SuspiciousOperation"),
    "for another client": ({"aud": "wiki"}, "InvalidAudienceError"),
    "for several, and given to another": ({"aud": ["desk", "wiki"], "azp": "wiki"}, "InvalidAudienceError"),
    "for several, and given to nobody": ({"aud": ["desk", "wiki"]}, "InvalidAudienceError"),
    "for this desk, and given to another": ({"azp": "wiki"}, "InvalidAudienceError"),
    "from another issuer": ({"iss": "https://elsewhere.example"}, "InvalidIssuerError"),
    "over": ({"iat": NOW - 7200, "exp": NOW - 3600}, "ExpiredSignatureError"),
    "without an end": ({"exp": None}, "MissingRequiredClaimError"),
    "of nobody": ({"sub": None}, "MissingRequiredClaimError"),
}


@pytest.mark.parametrize(("lie", "told"), LIES.values(), ids=LIES)
def test_a_token_that_is_not_for_this_log_in_lets_nobody_in(idp: Provider, lie: dict[str, Any], told: str) -> None:
    idp.lies = lie
    client, answer = log_in()
    assert refused(answer)
    assert client.get("/").status_code == 302
    assert not User.objects.exists()
    event = Event.objects.get()
    assert (event.verb, event.reason) == ("account.log_in_failed", f"The provider's answer was not accepted ({told}).")


@pytest.mark.parametrize(
    ("algorithm", "key", "told"),
    [
        ("none", "published", "InvalidAlgorithmError"),
        ("HS256", "published", "InvalidAlgorithmError"),
        ("RS256", "own", "InvalidSignatureError"),
    ],
)
@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_a_token_that_another_signed_or_nobody_lets_nobody_in(
    idp: Provider, algorithm: str, key: str, told: str
) -> None:
    idp.algorithm, idp.signed_by = algorithm, key
    _, answer = log_in()
    assert refused(answer)
    assert not User.objects.exists()
    assert told in Event.objects.get().reason


def test_a_clock_that_is_a_little_ahead_there_does_no_harm(idp: Provider) -> None:
    idp.lies = {"iat": int(time.time()) + 15}
    _, answer = log_in()
    assert answer.headers["Location"] == "/"


def test_who_has_no_role_by_any_group_gets_no_account(idp: Provider) -> None:
    idp.person["groups"] = ["everybody"]
    _, answer = log_in()
    assert refused(answer)
    assert not User.objects.exists()


def test_nobody_takes_over_an_account_by_choosing_its_name(idp: Provider) -> None:
    make_user(role=Role.ADMIN, username="Mira")
    _, answer = log_in()
    assert refused(answer)
    assert not Identity.objects.exists()
    assert "There is an account mira already" in Event.objects.get().reason


def test_an_account_that_was_switched_off_stays_out_and_its_sessions_end(idp: Provider) -> None:
    client, _ = log_in()
    User.objects.update(is_active=False)
    assert client.get("/").status_code == 302
    assert refused(log_in()[1])


def test_the_other_place_must_tell_of_the_same_person(idp: Provider) -> None:
    idp.userinfo = {"sub": "u-99", "groups": ["desk-admins"]}
    assert refused(log_in()[1])


def test_an_answer_serves_once_and_only_the_browser_that_asked(idp: Provider) -> None:
    client = Client()
    back = go_there(client)
    assert refused(Client().get(back))
    assert client.get(back).headers["Location"] == "/"
    again = client.get(back)
    assert refused(again)
    assert refused(Client().get("/login/provider/callback/?error=access_denied&state=x"))


def test_a_way_back_to_another_site_is_not_taken(idp: Provider) -> None:
    assert log_in(then="https://evil.example/")[1].headers["Location"] == "/"


def test_a_provider_that_is_away_stops_no_session_and_no_local_log_in(idp: Provider) -> None:
    client, _ = log_in()
    make_user(role=Role.VIEWER, username="ada", password="a good long password")
    idp.broken = True
    cache.clear()
    assert client.get("/").status_code == 200
    assert Client().get("/login/provider/").headers["Location"] == "/login/?provider=unreachable"
    assert "does not answer" in text_of(Client().get("/login/?provider=unreachable"))
    local = Client().post("/login/", {"username": "ada", "password": "a good long password"})
    assert local.headers["Location"] == "/"


def test_a_provider_that_describes_another_is_not_believed(idp: Provider, settings: Settings) -> None:
    settings.OIDC = OidcSettings(issuer=idp.issuer + "/", client_id=CLIENT_ID, secret_file="")
    with pytest.raises(oidc.Unreachable, match="names another issuer"):
        oidc.description()


def test_the_doctor_tells_a_good_provider_from_one_that_is_away_and_a_scope_that_is_not_there(idp: Provider) -> None:
    def told() -> dict[str, tuple[State, str]]:
        return {each.what.split()[0]: (each.state, each.detail) for each in examine_sign_on(now=timezone.now())}

    assert told()["single"][0] is State.GOOD
    assert told()["roles"][0] is State.BROKEN
    assert "leads: cluster: there is no cluster 'alpha'" in told()["roles"][1]
    make_cluster(name="alpha")
    assert told()["roles"] == (State.GOOD, "3 are given")
    idp.broken = True
    cache.clear()
    assert told()["single"][0] is State.BROKEN


def test_what_somebody_began_and_left_is_soon_gone(idp: Provider) -> None:
    client = Client()
    asked = client.get("/login/provider/")
    assert client.session.get_expiry_age() <= 600
    query = parse_qs(urlsplit(asked.headers["Location"]).query)
    assert {"state", "nonce", "code_challenge"} <= set(query)


def test_without_a_provider_there_is_no_such_address(client: Client, db: None) -> None:
    assert client.get("/login/provider/").status_code == 404
    assert client.get("/login/provider/callback/?code=x&state=y").status_code == 404
    assert "single sign-on" not in text_of(client.get("/login/"))


def test_every_role_by_group_is_one_that_a_person_could_give() -> None:
    assert set(ROLES_BY_GROUP) == set(Role.values) - {Role.OWNER}
    assert GroupRole("g", "viewer").scope == Scope.ALL
