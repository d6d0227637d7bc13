"""The page for a pasted log, in a browser: wide and on a phone."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from tests.browser import PHONE, WIDE, Visitor
from tests.core.attempts import traceback
from tests.dashboard.test_browser import barriers
from tests.factories import make_cluster

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
ECC = "\n".join(traceback("RuntimeError: CUDA error: uncorrectable ECC error encountered"))


def test_a_viewer_pastes_a_log_and_reads_the_verdict(visit: Visitor, viewer: User) -> None:
    make_cluster()
    for theme, size in (("light", WIDE), ("dark", PHONE)):
        page = visit(viewer, size=size, theme=theme)
        page.goto("/incidents/")
        page.get_by_role("link", name="Diagnose a log").click()
        page.get_by_label("Paste it").fill(ECC)
        page.get_by_role("button", name="Diagnose").click()
        expect(page.get_by_text("A GPU reported an uncorrectable memory error")).to_be_visible()
        expect(page.get_by_text("pasted:3")).to_be_visible()
        assert barriers(page) == [], theme
        box = page.get_by_label("Or choose files").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= size[0] - 16, theme
