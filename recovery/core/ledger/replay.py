"""Phases of an attempt from its stored marks: what `recovery.core.phases` said, moment by moment, said again.

A table holds the phase of now only; samples and signals hold all that led to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from recovery.core.ledger.history import PhaseSpan
from recovery.core.phases import next_phase
from recovery.core.types import Phase, Signal, SignalKind

ORDER = {kind: index for index, kind in enumerate(SignalKind)}  # of marks in the same moment


def replay_phases(
    attempt: int, *, started_at: datetime, ended_at: datetime | None, marks: Iterable[tuple[datetime, SignalKind]]
) -> tuple[PhaseSpan, ...]:
    """The phases from start to end. A mark is a sample (PROGRESS) or a signal with its time; what lies outside the
    attempt counts at its edge.
    """
    spans: list[PhaseSpan] = []
    phase, since = Phase.STARTING, started_at
    for at, kind in sorted(set(marks), key=lambda mark: (mark[0], ORDER[mark[1]])):
        following = next_phase(phase, _signal(kind))
        if following is phase:
            continue
        at = max(at, started_at) if ended_at is None else min(max(at, started_at), ended_at)
        if at > since:
            spans.append(PhaseSpan(attempt=attempt, phase=phase, start=since, end=at))
        phase, since = following, at
    if ended_at is None or ended_at > since:
        spans.append(PhaseSpan(attempt=attempt, phase=phase, start=since, end=ended_at))
    return tuple(spans)


def unseen_since(spans: tuple[PhaseSpan, ...], blind_at: datetime) -> tuple[PhaseSpan, ...]:
    """The same of an attempt that can't be observed since `blind_at`: from there on its phase is unknown."""
    if not spans or spans[-1].end is not None:
        return spans
    last = spans[-1]
    since = max(blind_at, last.start)
    seen = () if since == last.start else (replace(last, end=since),)
    return (*spans[:-1], *seen, replace(last, phase=Phase.UNKNOWN, start=since))


def _signal(kind: SignalKind) -> Signal:
    return Signal(kind=kind, file="", line=0, offset=0, text="", rule="")
