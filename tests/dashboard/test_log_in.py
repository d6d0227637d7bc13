from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from recovery.models import Event
from recovery.models.access import Role
from tests.dashboard.conftest import text_of
from tests.factories import make_user

pytestmark = pytest.mark.django_db

PASSWORD = "a good long password"


@pytest.fixture
def somebody() -> User:
    return make_user(role=Role.VIEWER, username="mira", password=PASSWORD)


def test_a_log_in_leads_to_the_overview(client: Client, somebody: User) -> None:
    response = client.post("/login/", {"username": "mira", "password": PASSWORD})
    assert response.status_code == 302
    assert response.headers["Location"] == "/"


def test_a_log_in_leads_back_to_the_page_that_was_asked_for(client: Client, somebody: User) -> None:
    page = text_of(client.get("/login/?next=/incidents/17/"))
    assert "Log in to open the page you asked for." in page
    assert 'name="next" value="/incidents/17/"' in page
    response = client.post("/login/", {"username": "mira", "password": PASSWORD, "next": "/incidents/17/"})
    assert response.headers["Location"] == "/incidents/17/"


def test_a_log_in_never_leads_to_another_site(client: Client, somebody: User) -> None:
    response = client.post("/login/", {"username": "mira", "password": PASSWORD, "next": "https://evil.example/"})
    assert response.headers["Location"] == "/"


def test_a_wrong_password_keeps_the_name_and_says_what_to_do(client: Client, somebody: User) -> None:
    page = text_of(client.post("/login/", {"username": "mira", "password": "wrong"}))
    assert "Name and password do not match an active account." in page
    assert 'value="mira"' in page
    assert "wrong" not in page


def test_logging_out_needs_a_press_and_ends_the_session(client: Client, somebody: User) -> None:
    client.force_login(somebody)
    assert client.get("/logout/").status_code == 405
    response = client.post("/logout/")
    assert response.headers["Location"] == "/login/"
    assert client.get("/").status_code == 302


def test_coming_failing_and_leaving_are_events_with_their_address(client: Client, somebody: User) -> None:
    client.post("/login/", {"username": "mira", "password": "wrong"})
    answer = client.post("/login/", {"username": "mira", "password": PASSWORD}, REMOTE_ADDR="10.0.0.7")
    client.post("/logout/")
    events = list(Event.objects.order_by("pk"))
    verbs = ["account.log_in_failed", "account.logged_in", "account.logged_out"]
    assert [event.verb for event in events] == verbs
    assert {(event.actor_name, event.subject_id) for event in events} == {("mira", str(somebody.pk))}
    assert (events[1].origin, events[1].request_id) == ("10.0.0.7", answer.headers["X-Request-ID"])
    assert len({event.request_id for event in events}) == 3


def test_a_name_that_is_no_account_is_not_kept_as_it_may_be_a_password(client: Client, db: None) -> None:
    client.post("/login/", {"username": "hunter2", "password": "mira"})
    event = Event.objects.get()
    assert (event.verb, event.actor_name, event.subject_id) == ("account.log_in_failed", "somebody", "unknown")
    assert "hunter2" not in str(vars(event))


def test_an_address_that_a_client_makes_up_is_not_taken_for_its_own(client: Client, somebody: User) -> None:
    given = {"username": "mira", "password": PASSWORD}
    client.post("/login/", given, headers={"X-Forwarded-For": "1.2.3.4"}, REMOTE_ADDR="10.0.0.7")
    assert Event.objects.get().origin == "10.0.0.7"


def test_behind_a_proxy_the_last_address_that_it_names_counts(
    client: Client, somebody: User, settings: Settings
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    given = {"username": "mira", "password": PASSWORD}
    client.post("/login/", given, headers={"X-Forwarded-For": "1.2.3.4, 10.0.0.9"})
    assert Event.objects.get().origin == "10.0.0.9"


def test_who_is_logged_in_already_is_not_asked_again(client: Client, somebody: User) -> None:
    client.force_login(somebody)
    assert client.get("/login/").headers["Location"] == "/"


def test_no_page_is_left_in_the_browser_after_the_log_out(client: Client, somebody: User) -> None:
    client.force_login(somebody)
    for path in ("/", "/audit/", "/search/", "/incidents/999/"):
        assert client.get(path).headers["Cache-Control"] == "no-store"
