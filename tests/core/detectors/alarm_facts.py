"""What alarms ask for, with as few words as a test needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recovery.core.detectors import AlarmLimits, Surroundings, alarms
from recovery.core.detectors.alarm import Alarm
from recovery.core.types import AttemptFacts, Sample
from tests.core.attempts import attempt, samples

LIMITS = AlarmLimits()


def found(facts: AttemptFacts, **around: Any) -> list[Alarm]:
    return alarms(facts, Surroundings(**around), LIMITS)


def kinds(facts: AttemptFacts, **around: Any) -> list[str]:
    return [alarm.kind.value for alarm in found(facts, **around)]


def training(reports: Sequence[Sample], **fields: Any) -> AttemptFacts:
    """Seen right after its last report."""
    return replace(attempt(samples=reports), now=reports[-1].at, seen_at=reports[-1].at, **fields)


def losing(*losses: float | None) -> list[Sample]:
    """One report for each, at a steady pace."""
    rows = samples(len(losses))
    return [replace(row, loss=loss) for row, loss in zip(rows, losses, strict=True)]
