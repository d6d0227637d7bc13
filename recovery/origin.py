"""Where what happens now comes from: the request, task or command under way, for the audit trail and for answers."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """`place` is a client's address, or what runs on which host."""

    request_id: str
    place: str


NOWHERE = Origin("", "")
_current: ContextVar[Origin] = ContextVar("origin", default=NOWHERE)


def current() -> Origin:
    """Both are "" where nothing was begun, as at a Python prompt."""
    return _current.get()


def set_origin(place: str, *, request_id: str = "") -> None:
    """For as long as this context lasts. The id is made up where none is given: 32 hex digits."""
    _current.set(Origin(request_id or uuid.uuid4().hex, place[:100]))


@contextmanager
def origin(place: str, *, request_id: str = "") -> Iterator[Origin]:
    """What happens within comes from there."""
    before = _current.set(Origin(request_id or uuid.uuid4().hex, place[:100]))
    try:
        yield _current.get()
    finally:
        _current.reset(before)


def on_this_host(what: str) -> str:
    return f"{what} on {socket.gethostname()}"
