"""Detectors: pure functions that say whether an attempt has a fault now.

A new one is a file with `detect_<kind>(facts, limits) -> Finding | None` and a line in DETECTORS.
"""

from __future__ import annotations

from collections.abc import Callable

from recovery.core.detectors.crash import detect_crash
from recovery.core.detectors.hang import detect_hang
from recovery.core.detectors.limit_near import detect_limit_near
from recovery.core.detectors.limits import Limits
from recovery.core.detectors.slowdown import detect_slowdown
from recovery.core.types import AttemptFacts, Finding

__all__ = ["DETECTORS", "Limits", "detect"]

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
