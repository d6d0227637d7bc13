from __future__ import annotations

import pytest
from django.test import Client

from dashboard.views import overview
from tests.dashboard.conftest import text_of


def test_an_unknown_address_is_answered_inside_the_shell(as_viewer: Client) -> None:
    response = as_viewer.get("/no/such/page/")
    page = text_of(response)
    assert response.status_code == 404
    assert "There is nothing at this address." in page
    assert 'aria-label="Main"' in page
    assert 'id="search"' in page


def test_an_unknown_address_tells_a_stranger_nothing(client: Client, db: None) -> None:
    response = client.get("/no/such/page/")
    page = text_of(response)
    assert response.status_code == 404
    assert "Log in" in page
    assert 'id="search"' not in page
    assert "tried" not in page


def test_an_address_without_its_last_stroke_is_led_to_the_page(as_viewer: Client) -> None:
    assert as_viewer.get("/incidents").headers["Location"] == "/incidents/"


def test_a_broken_page_says_what_still_holds(as_viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(overview, "read_overview", fail)
    as_viewer.raise_request_exception = False
    response = as_viewer.get("/")
    page = text_of(response)
    assert response.status_code == 500
    assert "every incident, decision and action is stored" in page
    assert "python manage.py doctor" in page
    assert "the secret of the house" not in page
    assert "Content-Security-Policy" in response.headers
