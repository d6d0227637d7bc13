"""Whether people can be told: the channels, the names that the policy uses, and where links lead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings

from recovery.core.speech import counted, duration
from recovery.doctor.results import Group, Result, State
from recovery.selectors import channel_reads, current_policy


def examine_telling(*, now: datetime) -> Iterator[Result]:
    """Nothing is sent for it: a test is one of the page Notifications."""
    rows = channel_reads.channels(now=now)
    on = [row for row in rows if row.channel.enabled]
    if not on:
        detail = "no channel is switched on: nobody is told of anything"
        remedy = "Make one at the page Notifications or with `manage.py set_channel` (docs/notifications.md)."
        yield _result("channels", detail, remedy=remedy, state=State.GOOD, at=now)
    for row in on:
        yield _channel(row, now=now)
    routing = channel_reads.routing(current_policy(), now=now)
    for name in [*routing.missing, *routing.off]:
        detail = "the policy names it, but " + ("it is off" if name in routing.off else "there is no such channel")
        remedy = "Make it or switch it on, or name another in the policy: nobody is told there meanwhile."
        yield _result(f"channel {name}", detail, remedy=remedy, state=State.ATTENTION, at=now)
    if on and not settings.ADDRESS:
        remedy = "Set RECOVERY_ADDRESS to the address at which people reach this desk, as https://desk.example.org."
        yield _result("links in messages", "lead nowhere", remedy=remedy, state=State.ATTENTION, at=now)


def _channel(row: channel_reads.ChannelHealth, *, now: datetime) -> Result:
    what, channel = f"channel {row.channel.name}", row.channel
    waiting = f"; {counted(row.waiting, 'message')} waiting" if row.waiting else ""
    if channel.failing_since is not None:
        failing = f"nothing has arrived for {duration((now - channel.failing_since).total_seconds())}"
        remedy = f"{channel.trouble} See the page Notifications."
        state = State.BROKEN if row.state == "dead" else State.ATTENTION
        return _result(what, failing + waiting, remedy=remedy, state=state, at=now)
    if channel.good_at is None:
        return _result(what, f"nothing was sent by it yet{waiting}", state=State.NOT_TRIED, at=now)
    last = duration((now - channel.good_at).total_seconds())
    return _result(what, f"a message arrived {last} ago{waiting}", state=State.GOOD, at=now)


def _result(what: str, detail: str, *, at: datetime, remedy: str = "", state: State) -> Result:
    return Result(group=Group.INSTALLATION, what=what, detail=detail, remedy=remedy, state=state, at=at)
