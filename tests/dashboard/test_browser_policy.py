"""A rule is written, looked at, tried and saved in a browser, by somebody who never saw YAML."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from recovery.core.types import DecisionKind, Outcome, Rejection
from recovery.models import PolicyVersion
from tests.browser import PHONE, Visitor
from tests.dashboard.test_browser import barriers
from tests.dashboard.test_policy_pages import REST, past, policy
from tests.factories import make_policy

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_rule_is_written_tried_and_saved_without_any_yaml(visit: Visitor, admin: User) -> None:
    make_policy(rules=policy(REST))
    past(DecisionKind.REJECT, Outcome.GAVE_UP, rejection=Rejection.WRONG_NODE)
    visit.expected.append("422 (Unprocessable")
    page = visit(admin, size=PHONE, theme="dark")
    page.goto("/policies/")
    page.get_by_role("link", name="Rules, as text").click()
    page.get_by_role("button", name="Add a rule").click()
    page.get_by_label("Name", exact=True).fill("vision hardware")
    page.get_by_label("Accounts").fill("vision*")
    page.get_by_label("Where", exact=True).select_option("before rest")
    page.get_by_role("button", name="Put it into the draft").click()
    expect(page.get_by_role("alert")).to_contain_text("The draft was not changed.")  # no class was chosen
    assert barriers(page) == []
    page.get_by_label("GPU hardware").check()
    page.get_by_role("button", name="Put it into the draft").click()
    expect(page.get_by_role("region", name="What would change").locator(".added").first).to_be_visible()
    assert barriers(page) == []
    page.get_by_role("button", name="Replay the draft").click()
    expect(page.get_by_role("heading", name="1 recommendation in 30 days")).to_be_visible()
    assert barriers(page) == []
    page.get_by_role("button", name="Back to the draft").click()
    page.get_by_role("button", name="Move vision hardware down").click()
    page.locator("#reason").fill("the vision team asked for it")
    page.get_by_role("button", name="Save as version 2").click()
    expect(page.get_by_text("Version 2 holds, by admin")).to_be_visible()
    assert [rule["name"] for rule in PolicyVersion.objects.get(number=2).rules["rules"]] == ["rest", "vision hardware"]
