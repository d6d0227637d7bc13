"""Channels at the command line, and what the doctor says of them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from recovery.core.policy import DEFAULT_RULES
from recovery.doctor.results import State
from recovery.doctor.telling import examine_telling
from recovery.models import Channel, Delivery, Event, Notice
from recovery.pipeline import notices
from tests.factories import make_policy

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unknown_names")]
HOOK = "https://pager.example.org/h/VERYSECRET"


def test_a_channel_is_made_changed_tried_out_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("set_channel", "pager", "--kind", "webhook", "--target", HOOK)
    told = capsys.readouterr().out
    assert "pager posts to https://pager.example.org/…." in told
    secret = re.search(r"whsec_\S+", told)
    assert secret is not None
    assert secret[0] == Channel.objects.get().secret
    call_command("set_channel", "pager", "--allow-private", "--test")
    assert Channel.objects.get().allow_private
    assert Delivery.objects.count() == 1
    call_command("set_channel", "pager", "--renew-secret")
    assert Channel.objects.get().secret != secret[0]
    call_command("set_channel", "pager", "--disable", "--rename", "night")
    assert "night is off" in capsys.readouterr().out
    call_command("set_channel", "night", "--remove")
    assert not Channel.objects.exists()
    trail = str(list(Event.objects.values_list("data", "reason", "actor_name")))
    assert "VERYSECRET" not in trail
    assert "at the command line" in trail


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["new"], "give --kind and --target"),
        (["new", "--kind", "email", "--target", "x"], "is no mail address"),
        (["pager", "--kind", "email"], "is of the kind webhook"),
        (["pager", "--target", "http://a@b/"], "user and a password"),
        (["pager", "--rename", "a\nb"], "name: give 1 to 100"),
        (["new", "--kind", "slack", "--target", "http://127.0.0.1:9/x"], "target: 127.0.0.1 is at 127.0.0.1"),
        (["pager", "--target", "https://localhost/x"], "target: localhost is at .*within the site"),
        (["pager", "--allow-private", "--target", "http://169.254.169.254/x"], "tell their own secrets"),
    ],
)
def test_what_can_not_be_is_refused_with_a_remedy(given: list[str], why: str) -> None:
    call_command("set_channel", "pager", "--kind", "webhook", "--target", HOOK, verbosity=0)
    before = list(Channel.objects.values())
    with pytest.raises(CommandError, match=why):
        call_command("set_channel", *given)
    assert list(Channel.objects.values()) == before


def test_the_doctor_says_who_can_be_told(settings: Any) -> None:
    now = timezone.now()
    settings.ADDRESS = ""
    (none,) = examine_telling(now=now)
    assert (none.state, none.what) == (State.GOOD, "channels")
    new = {"kind": "slack", "target": HOOK, "created_at": now}
    Channel.objects.create(name="dead", failing_since=now - timedelta(hours=1), trouble="no answer.", **new)
    Channel.objects.create(name="fresh", **new)
    Channel.objects.create(name="good", good_at=now - timedelta(minutes=3), **new)
    Channel.objects.create(name="night", enabled=False, **new)
    make_policy(rules={**DEFAULT_RULES, "notify": [{"to": ["good", "night", "gone"]}]})
    found = {result.what: result for result in examine_telling(now=now)}
    assert {what: result.state for what, result in found.items()} == {
        "channel dead": State.BROKEN, "channel fresh": State.NOT_TRIED, "channel good": State.GOOD,
        "channel night": State.ATTENTION, "channel gone": State.ATTENTION, "links in messages": State.ATTENTION,
    }  # fmt: skip
    assert "nothing has arrived for 1 h" in found["channel dead"].detail
    assert "VERYSECRET" not in str(found)
    settings.ADDRESS = "https://desk.example.org"
    assert "links in messages" not in {result.what for result in examine_telling(now=now)}


def test_what_was_told_long_ago_is_forgotten_and_what_waits_is_not() -> None:
    now = timezone.now()
    old = now - notices.KEPT - timedelta(hours=1)
    channel = Channel.objects.create(name="c", kind="slack", target=HOOK, created_at=old)
    for key, made_at, try_at in (("gone", old, None), ("waits", old, now), ("new", now, None)):
        Delivery.objects.create(channel=channel, key=key, message={}, made_at=made_at, try_at=try_at)
    for at in (old, now):
        Notice.objects.create(at=at, kind="alarm", severity="warning", subject="x", routed_at=at)
    assert notices.forget(now=now) == 2
    assert set(Delivery.objects.values_list("key", flat=True)) == {"waits", "new"}
    assert Notice.objects.get().at == now
