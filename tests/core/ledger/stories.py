"""Histories of invented runs, built with as few words as a test needs. Moments are minutes after nine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from recovery.core.ledger import (
    AttemptSpan,
    CaseChange,
    CaseClocks,
    CheckpointDone,
    Entry,
    History,
    Ledger,
    PhaseSpan,
    Restored,
    StepSeen,
    keep_ledger,
)
from recovery.core.lifecycle import IncidentState
from recovery.core.types import FindingKind, JobState, Phase

START = datetime(2026, 1, 11, 9, 0, tzinfo=UTC)
GPUS = 16
KINDS = tuple(name for name in History.__slots__ if name != "sees_checkpoints")


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def attempt(
    number: int,
    submitted: float,
    started: float | None = None,
    ended: float | None = None,
    *,
    state: JobState = JobState.RUNNING,
    job: int = 1,
    gpus: int = GPUS,
) -> AttemptSpan:
    """Attempt `number` of a job; its id is ten times the job's number and its own."""
    return AttemptSpan(
        attempt=10 * job + number, job=job, number=number, submitted_at=at(submitted),
        started_at=None if started is None else at(started), ended_at=None if ended is None else at(ended),
        gpus=gpus, state=state,
    )  # fmt: skip


def phase(of: int, name: Phase, start: float, end: float | None) -> PhaseSpan:
    return PhaseSpan(attempt=of, phase=name, start=at(start), end=None if end is None else at(end))


def steps(of: int, first: float, step: int, count: int, *, every: float = 1, stride: int = 10) -> tuple[StepSeen, ...]:
    """`count` samples, the first at minute `first` with `step`."""
    return tuple(StepSeen(attempt=of, at=at(first + every * i), step=step + stride * i) for i in range(count))


def restored(of: int, minute: float, step: int) -> Restored:
    return Restored(attempt=of, at=at(minute), step=step)


def saved(step: int, minute: float, of: int | None = None) -> CheckpointDone:
    return CheckpointDone(step=step, completed_at=at(minute), attempt=of)


def case(
    of: int,
    failed: float,
    detected: float,
    *changes: tuple[float, IncidentState],
    closed: float | None = None,
    kind: FindingKind = FindingKind.CRASH,
    incident: int = 1,
    **fields: Any,
) -> CaseClocks:
    return CaseClocks(
        incident=incident, attempt=of, kind=kind, failed_at=at(failed), detected_at=at(detected),
        changes=tuple(CaseChange(at=at(minute), state=state) for minute, state in changes),
        closed_at=None if closed is None else at(closed), **fields,
    )  # fmt: skip


def told(history: History, now: float) -> list[tuple[str, float, float]]:
    """The ledger as (category, from, up to) in minutes."""
    return shown(keep_ledger(history, now=at(now)).entries)


def shown(entries: Iterable[Entry]) -> list[tuple[str, float, float]]:
    return [(str(e.category), minutes(e.start), minutes(e.end)) for e in entries]


def minutes(moment: datetime) -> float:
    return (moment - START) / timedelta(minutes=1)


def assert_balanced(ledger: Ledger, history: History, now: datetime) -> None:
    """No gap, no overlap, nothing empty, from the first submission on: the invariant itself."""
    known = [a for a in history.attempts if a.submitted_at <= now]
    if not known:
        assert ledger == Ledger()
        return
    starts = [a.started_at for a in known if a.started_at is not None and a.started_at <= now]
    begin = min([*(a.submitted_at for a in known), *starts])
    edge = begin
    for entry in ledger.entries:
        assert entry.start == edge
        assert entry.end > entry.start
        edge = entry.end
    assert edge <= now
    if ledger.tail is not None:
        assert edge == now == ledger.tail.since


def joined(*histories: History) -> History:
    """One history that knows all that these know."""
    result = History()
    for history in histories:
        fields = {name: getattr(result, name) + getattr(history, name) for name in KINDS}
        result = replace(result, **fields)
    return result
