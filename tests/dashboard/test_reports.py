"""The reports page, the run's own picture, the incident's cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from dashboard import ledger_pictures
from dashboard.templatetags import ledger
from recovery.core.ledger import Category
from recovery.core.ledger.incidents import GAPS
from recovery.core.ledger.words import CATEGORY_WORDS, GAP_LABELS, PICTURE_ORDER
from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState
from recovery.models import Incident, IncidentCost, RunLedger
from recovery.pipeline import account
from tests.browser import PHONE, WIDE, Visitor
from tests.dashboard.conftest import HTMX, text_of
from tests.factories import make_attempt, make_incident, make_job, make_run

Read = Callable[[str], str]
SECONDS = dict.fromkeys(Category, 0.0)


@pytest.fixture
def case(db: None) -> Incident:
    """A run that trained, stopped, and waits for a decision; its ledger is kept."""
    run = make_run(name="llama-<b>70b</b>", user="mira")
    attempt = make_attempt(job=make_job(run=run, state=JobState.FAILED), state=JobState.FAILED)
    incident = make_incident(attempt=attempt, state=IncidentState.AWAITING_DECISION)
    account.keep_run(run.pk, now=timezone.now())
    return incident


def test_without_anything_it_says_what_would_be_here(read: Read) -> None:
    page = read("/reports/")
    assert "No run was queued, ran or waited in this window." in page
    assert "a minute after the first job is seen" in page


def test_each_line_leads_to_the_run_and_each_case_to_its_page(read: Read, case: Incident) -> None:
    page = read("/reports/?by=run&days=30")
    assert f'data-href="/runs/{case.run_id}/"' in page
    assert f'href="/incidents/{case.pk}/"' in page
    assert "llama-&lt;b&gt;70b&lt;/b&gt;" in page
    assert "per 1,000 GPU-hours" in page
    assert page.count('<svg class="ledger-bar"') == 1


@pytest.mark.parametrize(
    ("by", "leads_to"),
    [
        ("user", "/reports/?days=30&amp;user=mira&amp;by=run"),
        ("account", "/reports/?days=30&amp;account=research&amp;by=run"),
        ("failure_class", "/incidents/?show=all&amp;class=gpu_hardware"),
    ],
)
def test_a_group_leads_to_what_is_behind_it(by: str, leads_to: str, read: Read, case: Incident) -> None:
    page = read(f"/reports/?by={by}&days=30")
    assert f'href="{leads_to}"' in page
    assert read(leads_to.replace("&amp;", "&"))


def test_the_download_asks_for_the_same(read: Read, case: Incident, as_viewer: Client) -> None:
    page = read("/reports/?by=user&days=1&user=mira")
    address = re.search(r'href="(/api/v1/reports\.csv[^"]+)"', page)
    assert address is not None
    assert text_of(as_viewer.get(address[1].replace("&amp;", "&"))).startswith("group,label,wall_s")


def test_a_filter_is_shown_and_can_be_taken_off(read: Read, case: Incident) -> None:
    page = read("/reports/?by=run&days=7&user=nobody")
    assert "User: nobody" in page
    assert 'href="/reports/?days=7&amp;by=run"' in page
    assert "No run was queued" in page


@pytest.mark.parametrize(
    "query",
    [
        "days=x&since=2026-02-01&until=2026-01-01",
        "days=&since=1980-01-01&until=2026-01-01",
        "by=colour&run=x&policy=-1",
    ],
)
def test_what_can_not_be_meant_is_said_and_a_week_is_shown(query: str, read: Read, case: Incident) -> None:
    page = read(f"/reports/?{query}")
    assert ("A window begins before it ends" in page) == ("since" in query)
    assert f"/runs/{case.run_id}/" in page


def test_two_dates_make_a_window_of_whole_days(read: Read, case: Incident) -> None:
    today = f"{timezone.now():%Y-%m-%d}"
    page = read(f"/reports/?days=&since={today}&until={today}&by=user")
    assert page.count(f'value="{today}"') == 2
    assert f'href="/reports/?days=&amp;since={today}&amp;until={today}&amp;user=mira&amp;by=run"' in page


def test_a_run_shows_where_its_time_went_and_refreshes_that_alone(
    read: Read, case: Incident, as_viewer: Client
) -> None:
    page = read(f"/runs/{case.run_id}/")
    assert "Where its time went" in page
    part = text_of(as_viewer.get(f"/runs/{case.run_id}/", {"part": "ledger"}, headers=HTMX))
    assert "Deciding" in part
    assert "<html" not in part
    assert "Where its time went" not in read(f"/jobs/{case.attempt.job_id}/")


def test_a_run_without_a_ledger_says_when_there_will_be_one(read: Read) -> None:
    assert "a minute after its first job is seen" in read(f"/runs/{make_run().pk}/")


def test_what_a_closed_case_never_came_to_is_not_awaited(read: Read, case: Incident) -> None:
    page = f"/incidents/{case.pk}/"
    assert "not over yet" in read(page)
    Incident.objects.update(state=IncidentState.CLOSED, closed_at=timezone.now())
    assert "no next checkpoint was seen" in read(page)
    assert "until it is restored" not in read(page)


def test_an_incident_says_what_it_cost_or_that_it_will_be_counted(read: Read, case: Incident) -> None:
    page = read(f"/incidents/{case.pk}/")
    assert "What it cost" in page
    assert "that the run would have used" in page
    lost = '<dt>Training lost</dt><dd><span class="unknown">unknown until it is restored</span></dd>'
    assert lost in page, "no figure before anything can be told"
    fresh = make_incident(state=IncidentState.DETECTED)
    assert "counted within a minute" in read(f"/incidents/{fresh.pk}/")


# --- pictures and words
def test_a_bar_is_as_wide_as_its_place_and_says_all_of_it() -> None:
    drawn = ledger_pictures.bar({**SECONDS, Category.KEPT: 9000.0, Category.LOST: 999.0, Category.STALLED: 1.0})
    widths = [float(width) for width in re.findall(r'width="([0-9.]+)"', drawn)]
    assert sum(widths) == pytest.approx(1000, abs=0.1)
    assert all(width >= 1 for width in widths)
    spoken = re.findall(r'aria-label="([^"]+)"', drawn.replace("\u00a0", " "))
    assert spoken == ["Kept 2 h 30 m (90 %); Lost 16 m 39 s (10 %); Stalled 1 s (below 0.1 %)"]


def test_a_strip_gives_each_moment_to_what_most_of_it_went_into() -> None:
    drawn = ledger_pictures.strip(
        [(0, 1000, "queue_wait"), (1000, 2999, "kept"), (2999, 3000, "stalled"), (3000, 4000, "kept")]
    )
    assert re.findall(r'class="cat-([a-z_]+)"', drawn) == ["queue_wait", "kept"]
    assert "From its first submission on: queue, then kept" in drawn


def test_a_rate_groups_its_digits() -> None:
    assert [ledger.rate(value) for value in (None, 0.4, 3.14, 12.4, 1250.2)] == [
        "unknown", "0.40", "3.1", "12", "1\u202f250",
    ]  # fmt: skip


def test_little_in_a_column_never_reads_as_none() -> None:
    assert [ledger.hours(value) for value in (None, 0.0, 0.032, 0.05, 1250.2)] == [
        "unknown", "0.0", "below 0.1", "0.1", "1\u202f250.2",
    ]  # fmt: skip
    assert [ledger.rate(value) for value in (0.0, 0.004, 0.006)] == ["0.00", "below 0.01", "0.01"]


def test_a_minute_of_one_gpu_stands_in_the_tables_and_whole_in_the_csv(
    read: Read, case: Incident, as_viewer: Client
) -> None:
    RunLedger.objects.filter(run=case.run_id).update(tail_category="")  # what a pending decision costs would grow
    IncidentCost.objects.filter(pk=case.pk).update(lost_gpu_us=60_000_000, deciding_run_gpu_us=60_000_000)
    page = read("/reports/?by=run&days=30")
    assert page.count("below 0.1") == 5  # the two figures, the run's line, the dearest interruption's two
    table = as_viewer.get("/api/v1/reports.csv?by=run").content.decode()
    assert f",{1 / 60}," in table


def test_nothing_is_drawn_of_nothing() -> None:
    assert "no time" in ledger_pictures.bar(SECONDS)
    assert "no time" in ledger_pictures.strip([])
    assert ledger_pictures.columns([("2026-01-01", SECONDS)]) == ""


def test_every_category_and_gap_has_its_words_its_place_and_its_colour() -> None:
    sheet = Path(settings.BASE_DIR, "static/css/reports.css").read_text(encoding="utf-8")
    assert set(CATEGORY_WORDS) == set(Category)
    assert sorted(PICTURE_ORDER) == sorted(Category)
    assert list(GAP_LABELS) == list(GAPS)
    for category in Category:
        assert f".cat-{category} {{" in sheet
        assert CATEGORY_WORDS[category].sentence.endswith(".")


# --- in a browser
@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_a_phone_reaches_every_place_from_its_bar(visit: Visitor, viewer: User) -> None:
    page = visit(viewer, size=PHONE)
    page.goto("/reports/")
    bar = page.locator(".rail")
    expect(bar.get_by_role("link", name="Reports")).to_have_attribute("aria-current", "page")
    for place in bar.locator("li > a:visible, .more > summary").all():
        box = place.bounding_box()
        assert box is not None
        assert box["width"] >= 48
        assert box["height"] >= 44
    bar.get_by_text("More").click()
    bar.get_by_role("link", name="Clusters").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.url.endswith("/clusters/")
    expect(page.locator(".more > summary")).to_have_class("here")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_the_keyboard_goes_to_reports_and_opens_a_line(visit: Visitor, viewer: User, case: Incident) -> None:
    page = visit(viewer, size=WIDE)
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Reports")).to_be_visible()
    page.wait_for_load_state()  # the keys are listened to from then on
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Where its time went")).to_be_visible()
