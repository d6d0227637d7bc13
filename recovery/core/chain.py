"""How events are chained: each link is a digest of the link before it, its number, and every field of its event.

What is written here may never change for events that are sealed already: a chain is verified by computing it anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from recovery.core.speech import counted

GENESIS = "0" * 64  # what the first link of all continues

FIELDS = (
    "id", "at", "actor_kind", "actor_name", "request_id", "origin", "subject_kind", "subject_id", "incident_id", "verb",
    "old", "new", "reason", "data",
)  # fmt: skip


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event as JSON holds them: times as ISO 8601 in UTC with microseconds."""
    fields = {name: row[name] for name in FIELDS}
    if isinstance(fields["at"], datetime):
        fields["at"] = fields["at"].astimezone(UTC).isoformat(timespec="microseconds")
    return fields


def link(previous: str, number: int, row: Mapping[str, Any]) -> str:
    """SHA-256 in hex over the link before (64 hex digits), the number (from 1, without gaps), and the event."""
    event = json.dumps(plain(row), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(f"{previous}\n{number}\n{event}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Link:
    """Where a chain stands: the event that was linked last, its number, and the digest that the next one continues."""

    id: int
    number: int
    digest: str


START = Link(0, 0, GENESIS)


@dataclass(frozen=True, slots=True)
class Break:
    """The first bad row, and what is wrong with it."""

    id: int
    reason: str


def follow(start: Link, events: Iterable[Mapping[str, Any]], seals: Iterable[Link]) -> tuple[Link, Break | None]:
    """Follow the chain from `start` through a stretch: all events and all seals of it, both in the order of their ids.

    Gives where it ends, and the first bad row where there is one.
    """
    here = start
    rows = iter(events)
    event = next(rows, None)
    for seal in seals:
        if event is not None and event["id"] < seal.id:
            return here, Break(event["id"], NOT_SEALED)
        if event is None or event["id"] > seal.id:
            return here, Break(seal.id, "Its seal is there and the event is gone: it was deleted.")
        missing = seal.number - here.number - 1
        if missing:
            return here, Break(seal.id, _missing(here, missing))
        if link(here.digest, seal.number, event) != seal.digest:
            return here, Break(seal.id, CHANGED)
        here, event = seal, next(rows, None)
    return here, None if event is None else Break(event["id"], NOT_SEALED)


NOT_SEALED = "It stands among sealed events without a seal: it was put in later."
CHANGED = "It does not continue the chain: this event or its seal was changed, or rows were put in another order."


def _missing(here: Link, count: int) -> str:
    if count < 0:
        return "The number of its seal does not follow: seals were changed or put in another order."
    return f"{counted(count, 'event')} between {here.id} and this one were deleted together with their seals."
