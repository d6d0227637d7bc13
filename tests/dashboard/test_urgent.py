"""A restart that is about to destroy the good checkpoint is the first thing that anybody sees, wherever they look."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import expect

from recovery.core.lifecycle import IncidentState
from recovery.models.progress import WORD_PATH
from tests.browser import PHONE, WIDE, Visitor
from tests.dashboard.test_browser import barriers
from tests.factories import ago, make_attempt, make_checkpoint, make_danger, make_incident, make_run


@pytest.fixture
def client(viewer: User) -> Client:
    client = Client()
    client.force_login(viewer)
    return client


def html(client: Client, path: str) -> str:
    return client.get(path).content.decode()


@pytest.mark.django_db
def test_a_checkpoint_in_danger_stands_on_top_of_overview_run_and_incident(client: Client) -> None:
    danger = make_danger()
    for path in ("/", f"/runs/{danger.run_id}/", f"/incidents/{danger.pk}/"):
        page = html(client, path)
        assert "destroys its good checkpoint, step 840" in page, path
        assert "It overwrites step 840 with its save at step 840, the 42nd from now." in page, path
        assert page.index("note urgent") < page.index("<h1>") or path != "/", path


@pytest.mark.django_db
def test_a_danger_that_may_come_true_at_any_moment_is_said_so(client: Client) -> None:
    danger = make_danger(in_s=-5)
    assert "at any moment" in html(client, f"/incidents/{danger.pk}/")


@pytest.mark.django_db
def test_the_soonest_danger_comes_first_in_lists_and_in_the_api(client: Client) -> None:
    later, sooner = make_danger(in_s=900, detected_at=ago(100)), make_danger(in_s=60, detected_at=ago(900))
    newest = make_incident(state=IncidentState.NEEDS_PERSON, detected_at=ago(1))
    order = [sooner.pk, later.pk, newest.pk]
    answer = client.get("/api/v1/incidents").json()["results"]
    assert [row["id"] for row in answer] == order
    assert answer[0]["danger"]["step"] == 840
    assert answer[0]["trouble"] == "restarted_from_scratch"
    assert answer[2]["danger"] is None
    for path in ("/", "/incidents/?show=person"):
        page = html(client, path)
        places = [page.rindex(f'/incidents/{pk}/"') for pk in order]
        assert places == sorted(places), path


@pytest.mark.django_db
def test_the_page_and_the_api_tell_each_check_with_its_places(client: Client) -> None:
    danger = make_danger()
    page = html(client, f"/incidents/{danger.pk}/")
    for text in ("Is it back?", "/ckpt/latest.txt", "Contradiction: The tracker file named step 840", "doubled"):
        assert text in page, text
    checks = client.get(f"/api/v1/incidents/{danger.pk}").json()["verification"]
    assert [check["key"] for check in checks] == ["converged", "restored", "checkpoint"]
    assert checks[1]["places"][0]["file"] == "/ckpt/latest.txt"


@pytest.mark.django_db
def test_a_case_that_fails_to_be_looked_at_is_shown_with_its_error_and_the_next_try(client: Client) -> None:
    incident = make_incident(
        state=IncidentState.NEEDS_PERSON, error="RuntimeError: no such thing", failed_looks=3, next_look_at=ago(-100)
    )
    assert "The last 3 looks at this case failed." in html(client, f"/incidents/{incident.pk}/")
    for path in ("/", "/incidents/"):
        assert "RuntimeError: no such thing" in html(client, path)
    row = client.get("/api/v1/incidents").json()["results"][0]
    assert (row["error"], row["failed_looks"]) == ("RuntimeError: no such thing", 3)
    assert row["next_look_at"] is not None


@pytest.mark.django_db
def test_a_checkpoint_by_word_is_never_called_proved(client: Client) -> None:
    run = make_run()
    make_attempt(blind_reason="The log can't be read.")
    make_checkpoint(run=run, step=860, path=f"/ckpt/x{WORD_PATH}860")
    page = html(client, f"/runs/{run.pk}/")
    assert "By the trainer's word" in page.replace("&#x27;", "'")
    assert "Proved on disk" not in page
    assert client.get("/api/v1/checkpoints").json()["results"][0]["by_word"]
    assert {row["blind_reason"] for row in client.get("/api/v1/runs").json()["results"]} == {
        None, "The log can't be read.",
    }  # fmt: skip


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_the_alarm_is_seen_without_scrolling_in_a_browser_wide_and_narrow(visit: Visitor, viewer: User) -> None:
    danger = make_danger()
    for theme, size in (("light", WIDE), ("dark", PHONE)):
        page = visit(viewer, theme=theme, size=size)
        for path in ("/", f"/runs/{danger.run_id}/", f"/incidents/{danger.pk}/"):
            page.goto(path)
            alarm = page.get_by_role("alert").filter(has_text="destroys its good checkpoint")
            expect(alarm).to_be_in_viewport()
            expect(alarm.locator("time")).to_contain_text("in ")
            assert barriers(page) == [], f"{path} {theme}"
            assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
