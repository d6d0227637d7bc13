"""Random histories: contradictory, overlapping, out of order, as no cluster would tell them and some day one will.

A history is read from a row of random bytes: that is quick to draw, and shrinks. Moments are whole seconds (and a few
microseconds) within two minutes, so that many coincide; `NOW` lies in their midst.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st

from recovery.core.ledger import (
    AttemptSpan,
    BlindSpan,
    CaseChange,
    CaseClocks,
    CheckpointDone,
    History,
    PhaseSpan,
    Restored,
    SlowSpan,
    StepSeen,
)
from recovery.core.lifecycle import IncidentState
from recovery.core.types import FailureClass, FindingKind, JobState, Outcome, Phase
from tests.core.ledger.stories import START

T = TypeVar("T")

LATEST = 120
NOW = START + timedelta(seconds=90)
ATTEMPTS = (10, 11, 12, 20, 21, 99)  # two jobs, and one that no history knows


def moment(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds, microseconds=seconds % 7)


class Reader:
    """Reads values from bytes; when they are used up, everything is the first of its kind."""

    def __init__(self, data: bytes, latest: int) -> None:
        self._data = iter(data)
        self._latest = latest

    def number(self, below: int) -> int:
        return next(self._data, 0) % below

    def one(self, values: Sequence[T]) -> T:
        return values[self.number(len(values))]

    def when(self) -> datetime:
        return moment(self.number(self._latest + 1))

    def maybe(self) -> datetime | None:
        return None if self.number(3) == 0 else self.when()

    def attempt(self) -> AttemptSpan:
        number = self.one(ATTEMPTS[:-1])
        return AttemptSpan(
            attempt=number, job=number // 10, number=number % 10, submitted_at=self.when(), started_at=self.maybe(),
            ended_at=self.maybe(), gpus=self.one((0, 1, 8)), state=self.one(tuple(JobState)),
        )  # fmt: skip

    def case(self) -> CaseClocks:
        change = [CaseChange(at=self.when(), state=self.one(tuple(IncidentState))) for _ in range(self.number(4))]
        return CaseClocks(
            incident=self.number(3), attempt=self.one(ATTEMPTS), kind=self.one(tuple(FindingKind)),
            failed_at=self.when(), detected_at=self.when(), recommended_at=self.maybe(), decided_at=self.maybe(),
            acted_at=self.maybe(), restored_at=self.maybe(), checkpoint_at=self.maybe(), closed_at=self.maybe(),
            failed_step=self.number(60), restored_step=self.number(60), changes=tuple(change),
            outcome=self.one((None, *Outcome)), failure_class=self.one((None, *FailureClass)),
        )  # fmt: skip

    def thing(self) -> tuple[str, Any]:
        """One value of a history, and where in it it belongs."""
        kind = self.one(("steps", "steps", "steps", "phases", "phases", "attempts", "checkpoints", "restores", "blind",
                         "slow", "cases"))  # fmt: skip
        if kind == "attempts":
            return kind, self.attempt()
        if kind == "cases":
            return kind, self.case()
        if kind == "checkpoints":
            writer = self.one((*ATTEMPTS, None))
            return kind, CheckpointDone(step=self.number(60), completed_at=self.when(), attempt=writer)
        of, at = self.one(ATTEMPTS), self.when()
        if kind == "steps":
            return kind, StepSeen(attempt=of, at=at, step=self.number(60))
        if kind == "restores":
            return kind, Restored(attempt=of, at=at, step=self.number(60), began_at=self.maybe())
        if kind == "phases":
            return kind, PhaseSpan(attempt=of, phase=self.one(tuple(Phase)), start=at, end=self.maybe())
        span = BlindSpan if kind == "blind" else SlowSpan
        return kind, span(attempt=of, start=at, end=self.maybe())


def history_of(data: bytes, *, latest: int = LATEST) -> History:
    reader = Reader(data[1:], latest)
    things: dict[str, list[Any]] = {"attempts": _orderly(reader) if data[:1] > b"\x60" else []}
    for _ in range(len(data) // 6):
        kind, value = reader.thing()
        things.setdefault(kind, []).append(value)
    kinds = {kind: tuple(values) for kind, values in things.items()}
    return History(**kinds, sees_checkpoints=data[-1:] < b"\xc0")


def _orderly(reader: Reader) -> list[AttemptSpan]:
    """Three attempts of one job that follow each other, as Slurm tells them."""
    edges = sorted(reader.when() for _ in range(9))
    return [
        AttemptSpan(
            attempt=10 + i, job=1, number=i, submitted_at=edges[3 * i], started_at=edges[3 * i + 1],
            ended_at=edges[3 * i + 2], gpus=8, state=JobState.FAILED,
        )
        for i in range(3)
    ]  # fmt: skip


def histories(latest: int = LATEST) -> st.SearchStrategy[History]:
    """Any history whose moments lie within `latest` seconds."""
    return st.binary(min_size=60, max_size=240).map(lambda data: history_of(data, latest=latest))
