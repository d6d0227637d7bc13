"""Detectors: pure functions that say whether an attempt has a fault now.

A new one is a file with `detect_<kind>(facts, limits) -> Finding | None` and a line in DETECTORS. What only tells
people something is an alarm: `detect_<kind>(facts, around, limits) -> Alarm | None` and a line in ALARMS.
"""

from __future__ import annotations

from collections.abc import Callable

from recovery.core.detectors.alarm import Alarm, AlarmKind
from recovery.core.detectors.alarm_limits import AlarmLimits
from recovery.core.detectors.crash import detect_crash
from recovery.core.detectors.crash_loop import detect_crash_loop
from recovery.core.detectors.hang import detect_hang
from recovery.core.detectors.limit_near import detect_limit_near
from recovery.core.detectors.limits import Limits
from recovery.core.detectors.not_restored import detect_not_restored
from recovery.core.detectors.not_starting import detect_not_starting
from recovery.core.detectors.numerics import detect_numerics
from recovery.core.detectors.shared_stall import detect_shared_stall
from recovery.core.detectors.slowdown import detect_slowdown
from recovery.core.detectors.straggler import detect_straggler
from recovery.core.detectors.surroundings import Surroundings
from recovery.core.detectors.unsaved import detect_unsaved
from recovery.core.types import AttemptFacts, Finding, JobState

__all__ = ["ALARMS", "DETECTORS", "Alarm", "AlarmKind", "AlarmLimits", "Limits", "Surroundings", "alarms", "detect"]

DETECTORS: tuple[Callable[[AttemptFacts, Limits], Finding | None], ...] = (
    detect_crash, detect_hang, detect_slowdown, detect_limit_near,
)  # fmt: skip


def detect(facts: AttemptFacts, limits: Limits) -> list[Finding]:
    """All findings on one attempt at one moment, the gravest first; [] when it is healthy or nothing can be told.

    A blind attempt and an old picture never give a hang or a slowdown. Crashed excludes hung
    excludes slow excludes near its limit.
    """
    for detector in DETECTORS:
        if finding := detector(facts, limits):
            return [finding]
    return []


Detector = Callable[[AttemptFacts, Surroundings, AlarmLimits], Alarm | None]

ALARMS: tuple[Detector, ...] = (
    detect_not_starting, detect_crash_loop, detect_not_restored, detect_numerics, detect_shared_stall, detect_unsaved,
    detect_straggler,
)  # fmt: skip
WHATEVER_ITS_STATE: tuple[Detector, ...] = (detect_not_starting, detect_crash_loop)  # they ask for it themselves


def alarms(
    facts: AttemptFacts, around: Surroundings, limits: AlarmLimits, *, stale_after_s: float = 60.0
) -> list[Alarm]:
    """All that people should know of one attempt at one moment; [] where there is nothing, or nothing can be told.

    A blind attempt and an old picture give none of what rests on reports.
    """
    if (facts.now - facts.seen_at).total_seconds() > stale_after_s:
        return []
    watched = facts.state is JobState.RUNNING and not facts.blind_reason
    detectors = ALARMS if watched else WHATEVER_ITS_STATE
    found = (detector(facts, around, limits) for detector in detectors)
    return [alarm for alarm in found if alarm is not None]
