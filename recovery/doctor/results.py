"""What the doctor says: results with their state, in groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """Keys of recovery/core/words.py: EXAMINED_WORDS."""

    GOOD = "good"
    ATTENTION = "attention"  # something can't be done or seen here; the rest works
    BROKEN = "broken"
    NOT_TRIED = "not_tried"  # what is said follows from something else, such as our rights


class Group(StrEnum):
    """In the order in which they are shown."""

    INSTALLATION = "This installation"
    CONTROLLER = "The controller"
    SETTINGS = "What Slurm is set to"
    CALLS = "Calls as this user"
    FILES = "Job files as the worker sees them"
    SOURCES = "Other sources"


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One thing looked at. `remedy` says what to change, "" where there is nothing; a good one may name a choice."""

    group: Group
    what: str
    detail: str
    state: State
    at: datetime  # when it was observed
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return {
            "group": self.group.value,
            "what": self.what,
            "detail": self.detail,
            "state": self.state.value,
            "at": self.at.isoformat(),
            "remedy": self.remedy,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Result:
        return cls(
            group=Group(stored["group"]),
            what=stored["what"],
            detail=stored["detail"],
            state=State(stored["state"]),
            at=datetime.fromisoformat(stored["at"]),
            remedy=stored["remedy"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """`at` is when the look ended; None: there was none yet. `under_way`: another one is due, or a worker is at it."""

    at: datetime | None
    results: tuple[Result, ...]
    under_way: bool = False

    def count(self, state: State) -> int:
        return sum(result.state is state for result in self.results)

    @property
    def broken(self) -> int:
        return self.count(State.BROKEN)

    @property
    def attention(self) -> int:
        return self.count(State.ATTENTION)

    @property
    def state(self) -> State:
        """The worst that there is."""
        if not self.results:
            return State.NOT_TRIED
        return next((bad for bad in (State.BROKEN, State.ATTENTION) if self.count(bad)), State.GOOD)

    @property
    def summary(self) -> str:
        if not self.results:
            return "Not examined yet."
        if self.state is State.GOOD:
            return "All is well."
        counts = ((self.broken, "broken"), (self.attention, "to look at"))
        return f"{', '.join(f'{count} {word}' for count, word in counts if count)}."


def in_groups(results: Iterable[Result]) -> list[tuple[Group, list[Result]]]:
    """Groups that have a result, each in the order of its results."""
    found = list(results)
    grouped = [(group, [result for result in found if result.group is group]) for group in Group]
    return [(group, members) for group, members in grouped if members]
