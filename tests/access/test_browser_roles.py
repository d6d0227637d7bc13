"""The admin and audit pages in a browser: wide and on a phone."""

from __future__ import annotations

import os

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from recovery.models.access import Role, Scope
from recovery.pipeline import audit_chain
from tests.access.people import make_person
from tests.audit.conftest import break_in
from tests.browser import PHONE, WIDE, Visitor
from tests.dashboard.test_browser import barriers
from tests.factories import ago, make_cluster, make_event

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_an_administrator_gives_a_role_and_reads_in_the_trail_that_it_was_broken(visit: Visitor, admin: User) -> None:
    cluster = make_cluster(name="alpha")
    make_person(Role.APPROVER, Scope.PARTITION, "gpu", cluster, username="mira")
    events = [make_event(reason="Opened by the detector.", origin="10.0.0.7") for _ in range(3)]
    audit_chain.verify(now=ago(60))
    for theme, size in (("light", WIDE), ("dark", PHONE)):
        page = visit(admin, size=size, theme=theme)
        page.goto("/admin/")
        page.get_by_label("Account", exact=True).fill("mira")
        page.get_by_label("for", exact=True).select_option("Slurm account")
        page.get_by_label("Name of the partition, account or Slurm user").fill("nlp")
        page.get_by_role("button", name="Give the role").click()
        expect(page.get_by_text("mira is viewer for Slurm account nlp.")).to_be_visible()
        assert barriers(page) == [], theme
        if where := os.environ.get("SHOTS"):
            page.screenshot(path=f"{where}/admin-{theme}.png", full_page=True)
        page.goto("/audit/")
        if theme == "light":
            expect(page.get_by_text("Verified up to event")).to_be_visible()
        else:
            expect(page.get_by_text("is the first bad row")).to_be_visible()
        assert barriers(page) == [], theme
        if where:
            page.screenshot(path=f"{where}/audit-{theme}.png", full_page=True)
        break_in("UPDATE recovery_event SET reason = 'another' WHERE id = %s", events[1].pk)
        audit_chain.verify(now=ago(0))
