"""Channels that a test listens to, and what has to be told."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from recovery.core.lifecycle import IncidentState
from recovery.core.notices import GATHER, Message
from recovery.core.types import FailureClass
from recovery.models import Channel, Incident
from recovery.notify.base import Address, NotSent
from recovery.pipeline import notices
from recovery.pipeline.transition import advance
from tests.factories import make_incident, make_recommendation


class Post:
    """Takes what a channel sends, or refuses it as the test says."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.refuses: NotSent | None = None

    def __call__(self, message: Message, address: Address, *, now: datetime) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.sent.append(message)


def make_channel(name: str = "chat", **fields: Any) -> Channel:
    return Channel.objects.create(
        name=name, kind="slack", target="https://chat.example.org/x", created_at=timezone.now(), **fields
    )


def ask(**fields: Any) -> Incident:
    """A case that begins to wait for a decision."""
    incident = make_incident(state=IncidentState.RECOMMENDED, failure_class=FailureClass.GPU_HARDWARE, **fields)
    make_recommendation(incident=incident)
    return advance(incident, IncidentState.AWAITING_DECISION, now=timezone.now(), why="The policy asks.")


def run(*, at: datetime | None = None) -> None:
    """Route and deliver, as workers do, once everything has gathered."""
    now = at or timezone.now() + GATHER
    notices.route(now=now)
    for pk in notices.due(now):
        notices.deliver(pk, clock=lambda: now)
