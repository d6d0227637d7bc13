"""How long a session lasts, what ends it, and what asks for the password again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from unittest.mock import patch

import pytest
import time_machine
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from recovery.models import ApiToken, Cluster, Event, Membership
from recovery.models.access import Role
from tests.dashboard.conftest import HTMX, text_of
from tests.factories import make_cluster, make_user

pytestmark = pytest.mark.django_db

PASSWORD = "a good long password"
NOW = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _quick(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


@pytest.fixture
def ada(clock: time_machine.Traveller) -> Client:
    """An administrator who just logged in."""
    client = Client()
    client.force_login(make_user(role=Role.ADMIN, username="ada", password=PASSWORD))
    return client


def is_in(client: Client) -> bool:
    return client.get("/").status_code == 200


# --- the end of a session


def test_it_is_over_when_nobody_touched_it_for_long(ada: Client, clock: time_machine.Traveller) -> None:
    for _ in range(3):
        clock.shift(timedelta(hours=1, minutes=59))
        assert is_in(ada)
    clock.shift(timedelta(hours=2))
    assert not is_in(ada)
    assert ada.get("/api/v1/me").status_code == 401


def test_what_a_page_fetches_by_itself_keeps_no_session_alive(ada: Client, clock: time_machine.Traveller) -> None:
    for _ in range(7):
        clock.shift(timedelta(minutes=17))
        assert ada.get("/shell/", headers=HTMX).status_code == 200
    clock.shift(timedelta(minutes=2))
    assert not is_in(ada)


def test_it_is_over_after_a_shift_however_busy(ada: Client, clock: time_machine.Traveller) -> None:
    for _ in range(11):
        clock.shift(timedelta(hours=1))
        assert ada.post("/preferences/", {"cluster": ""}).status_code == 302
    clock.shift(timedelta(hours=1))
    assert not is_in(ada)


def test_a_change_of_role_ends_the_sessions_of_that_account_alone(ada: Client) -> None:
    client = Client()
    client.force_login(make_user(role=Role.VIEWER, username="mira"))
    assert is_in(client)
    given = {"account": "mira", "role": "operator", "scope": "all"}
    assert ada.post("/admin/roles/give/", given).status_code == 302
    assert (is_in(client), is_in(ada)) == (False, True)


def test_a_change_of_password_ends_them_too(ada: Client) -> None:
    with patch("sys.stdin", StringIO("another good password\n")):
        call_command("set_account", "ada", "--password", stdout=StringIO())
    assert not is_in(ada)


# --- the password again


@pytest.fixture
def later(ada: Client, clock: time_machine.Traveller) -> Client:
    """Half an hour after the password was given."""
    clock.shift(timedelta(minutes=30))
    return ada


@pytest.fixture
def paused() -> Cluster:
    return make_cluster(paused_at=NOW, paused_reason="maintenance")


def test_right_after_the_log_in_nothing_is_asked(ada: Client, paused: Cluster) -> None:
    assert ada.post(f"/clusters/{paused.pk}/arm/", {"reason": "done"}).status_code == 302


def test_what_is_sensitive_waits_for_the_password_and_goes_on_with_what_was_typed(
    later: Client, paused: Cluster
) -> None:
    address = f"/clusters/{paused.pk}/arm/"
    asked = later.post(address, {"reason": 'all "good" again', "next": "/nodes/"})
    assert asked.status_code == 403
    assert Cluster.objects.get().paused_at is not None
    page = text_of(asked)
    assert f'action="{address}"' in page
    assert 'name="reason" value="all &quot;good&quot; again"' in page
    answer = later.post(address, {"reason": "good", "next": "/nodes/", "confirm_password": PASSWORD})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/nodes/")
    assert Cluster.objects.get().paused_at is None
    assert PASSWORD not in str(list(Event.objects.values()))


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/admin/roles/give/", {"account": "mira", "role": "admin", "scope": "all"}),
        ("/clusters/{cluster}/push-tokens/make/", {"name": "trainer"}),
        ("/channels/make/", {"name": "ops", "kind": "webhook"}),
        ("/policies/advanced/", {"rules": "{}", "reason": "x"}),
    ],
)
def test_roles_tokens_channels_and_policies_ask_too(
    later: Client, paused: Cluster, path: str, given: dict[str, str]
) -> None:
    make_user(role=None, username="mira")
    answer = later.post(path.format(cluster=paused.pk), given)
    assert answer.status_code == 403
    assert "Your password, please" in text_of(answer)
    assert not Membership.objects.filter(user__username="mira").exists()


def test_a_wrong_password_does_nothing_is_an_event_and_locks_in_the_end(later: Client, paused: Cluster) -> None:
    wrong = {"reason": "done", "confirm_password": "guess"}
    told = [text_of(later.post(f"/clusters/{paused.pk}/arm/", wrong)) for _ in range(6)]
    assert "That is not the password of this account." in told[4]
    assert "Too many tries failed" in told[5]
    assert Cluster.objects.get().paused_at is not None
    assert Event.objects.filter(verb="account.log_in_failed", actor_name="ada").count() == 5


def test_what_stops_automation_and_what_only_reads_never_asks(later: Client) -> None:
    cluster = make_cluster()
    assert later.get("/admin/").status_code == 200
    assert later.post(f"/clusters/{cluster.pk}/pause/", {"reason": "storm"}).status_code == 302


def test_a_part_of_a_page_leads_to_the_page_that_asks(later: Client, paused: Cluster) -> None:
    headers = {**HTMX, "HX-Current-URL": "http://testserver/admin/?x=1"}
    answer = later.post(f"/clusters/{paused.pk}/arm/", {"reason": "done"}, headers=headers)
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (403, "/confirm/?next=%2Fadmin%2F")
    assert 'name="next" value="/admin/"' in text_of(later.get("/confirm/?next=%2Fadmin%2F"))
    confirmed = later.post("/confirm/", {"next": "/admin/", "confirm_password": PASSWORD})
    assert confirmed.headers["Location"] == "/admin/"
    assert later.post(f"/clusters/{paused.pk}/arm/", {"reason": "done"}, headers=headers).status_code == 302


def test_the_page_that_asks_leads_to_no_other_site(later: Client) -> None:
    given = {"next": "https://evil.example/", "confirm_password": PASSWORD}
    assert later.post("/confirm/", given).headers["Location"] == "/"


def test_the_session_of_the_pages_is_asked_over_the_api_as_well(later: Client) -> None:
    wanted = {"name": "script", "scopes": ["view"]}
    refused = later.post("/api/v1/tokens", wanted, content_type="application/json")
    assert refused.status_code == 403
    assert "/confirm/" in text_of(refused)
    assert not ApiToken.objects.exists()
    later.post("/confirm/", {"confirm_password": PASSWORD})
    assert later.post("/api/v1/tokens", wanted, content_type="application/json").status_code == 201


def test_an_account_without_a_password_here_is_not_asked(clock: time_machine.Traveller, paused: Cluster) -> None:
    client = Client()
    client.force_login(make_user(role=Role.ADMIN, username="grace"))
    clock.shift(timedelta(hours=1))
    assert client.post(f"/clusters/{paused.pk}/arm/", {"reason": "done"}).status_code == 302
