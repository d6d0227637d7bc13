"""Channels as pages and API show them: how each does, what it has waiting, and whom the policy names in vain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, Min, Q, QuerySet

from recovery.core.notices import DEAD, Told, named_channels, who_is_told
from recovery.core.policy import DEFAULT_RULES
from recovery.models import Channel, Delivery, PolicyVersion


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelHealth:
    """`state` is a key of CHANNEL_WORDS."""

    channel: Channel
    state: str
    waiting: int
    oldest_at: datetime | None  # of those that wait


@dataclass(frozen=True, kw_only=True, slots=True)
class Routing:
    told: list[Told]
    missing: list[str]  # named by the policy, but there is no such channel
    off: list[str]
    channels: int  # that are on


def channel_state(channel: Channel, *, now: datetime) -> str:
    if not channel.enabled:
        return "off"
    if channel.failing_since is not None:
        return "dead" if channel.failing_since <= now - DEAD else "failing"
    return "good" if channel.good_at else "untried"


def delivery_state(delivery: Delivery) -> str:
    """A key of DELIVERY_WORDS."""
    if delivery.sent_at is not None:
        return "arrived"
    if delivery.try_at is not None:
        return "retrying" if delivery.tries else "waiting"
    return "given_up" if delivery.tries and not delivery.trouble.startswith("Not sent: ") else "dropped"


def channels(*, now: datetime) -> list[ChannelHealth]:
    """All of them, by name; one query."""
    waits = Q(deliveries__try_at__isnull=False)
    rows = Channel.objects.annotate(
        waiting=Count("deliveries", filter=waits), oldest_at=Min("deliveries__made_at", filter=waits)
    ).order_by("name")
    return [
        ChannelHealth(
            channel=row, state=channel_state(row, now=now), waiting=vars(row)["waiting"],
            oldest_at=vars(row)["oldest_at"],
        )
        for row in rows
    ]  # fmt: skip


def deliveries() -> QuerySet[Delivery]:
    """The newest first."""
    return Delivery.objects.select_related("channel").order_by("-made_at", "-pk")


def dead_channels(*, now: datetime) -> list[Channel]:
    """Those by which nothing has arrived for too long, the longest first."""
    found = Channel.objects.filter(enabled=True, failing_since__lte=now - DEAD)
    return list(found.order_by(F("failing_since")))


def routing(version: PolicyVersion | None, *, now: datetime) -> Routing:
    """Who is told of what by this version of the policy; one query."""
    rules = version.rules if version else DEFAULT_RULES
    on = dict(Channel.objects.values_list("name", "enabled"))
    every, named = sorted(name for name, enabled in on.items() if enabled), named_channels(rules)
    return Routing(
        told=who_is_told(rules, every=every, at=now), channels=len(every),
        missing=[name for name in named if name not in on], off=[name for name in named if on.get(name) is False],
    )  # fmt: skip
