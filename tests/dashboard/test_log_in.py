from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

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


def test_who_is_logged_in_already_is_not_asked_again(client: Client, somebody: User) -> None:
    client.force_login(somebody)
    assert client.get("/login/").headers["Location"] == "/"


def test_no_page_is_left_in_the_browser_after_the_log_out(client: Client, somebody: User) -> None:
    client.force_login(somebody)
    for path in ("/", "/audit/", "/search/", "/incidents/999/"):
        assert client.get(path).headers["Cache-Control"] == "no-store"
