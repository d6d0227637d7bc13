"""A history as it was known at one moment: what is dated later has not happened yet, whoever says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from recovery.core.ledger.history import AttemptSpan, BlindSpan, CaseClocks, History, PhaseSpan, SlowSpan

Span = TypeVar("Span", PhaseSpan, BlindSpan, SlowSpan)


def known_by(history: History, now: datetime) -> History:
    """The same without what lies after `now`. What ends only then still lasts."""
    return History(
        attempts=tuple(_attempt(span, now) for span in history.attempts if span.submitted_at <= now),
        phases=_spans(history.phases, now),
        blind=_spans(history.blind, now),
        slow=_spans(history.slow, now),
        steps=tuple(step for step in history.steps if step.at <= now),
        restores=tuple(restore for restore in history.restores if restore.at <= now),
        checkpoints=tuple(done for done in history.checkpoints if done.completed_at <= now),
        sees_checkpoints=history.sees_checkpoints,
        cases=tuple(_case(clocks, now) for clocks in history.cases if clocks.detected_at <= now),
    )


def _attempt(span: AttemptSpan, now: datetime) -> AttemptSpan:
    return replace(span, started_at=_past(span.started_at, now), ended_at=_past(span.ended_at, now))


def _spans(spans: tuple[Span, ...], now: datetime) -> tuple[Span, ...]:
    return tuple(
        span if span.end is None or span.end <= now else replace(span, end=None) for span in spans if span.start <= now
    )


def _case(clocks: CaseClocks, now: datetime) -> CaseClocks:
    changes = tuple(change for change in clocks.changes if change.at <= now)
    return replace(clocks, changes=changes, closed_at=_past(clocks.closed_at, now))


def _past(at: datetime | None, now: datetime) -> datetime | None:
    return at if at is not None and at <= now else None
