"""Deciding in a real browser: the queue with the keyboard alone, and two approvers on two pages."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Route, TimeoutError, expect

from recovery.core.policy import Approval
from recovery.models import Agreement, Cluster, Decision, Incident, KillSwitch
from recovery.models.access import Role
from tests.browser import PHONE, WIDE, Visitor
from tests.dashboard.conftest import Question, make_question
from tests.dashboard.test_browser import barriers
from tests.dashboard.test_browser_live import connected, tell
from tests.factories import ago, make_outbreak, make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def two_questions() -> tuple[Question, Question]:
    """The first waits for more GPUs, and so stands first in the queue."""
    dear, cheap = make_question(), make_question()
    dear.recommendation.gpus_idle = 512
    dear.recommendation.save()
    return dear, cheap


def test_the_queue_is_decided_with_the_keyboard_alone(visit: Visitor, approver: User) -> None:
    dear, cheap = two_questions()
    page = visit(approver)
    page.goto("/approvals/")
    row = page.locator(f"#case-{dear.incident.pk}")
    expect(page.locator(".queue > li").first).to_have_attribute("id", f"case-{dear.incident.pk}")
    page.keyboard.press("a")  # nothing is selected: nothing opens
    expect(row.locator("details[open]")).to_have_count(0)
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(row.locator("details[data-key-name=approve]")).to_have_attribute("open", "")
    expect(row.get_by_text("If you approve")).to_be_visible()
    assert not Decision.objects.exists(), "no single key acts"
    page.keyboard.type("seen before")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Approved: requeue without gpu-02.")
    expect(row).to_have_count(0)
    assert Decision.objects.get().reason == "seen before"
    other = page.locator(f"#case-{cheap.incident.pk}")
    page.keyboard.press("j")
    page.keyboard.press("s")
    page.keyboard.press("Enter")  # the first choice: 1 hour
    expect(page.get_by_role("alert").first).to_contain_text("Out of the queue for 1")
    expect(page.get_by_text("Snoozed: 1")).to_be_visible()
    page.locator("#snoozed summary").first.press("Enter")
    page.keyboard.press("j")
    page.keyboard.press("u")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").first).to_contain_text("Back in the queue.")
    expect(page.get_by_text("Snoozed: 1")).to_have_count(0)
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(other.locator("select")).to_be_focused()
    page.keyboard.type("Its user")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").first).to_contain_text("Rejected.")
    assert Decision.objects.get(recommendation=cheap.recommendation).rejection == "user_is_on_it"


def test_one_form_is_open_at_a_time_and_escape_closes_the_one_in_which_the_reader_is(
    visit: Visitor, approver: User, question: Question
) -> None:
    page = visit(approver)
    page.goto("/approvals/")
    page.keyboard.press("j")
    forms = page.locator("details.action[open]")
    for key, name in (("a", "approve"), ("Escape", "approve"), ("x", "reject"), ("Escape", "reject"), ("s", "snooze")):
        page.keyboard.press(key)  # the first Escape only leaves the box
        expect(forms).to_have_count(1)
        expect(forms).to_have_attribute("data-key-name", name)
    page.keyboard.press("Escape")
    expect(forms).to_have_count(0)
    expect(page.get_by_text("Snooze…")).to_be_focused()


def test_what_happens_meanwhile_leaves_the_chosen_row_chosen(visit: Visitor, approver: User) -> None:
    chosen = make_question()
    page = visit(approver)
    page.goto("/approvals/")
    connected(page)
    page.keyboard.press("j")
    expect(page.locator("li.selected")).to_have_attribute("id", f"case-{chosen.incident.pk}")
    another = make_question()
    tell(another.incident, "new")
    expect(page.locator(f"#case-{another.incident.pk}")).to_be_visible()
    expect(page.locator("li.selected")).to_have_attribute("id", f"case-{chosen.incident.pk}")
    page.keyboard.press("x")
    expect(page.locator(f"#case-{chosen.incident.pk} details[data-key-name=reject]")).to_have_attribute("open", "")


def test_the_focus_stays_where_it_is_although_its_row_moves_up(visit: Visitor, approver: User) -> None:
    first, chosen = two_questions()
    page = visit(approver)
    page.goto("/approvals/")
    connected(page)
    for key in ("j", "j", "s"):
        page.keyboard.press(key)
    hour = page.locator(f"#case-{chosen.incident.pk}").get_by_role("button", name="1 hour")
    expect(hour).to_be_focused()
    first.incident.delete()
    tell(chosen.incident, "new")
    expect(page.locator(".queue > li")).to_have_count(1)
    expect(hour).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").first).to_contain_text("Out of the queue for 1")


def test_the_answer_is_seen_although_the_row_was_told_gone_before_it_came(
    visit: Visitor, approver: User, question: Question
) -> None:
    page, row = visit(approver), f"case-{question.incident.pk}"
    page.goto("/approvals/")
    connected(page)

    def late(route: Route) -> None:
        answer = route.fetch()
        with suppress(TimeoutError):  # what is told of the decision must not take the row away
            page.wait_for_function("id => document.getElementById(id) === null", arg=row, timeout=2000)
        route.fulfill(response=answer)

    page.route("**/approve/", late)
    page.keyboard.press("j")
    page.keyboard.press("a")
    page.locator(f"#{row} details[data-key-name=approve] button").first.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Approved: requeue without gpu-02.")
    expect(page.locator(f"#{row}")).to_have_count(0)


def test_two_approvers_on_two_pages_decide_together(visit: Visitor, approver: User, question: Question) -> None:
    question.recommendation.approval = asdict(Approval(count=2))
    question.recommendation.save()
    second = make_user(role=Role.APPROVER, username="second")
    one, two = visit(approver), visit(second)
    for page in (one, two):
        page.goto(question.page)
        expect(page.get_by_text("○ 2 approvers")).to_be_visible()
    one.keyboard.press("a")
    one.locator("details[data-key-name=approve] form button.primary").click()
    expect(one.get_by_role("alert")).to_contain_text("1 more has to, before anything is done.")
    expect(one.get_by_text("It waits for one more approver.")).to_be_visible()
    assert Agreement.objects.get().actor == approver
    expect(two.get_by_text("○ one more approver")).to_be_visible()  # it is told by itself
    expect(two.get_by_text("● approver")).to_be_visible()
    two.keyboard.press("a")
    two.locator("details[data-key-name=approve] form button.primary").click()
    expect(two.get_by_role("alert")).to_contain_text("Approved: requeue without gpu-02.")
    expect(one.get_by_role("heading", name="What was done")).to_be_visible()
    assert Decision.objects.get().actor == second


def test_queue_banner_and_bulk_have_no_barrier_and_fit_a_phone(visit: Visitor, admin: User) -> None:
    first, other = make_question(), make_question()
    Incident.objects.filter(pk=other.incident.pk).update(snoozed_until=ago(-3000), snoozed_by="operator")
    KillSwitch.objects.create(pk=1, pulled_at=ago(60), pulled_by="operator", reason="The fabric is being repaired.")
    Cluster.objects.update(tripped_at=ago(90), tripped_reason="6 actions in the last hour, 6 are allowed.")
    outbreak = make_outbreak(incidents=[first.incident, other.incident])
    for theme, size in (("light", WIDE), ("dark", PHONE)):
        page = visit(admin, theme=theme, size=size)
        for path in ("/approvals/", f"/outbreaks/{outbreak.pk}/"):
            page.goto(path)
            expect(page.get_by_text("Automation is stopped everywhere")).to_be_visible()
            for summary in page.locator("main details > summary").all():
                if summary.is_visible():
                    summary.click()
            if folder := os.environ.get("SHOTS"):
                page.screenshot(path=f"{folder}/{path.strip('/').replace('/', '-')}-{theme}.png", full_page=True)
            assert barriers(page) == [], f"{path} {theme}"
            too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert too_wide == 0, f"{path} {theme}"
