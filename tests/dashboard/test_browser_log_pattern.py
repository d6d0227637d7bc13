"""The page on which a site's log pattern is tried, in a real browser."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from recovery.models import PolicyVersion
from tests.browser import PHONE, WIDE, Visitor
from tests.dashboard.test_browser import barriers
from tests.dashboard.test_log_pattern import PATTERN, SAMPLE
from tests.factories import make_cluster

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_pattern_is_tried_corrected_and_saved_in_both_themes_and_on_a_phone(visit: Visitor, admin: User) -> None:
    visit.expected.append("422 (Unprocessable")
    make_cluster()
    for theme, size in (("light", WIDE), ("dark", PHONE)):
        page = visit(admin, theme=theme, size=size)
        page.goto("/policies/log-pattern/")
        page.get_by_role("textbox", name="Pattern").fill("(x|y)")
        page.get_by_role("textbox", name="Lines of a log").fill(SAMPLE)
        page.get_by_role("button", name="Try it").click()
        expect(page.get_by_role("alert")).to_contain_text("is not allowed here")
        page.get_by_role("textbox", name="Pattern").fill(PATTERN)
        page.get_by_role("button", name="Try it").click()
        expect(page.get_by_role("heading", name="What it reads")).to_be_visible()
        assert barriers(page) == [], theme
        too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert too_wide == 0, theme
        page.get_by_label("Reason stands in the audit trail").fill(f"our trainer, {theme}")
        page.get_by_role("button", name="Save as version").click()
        expect(page.get_by_role("cell", name=f"our trainer, {theme}")).to_be_visible()
    assert PolicyVersion.objects.count() == 2
