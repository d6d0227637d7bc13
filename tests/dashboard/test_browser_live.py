"""Live pages and the decide box in a real browser, on the real server with its stream."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.lifecycle import IncidentState
from recovery.models import Action, Decision, Incident, Recommendation
from recovery.pipeline.transition import advance
from tests.browser import PHONE, Visitor
from tests.dashboard.conftest import Question, make_question
from tests.factories import make_finding, make_recommendation

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def tell(incident: Incident, reason: str) -> None:
    """Something happened to the incident, as any writer of state would record it."""
    with transaction.atomic():
        audit.record_incident(incident, "incident.noted", actor=SYSTEM, at=timezone.now(), reason=reason)


def connected(page: Page) -> None:
    expect(page.locator("html")).to_have_attribute("data-stream", "open")


def test_what_happens_appears_without_a_reload(visit: Visitor, viewer: User) -> None:
    page = visit(viewer)
    page.goto("/")
    connected(page)
    expect(page.get_by_text("Nothing needs you.").first).to_be_visible()
    question = make_question(headline="llama-70b stopped: uncorrectable GPU memory error on gpu-02.")
    tell(question.incident, "new")
    expect(page.get_by_role("link", name="llama-70b stopped")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text("1 incident needs a person.")
    expect(page.locator(".rail .count")).to_contain_text("1")


def test_a_change_in_the_moment_between_page_and_stream_is_not_lost(
    visit: Visitor, viewer: User, question: Question
) -> None:
    page = visit(viewer)

    held: list[Route] = []
    page.route("**/live/*", lambda route: held.append(route))
    page.goto(question.page)
    while not held:
        page.wait_for_timeout(20)
    tell(question.incident, "in between")
    held[0].continue_()
    expect(page.locator("#events")).to_contain_text("in between")


def test_fresh_facts_keep_focus_typed_text_scroll_and_open_panels(
    visit: Visitor, approver: User, question: Question
) -> None:
    make_finding(incident=question.incident, reason="Slurm says: FAILED.")
    page = visit(approver)
    page.goto(question.page)
    connected(page)
    page.get_by_text("What the detectors saw").click()
    page.keyboard.press("a")
    page.keyboard.type("I have seen this ")
    page.evaluate("scrollTo(0, 300)")
    tell(question.incident, "a fresh fact")
    expect(page.locator("#events")).to_contain_text("a fresh fact")
    page.keyboard.type("before")
    expect(page.locator("#comment")).to_have_value("I have seen this before")
    expect(page.locator("#comment")).to_be_focused()
    expect(page.get_by_text("Slurm says: FAILED.")).to_be_visible()
    assert page.evaluate("scrollY") == 300


def test_an_approval_is_pressed_confirmed_and_followed(visit: Visitor, approver: User, question: Question) -> None:
    page = visit(approver)
    page.goto(question.page)
    page.get_by_text("Approve: requeue without gpu-02").first.click()
    expect(page.get_by_role("heading", name="If you approve")).to_be_visible()
    assert not Decision.objects.exists()  # opening is not acting
    page.get_by_label("Comment").fill("go")
    page.get_by_role("button", name="Approve: requeue without gpu-02").click()
    expect(page.get_by_role("alert")).to_contain_text("Approved: requeue without gpu-02.")
    expect(page.locator(".timeline .stage.waiting")).to_contain_text("Acted")
    assert Decision.objects.get().reason == "go"
    advance(
        Incident.objects.get(), IncidentState.RESTORING, now=timezone.now(), why="requeued", acted_at=timezone.now()
    )
    expect(page.locator(".timeline .stage.waiting")).to_contain_text("Restored")


def test_a_rejection_asks_for_its_reason_first(visit: Visitor, approver: User, question: Question) -> None:
    page = visit(approver)
    page.goto(question.page)
    page.get_by_text("Reject…").click()
    page.get_by_role("button", name="Reject the recommendation").click()
    assert page.locator("#rejection").evaluate("e => e.matches(':invalid')")
    page.get_by_label("Why not?").select_option("user_is_on_it")
    page.get_by_label("In your words").fill("The user debugs it.")
    page.get_by_role("button", name="Reject the recommendation").click()
    expect(page.get_by_role("alert")).to_contain_text("Rejected.")
    assert question.state == "watching"


def test_of_two_approvers_one_decides_and_the_other_is_told_in_place(
    visit: Visitor, approver: User, admin: User, question: Question
) -> None:
    visit.expected += ["409 (Conflict)", "409"]
    first, second = visit(approver), visit(admin)
    second.route("**/*part=decide*", lambda route: route.fulfill(status=204))  # so that its box stays as it was
    for page in (first, second):
        page.goto(question.page)
        page.keyboard.press("a")
    first.get_by_role("button", name="Approve: requeue without gpu-02").click()
    expect(first.get_by_role("alert")).to_contain_text("Approved")
    second.get_by_role("button", name="Approve: requeue without gpu-02").click()
    expect(second.get_by_role("alert")).to_contain_text("approver decided first")
    assert Decision.objects.count() == 1
    assert Action.objects.count() == 1


def test_a_look_that_was_under_way_does_not_wipe_out_the_answer(
    visit: Visitor, approver: User, question: Question
) -> None:
    page = visit(approver)
    page.goto(question.page)
    connected(page)
    held: list[Route] = []
    page.route("**/*part=decide*", lambda route: held.append(route))
    page.evaluate("desk.refreshAll()")
    while not held:
        page.wait_for_timeout(20)
    page.keyboard.press("a")
    page.get_by_role("button", name="Approve: requeue without gpu-02").click()
    expect(page.get_by_role("alert")).to_contain_text("Approved")
    with page.expect_response("**/*part=decide*"):
        held[0].continue_()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(page.get_by_role("alert")).to_contain_text("Approved")


def test_a_recommendation_that_changes_under_the_reader_must_be_read_again(
    visit: Visitor, approver: User, question: Question
) -> None:
    page = visit(approver)
    page.goto(question.page)
    connected(page)
    page.keyboard.press("a")
    page.keyboard.type("my thought")
    Recommendation.objects.update(superseded_at=timezone.now())
    newer = make_recommendation(incident=question.incident, headline="Requeue, restoring step 800 (52 steps lost).")
    tell(question.incident, "looked at again")
    expect(page.locator("#decide")).to_contain_text("Read it again before you decide.")
    expect(page.locator("#decide")).to_contain_text(newer.headline)
    expect(page.get_by_role("heading", name="If you approve")).to_be_hidden()  # the old form is gone
    assert page.locator("#comment").input_value() == "my thought"  # and what was typed is not


def test_polling_takes_over_where_the_stream_can_not_be_had(visit: Visitor, viewer: User, question: Question) -> None:
    visit.expected.append("net::ERR_FAILED")
    page = visit(viewer)
    page.route("**/live/*", lambda route: route.abort())
    page.goto(question.page)
    tell(question.incident, "heard by polling")
    expect(page.locator("#events")).to_contain_text("heard by polling")


def test_a_server_that_is_gone_is_said_and_what_was_seen_stays(
    visit: Visitor, viewer: User, question: Question
) -> None:
    visit.expected += ["ERR_INTERNET_DISCONNECTED", "ERR_NETWORK", "htmx:"]
    page = visit(viewer)
    page.goto(question.page)
    connected(page)
    page.context.set_offline(True)
    page.evaluate("desk.refreshAll()")
    expect(page.locator("#offline")).to_contain_text("No connection to Recovery Desk since")
    expect(page.get_by_role("heading", level=1)).to_have_text(question.incident.headline)
    page.context.set_offline(False)
    page.evaluate("desk.refreshAll()")
    expect(page.locator("#offline")).to_be_hidden()


def test_a_picture_grows_old_by_itself(visit: Visitor, viewer: User, question: Question) -> None:
    page = visit(viewer)
    page.clock.install()
    page.goto("/")
    expect(page.locator("#picture-state")).to_contain_text("Live")
    page.route("**/shell/*", lambda route: route.fulfill(status=204))  # no news from the server
    page.clock.run_for(120_000)
    expect(page.locator("#picture-state")).to_contain_text("Stale")


def test_nothing_moves_under_the_pointer(visit: Visitor, viewer: User, question: Question) -> None:
    page = visit(viewer)
    page.goto("/incidents/")
    connected(page)
    page.locator("tr[data-href]").hover()
    other = make_question(headline="a newer one.")
    tell(other.incident, "new")
    page.wait_for_timeout(1500)  # as long as a change takes to arrive: nothing to wait for, it must not come
    expect(page.get_by_text("a newer one.")).to_have_count(0)
    page.mouse.move(5, 5)
    expect(page.get_by_text("a newer one.")).to_be_visible()


def test_on_a_phone_the_decide_bar_opens_and_decides(visit: Visitor, approver: User, question: Question) -> None:
    page = visit(approver, size=PHONE, theme="dark")
    page.goto(question.page)
    expect(page.locator("#decide .body")).to_be_hidden()
    page.get_by_role("button", name="Needs a decision").click()
    expect(page.get_by_text("Exactly this will be run")).to_be_visible()
    page.get_by_text("Approve: requeue without gpu-02").first.click()
    page.get_by_role("button", name="Approve: requeue without gpu-02").click()
    expect(page.get_by_role("alert")).to_contain_text("Approved")
    assert Action.objects.count() == 1


def test_without_javascript_everything_can_still_be_decided(visit: Visitor, approver: User, question: Question) -> None:
    page = visit(approver, javascript=False)
    page.goto("/")
    page.get_by_role("link", name=question.incident.headline).click()
    page.get_by_text("Approve: requeue without gpu-02").first.click()
    page.get_by_role("button", name="Approve: requeue without gpu-02").click()
    expect(page.get_by_role("status").filter(has_text="Approved")).to_be_visible()
    assert Action.objects.count() == 1


def test_evidence_opens_in_its_surroundings(visit: Visitor, viewer: User, question: Question) -> None:
    page = visit(viewer)
    page.goto(question.page)
    page.get_by_text("Surroundings").first.click()
    expect(page.locator(".around").first).to_contain_text("The whole log:")
