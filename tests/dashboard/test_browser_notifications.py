"""The page of channels in a browser: wide and on a phone."""

from __future__ import annotations

import os

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import expect

from recovery.core.policy import DEFAULT_RULES
from recovery.models import Channel, Delivery
from tests.browser import PHONE, WIDE, Visitor
from tests.dashboard.test_browser import barriers
from tests.factories import ago, make_cluster, make_policy

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def stage() -> None:
    now = timezone.now()
    make_cluster(name="alpha")
    dead = Channel.objects.create(
        name="chat", kind="slack", target="https://hooks.chat.example.org/services/T0/B0/x", created_at=ago(90_000),
        good_at=ago(7200), failing_since=ago(3600), trouble="hooks.chat.example.org did not answer within 10 s.",
        next_look_at=ago(-3600),
    )  # fmt: skip
    mail = Channel.objects.create(
        name="ml team", kind="email", target="ops@example.org, ml@example.org", created_at=now, good_at=ago(300)
    )
    title, line = "A decision is needed", "llama-70b stopped 8 min ago: uncorrectable GPU memory error on gpu-17."
    message = {"kind": "decision_needed", "severity": "decision", "title": title, "lines": [line]}
    Delivery.objects.create(
        channel=dead, key="1", message=message, made_at=ago(3600), tries=4, try_at=ago(-600),
        trouble="hooks.chat.example.org did not answer within 10 s.",
    )  # fmt: skip
    Delivery.objects.create(channel=mail, key="1", message=message, made_at=ago(300), tries=1, sent_at=ago(299))
    routes = [
        {"to": ["ml team"], "severity": "info"},
        {"to": ["chat", "pager"], "classes": ["gpu_hardware", "node_fault"], "match": {"clusters": ["alpha"]}},
    ]
    make_policy(rules={**DEFAULT_RULES, "notify": routes})


def test_an_administrator_sees_what_is_dead_and_makes_a_webhook(visit: Visitor, admin: User) -> None:
    stage()
    for theme, size in (("light", WIDE), ("dark", PHONE), ("dark", WIDE), ("light", PHONE)):
        page = visit(admin, size=size, theme=theme)
        page.goto("/notifications/")
        expect(page.get_by_text("The channel chat has delivered nothing for")).to_be_visible()
        expect(page.get_by_text("pager").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
        assert barriers(page) == [], (theme, size)
        if where := os.environ.get("SHOTS"):
            page.screenshot(path=f"{where}/notifications-{theme}-{size[0]}.png", full_page=True)
    page.get_by_label("Name, as the policy's routes call it").fill("night")
    page.get_by_label("Kind").select_option("webhook")
    page.get_by_label("Address to post to").fill("https://93.184.215.14/hook")
    page.get_by_role("button", name="Make the channel").click()
    expect(page.get_by_text("night signs with this secret.")).to_be_visible()
    expect(page.get_by_text("whsec_")).to_be_visible()
    page.get_by_text("Change chat…").click()
    assert barriers(page) == []
    if where:
        page.screenshot(path=f"{where}/notifications-made.png", full_page=True)
