"""Every page in a real browser: readable by everybody, on every width, in both themes, without a complaint."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from dashboard import wording
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import CheckpointState, JobState, NodeState
from recovery.models import Cluster, NodeEvent, Run
from recovery.pipeline import account
from tests.browser import PHONE, WIDE, Visitor
from tests.dashboard.conftest import Question, make_question
from tests.factories import (
    ago,
    make_action,
    make_attempt,
    make_checkpoint,
    make_cluster,
    make_decision,
    make_event,
    make_examination,
    make_finding,
    make_incident,
    make_job,
    make_log_file,
    make_node,
    make_policy,
    make_recommendation,
    make_run,
    make_samples,
    make_signal,
)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAGES = [
    "/",
    "/incidents/?show=all",
    "/incidents/{incident}/",
    "/incidents/{acting}/",
    "/incidents/{closed}/",
    "/approvals/",
    "/runs/?show=all",
    "/runs/{run}/",
    "/jobs/{job}/",
    "/nodes/",
    "/reports/",
    "/clusters/",
    "/clusters/{cluster}/",
    "/clusters/{cluster}/push-tokens/",
    "/policies/",
    "/policies/{policy}/",
    "/policies/edit/",
    "/policies/advanced/",
    "/policies/rule/",
    "/policies/replay/",
    "/policies/why/",
    "/policies/scorecard/",
    "/audit/",
    "/admin/",
    "/search/?q=llama",
    "/no/such/page/",
]
AXE = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}


def train(run: Run) -> None:
    """Two attempts of a run with all that a chart can show."""
    job = make_job(run=run, restart_count=1, submitted_at=ago(1000))
    first = make_attempt(
        job=job, number=0, state=JobState.REQUEUED, submitted_at=ago(3000), started_at=ago(2900), ended_at=ago(1200),
        last_step=50,
    )  # fmt: skip
    second = make_attempt(
        job=job, number=1, submitted_at=ago(1000), started_at=ago(900), first_step=41, last_step=70, restored_step=40
    )
    make_samples(attempt=first, count=50, last_at=ago(1210), every_s=30)
    make_samples(attempt=second, count=30, first_step=41, last_at=ago(10), every_s=25)
    for step, state in enumerate(CheckpointState, start=1):
        make_checkpoint(run=run, step=step * 9, state=state, first_seen_at=ago(2000 - step * 100))
    make_log_file(attempt=second)
    make_incident(attempt=first, state=IncidentState.CLOSED, failed_at=ago(1205), detected_at=ago(1200))
    account.keep_run(run.pk, now=timezone.now())


@pytest.fixture
def numbers(transactional_db: None) -> dict[str, int]:
    """Rows for every page, and the numbers of those that have a page of their own."""
    cluster = make_cluster(name="alpha")
    beta = make_cluster(name="beta", error=f"env PATH={'/usr/local/bin:' * 8} squeue: no answer", seen_at=ago(500))
    make_cluster(name="gamma", error="squeue: no answer within 10 s")
    change = {"cluster": beta, "node": "gpu-01", "at": ago(300), "seen_at": ago(290)}
    NodeEvent.objects.create(old="up", new="down", raw_state="DOWN+NOT_RESPONDING*", reason="x" * 120, **change)
    question = make_question(cluster=cluster)
    run = make_run(cluster=cluster, name="llama-405b")
    train(run)
    acting = make_incident(state=IncidentState.ACTING)
    recommendation = make_recommendation(incident=acting)
    make_decision(recommendation=recommendation, reason="seen before")
    call = {"operation": "requeue_hold", "command": "scontrol requeuehold 4711", "ended_at": "x", "result": "accepted"}
    make_action(recommendation=recommendation, state=ActionState.CALLED, calls=[call])
    closed = make_incident(state=IncidentState.CLOSED)
    make_incident(state=IncidentState.NEEDS_PERSON, alarm="Restarted from scratch: step 840 was expected.")
    make_examination(cluster=cluster)
    make_attempt(blind_reason="The log can't be read.", blind_remedy="Let the workers' group read it.")
    for state in NodeState:
        make_node(cluster=cluster, state=state, reason="GPU 3 ECC" if state is NodeState.DRAINED else "")
    make_event(incident=question.incident)
    make_finding(incident=question.incident)
    make_signal(attempt=question.incident.attempt)
    return {
        "incident": question.incident.pk,
        "acting": acting.pk,
        "closed": closed.pk,
        "cluster": cluster.pk,
        "run": run.pk,
        "job": run.jobs.get().pk,
        "policy": make_policy().number,
    }


def drawn(page: Page) -> None:
    """Wait until the page's chart, if it has one, is there, or says why there is none."""
    if page.locator("[data-chart]").count():
        expect(page.locator("[data-chart]")).to_have_attribute("data-state", re.compile("drawn|empty"))


def barriers(page: Page) -> list[str]:
    """What axe-core finds, as sentences; plotly's own drawing is told apart by the table beside it.

    From the top: a page that was scrolled to press something has links that are half below its head.
    """
    page.evaluate("scrollTo(0, 0)")
    found: Any = Axe().run(page, context={"exclude": [[".js-plotly-plot"]]}, options=AXE)
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in found.response["violations"]
        for node in violation["nodes"]
    ]


@pytest.mark.timeout(300)  # one page after the other: opening a browser anew for each takes longer than looking
@pytest.mark.parametrize(("theme", "size"), [("light", WIDE), ("dark", PHONE)])
def test_no_page_has_a_barrier_and_each_fits_a_phone(
    theme: str, size: tuple[int, int], visit: Visitor, admin: User, numbers: dict[str, int]
) -> None:
    visit.expected.append("404 (Not Found)")
    page = visit(admin, theme=theme, size=size)
    assert {path: found for path in PAGES if (found := flaws(page, path.format(**numbers)))} == {}


def flaws(page: Page, path: str) -> list[str]:
    """The barriers of the page at `path`, and whether it is wider than the window."""
    page.goto(path)
    drawn(page)
    too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [*barriers(page), *([f"{too_wide} px too wide"] if too_wide else [])]


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_a_label_stands_right_above_its_field(size: tuple[int, int], visit: Visitor, admin: User) -> None:
    make_cluster(name="alpha")
    make_cluster(name="beta", paused_at=ago(60), paused_by="mira")
    page = visit(admin, size=size)
    page.goto("/admin/")
    gaps = """[...document.querySelectorAll('form.field > label')].map(label =>
        label.nextElementSibling.getBoundingClientRect().top - label.getBoundingClientRect().bottom)"""
    found = page.evaluate(gaps)
    assert len(found) == 3
    assert all(3 <= gap <= 6 for gap in found), found


@pytest.mark.parametrize("path", ["/", "/nodes/", "/clusters/"])
def test_no_column_is_cut_where_pictures_are_old(
    path: str, visit: Visitor, admin: User, numbers: dict[str, int]
) -> None:
    make_attempt(job=make_job(run=make_run(cluster=Cluster.objects.get(name="beta"))))
    page = visit(admin, size=(1280, 800))
    page.goto(path)
    widths = "[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth)"
    cut = page.evaluate(widths)
    assert cut
    assert not any(cut)


def test_the_log_in_and_the_refusal_have_no_barrier(visit: Visitor, outsider: User, admin: User) -> None:
    visit.expected.append("403 (Forbidden)")
    for theme in ("light", "dark"):
        page = visit(None, theme=theme, size=PHONE)
        page.goto("/login/")
        assert barriers(page) == []
        page = visit(outsider, theme=theme)
        page.goto("/")
        expect(page.get_by_role("heading", name="This is not open to you.")).to_be_visible()
        assert barriers(page) == []


def test_a_person_logs_in_looks_around_and_logs_out(visit: Visitor, viewer: User) -> None:
    viewer.set_password("a good long password")
    viewer.save()
    page = visit(None)
    page.goto("/nodes/")
    page.get_by_label("Name").fill("viewer")
    page.get_by_label("Password").fill("a good long password")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
    page.get_by_role("link", name="Policies").click()
    expect(page.get_by_role("heading", name="Policy", exact=True)).to_be_visible()
    page.locator("summary", has_text="viewer").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_a_chart_follows_the_theme_and_breaks_no_policy(visit: Visitor, viewer: User, numbers: dict[str, int]) -> None:
    page = visit(viewer)
    page.goto(f"/runs/{numbers['run']}/")
    drawn(page)
    assert page.locator(".scatterlayer .trace").count() >= 10
    tick = page.locator(".ytick text").first
    light = tick.evaluate("e => getComputedStyle(e).fill")
    page.locator("summary", has_text="viewer").click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(tick).not_to_have_css("fill", light)
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_chart_shows_a_restore_in_the_readers_own_time(visit: Visitor, viewer: User, numbers: dict[str, int]) -> None:
    page = visit(viewer, zone="Asia/Tokyo")
    page.goto(f"/runs/{numbers['run']}/")
    drawn(page)
    expect(page.locator(".xtitle")).to_have_text("time (Asia/Tokyo)")
    drop = page.evaluate("document.querySelector('[data-chart]').data.find(t => t.name === 'steps lost').x[0]")
    said = page.evaluate("text => new Date(text.replace(' ', 'T') + '+09:00').getTime()", drop)
    second = Run.objects.get(pk=numbers["run"]).jobs.get().attempts.get(number=1)
    first_sample = second.samples.order_by("at")[0]
    assert abs(said / 1000 - first_sample.at.timestamp()) < 0.01


def test_a_chart_is_asked_for_again_only_where_it_must_be_drawn_anew(
    visit: Visitor, viewer: User, numbers: dict[str, int]
) -> None:
    page = visit(viewer)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "chart.json" in request.url else None)
    page.goto(f"/runs/{numbers['run']}/")
    chart = page.locator("[data-chart]")
    expect(chart).to_have_attribute("data-state", "drawn")
    page.evaluate("document.querySelector('main').style.paddingBottom = '500px'")  # a list grows
    page.wait_for_timeout(600)
    assert len(asked) == 1
    page.set_viewport_size({"width": 1000, "height": 900})
    expect(chart).not_to_have_attribute("data-width", asked[0].partition("width=")[2].partition("&")[0])
    assert len(asked) == 2


def test_a_chart_that_can_not_be_had_says_so_and_names_the_table(
    visit: Visitor, viewer: User, numbers: dict[str, int]
) -> None:
    visit.expected.append("500 (Internal Server Error)")
    page = visit(viewer)
    page.route("**/chart.json*", lambda route: route.fulfill(status=500, body=""))
    page.goto(f"/runs/{numbers['run']}/")
    expect(page.locator(".chart .wait")).to_contain_text("The figures are in the table.")


@pytest.mark.parametrize("last_step", [None, 40])
def test_a_chart_without_a_step_is_a_short_text_until_there_is_one(
    last_step: int | None, visit: Visitor, viewer: User
) -> None:
    attempt = make_attempt(started_at=ago(900), first_step=None, last_step=last_step)
    incident = make_incident(attempt=attempt)
    page = visit(viewer)
    page.goto(f"/incidents/{incident.pk}/")
    chart = page.get_by_role("group", name="Steps over time")
    expect(chart).to_contain_text("No step")
    assert chart.evaluate("e => e.clientHeight") < 100
    make_samples(attempt=attempt, count=20, last_at=ago(10))
    page.set_viewport_size({"width": 1300, "height": 900})  # what makes it ask again
    chart = page.get_by_role("img", name="Steps over time")
    expect(chart.locator(".scatterlayer .trace").first).to_be_visible()
    assert chart.evaluate("e => e.clientHeight") == 400
    expect(chart).not_to_contain_text("No step")


def test_durations_read_the_same_in_the_browser_as_from_the_server(visit: Visitor, viewer: User) -> None:
    page = visit(viewer)
    page.goto("/")
    seconds = [0, 0.4, 1, 9, 9.6, 59, 59.7, 60, 61, 130, 3599, 3600, 3605, 3661, 86_399, 86_400, 90_000, 187_200, 1e7]
    in_browser = page.evaluate("all => all.map(s => desk.duration(s))", seconds)
    assert in_browser == [wording.duration(s) for s in seconds]


def test_times_are_in_the_readers_zone_with_utc_and_age_on_hover(
    visit: Visitor, viewer: User, question: Question
) -> None:
    page = visit(viewer, zone="America/New_York")
    page.goto(question.page)
    failed = page.locator("time[data-as=clock]").first
    expect(failed).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d+.m"))
    hour = page.evaluate("iso => new Date(iso).getHours()", failed.get_attribute("datetime"))
    assert f"{hour:02d}:" in failed.inner_text()


# --- keyboard


def test_the_keyboard_goes_finds_moves_and_opens(visit: Visitor, viewer: User, question: Question) -> None:
    page = visit(viewer)
    page.goto("/")
    for key, path in [("i", "/incidents/"), ("r", "/runs/"), ("n", "/nodes/"), ("p", "/policies/"), ("o", "/")]:
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(visit.url + path)
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("gi?")  # typed, not obeyed
    expect(page.locator("#search")).to_have_value("gi?")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_url(f"{visit.url}/incidents/")
    page.keyboard.press("j")
    expect(page.locator("tr.selected")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{question.page}")


def test_no_single_key_acts(visit: Visitor, approver: User, question: Question) -> None:
    page = visit(approver)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.goto(question.page)
    for key in "abcdefhijklmnopqrstuvwxyz?/g":
        page.keyboard.press(key)
        page.keyboard.press("Escape")
    assert sent == []
    assert page.url.endswith(question.page)
    assert question.state == "awaiting_decision"


def test_the_approve_key_opens_the_form_and_the_reject_key_closes_it_for_the_other(
    visit: Visitor, approver: User, question: Question
) -> None:
    page = visit(approver)
    page.goto(question.page)
    page.keyboard.press("a")
    expect(page.locator("#comment")).to_be_focused()
    expect(page.get_by_role("heading", name="If you approve")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    expect(page.locator("#rejection")).to_be_focused()
    expect(page.locator("#comment")).to_be_hidden()


def test_escape_leaves_the_box_and_then_closes_the_form_with_what_was_typed(
    visit: Visitor, approver: User, question: Question
) -> None:
    page = visit(approver)
    page.goto(question.page)
    page.keyboard.press("a")
    page.locator("#comment").fill("the node was swapped")
    page.keyboard.press("Escape")
    expect(page.locator("#comment")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#comment")).to_be_hidden()
    page.keyboard.press("a")
    expect(page.locator("#comment")).to_have_value("the node was swapped")
