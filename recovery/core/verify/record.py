"""What is kept of each of the three things that must be seen: expected, seen, where, and by when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class CheckKey(StrEnum):
    CONVERGED = "converged"  # the scheduler shows what the action wanted, and the run executes again
    RESTORED = "restored"
    CHECKPOINT = "checkpoint"  # the next one


class CheckState(StrEnum):
    NOT_YET = "not_yet"  # another one must be seen first
    WAITING = "waiting"
    AS_EXPECTED = "as_expected"
    NOT_AS_EXPECTED = "not_as_expected"
    OVERDUE = "overdue"  # not seen by its deadline; still looked for


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where something was seen: a log's file and line, a tracker file, a folder, or a field of the scheduler's record.

    `by_word` is True where only the trainer's own word stands for it.
    """

    source: str  # "load line", "tracker file", "scheduler: StartTime"
    says: str
    file: str = ""
    line: int | None = None
    by_word: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One of the three. `deadline_from` says what the deadline was learned from; `queued_s` is not counted in it."""

    key: CheckKey
    state: CheckState
    expected: str
    seen: str = ""
    places: tuple[Place, ...] = ()
    contradictions: tuple[str, ...] = ()
    at: datetime | None = None  # when it was seen
    deadline_at: datetime | None = None
    deadline_from: str = ""
    queued_s: float | None = None  # seconds in the queue between the action and the start
    held_s: float | None = None  # seconds that it was held in the queue, or suspended: in no deadline either
    held_since: datetime | None = None  # it is so now
    attempt_id: int | None = None  # the new attempt that it is about
    waits_for: str = ""  # "restore", "first step" or "checkpoint": the deadline is that one's
