"""Unsaved: it makes progress, and its checkpoints do not come. What would be lost if it failed now.

A time limit that comes before the next checkpoint is limit_near.py's, room that runs out is core/outlook.py's.
"""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

from recovery.core.detectors.alarm import Alarm, AlarmKind
from recovery.core.detectors.alarm_limits import AlarmLimits
from recovery.core.detectors.surroundings import Surroundings
from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.series import typical_step_time
from recovery.core.speech import duration, steps, tenths
from recovery.core.types import AttemptFacts, Evidence, FailureClass, Role, SignalKind

ABOUT_SAVES = (FailureClass.STORAGE_FULL, FailureClass.STORAGE_TRANSIENT, FailureClass.CHECKPOINT_INCOMPLETE)
STILL = 3.0  # times as long as its steps usually take: beyond that it stood still
REMEDY = "See why it does not save (room, quota, permissions, its settings) before something else stops it."


def detect_unsaved(facts: AttemptFacts, around: Surroundings, limits: AlarmLimits) -> Alarm | None:
    """An alarm where the next checkpoint is long overdue by the run's own rhythm, or none ever came."""
    if facts.last_progress_at is None or not facts.samples:
        return None
    trains_since = facts.samples[0].at
    if around.saved_at is None:
        return _never(facts, around, limits, trains_since)
    if around.save_every_s is None:
        return None
    since = max(around.saved_at, trains_since)
    due = max(limits.save_late * around.save_every_s, around.save_every_s + limits.save_grace_s)
    waited = (facts.last_progress_at - since).total_seconds()
    if waited <= due or (waited := waited - _standing_still(facts, since)) <= due:
        return None
    reason = (
        f"No checkpoint was complete for {duration(waited)} of training; they usually come every "
        f"{duration(around.save_every_s)}. {_lost(facts, around, waited)}"
    )
    return Alarm(
        kind=AlarmKind.UNSAVED, since=since, reason=reason, remedy=REMEDY, evidence=_said(facts, since)
    )  # fmt: skip


def _never(facts: AttemptFacts, around: Surroundings, limits: AlarmLimits, since: datetime) -> Alarm | None:
    if not around.saves_to or facts.last_progress_at is None:
        return None  # whoever never said where it saves may not want to
    waited = (facts.last_progress_at - since).total_seconds()
    if waited <= limits.never_saved_s:
        return None
    reason = (
        f"It trains for {duration(waited)}, and no complete checkpoint was ever seen in {around.saves_to[:120]}. "
        f"{_lost(facts, around, waited)}"
    )
    return Alarm(kind=AlarmKind.UNSAVED, since=since, reason=reason, remedy=REMEDY, evidence=_said(facts, since))


def _standing_still(facts: AttemptFacts, since: datetime) -> float:
    """Seconds since then in which it made no step though it could have made several: no training, and no time to save.

    By the steps that did come, as reports may be missing in the middle of a long attempt.
    """
    usual = typical_step_time(facts.samples)
    if usual is None:
        return 0.0
    pairs = [(a, b) for a, b in pairwise(facts.samples) if a.at >= since and b.step > a.step]
    spare = ((b.at - a.at).total_seconds() - STILL * usual * (b.step - a.step) for a, b in pairs)
    return sum(seconds for seconds in spare if seconds > 0)


def _lost(facts: AttemptFacts, around: Surroundings, waited: float) -> str:
    """What a failure now would cost."""
    begun = around.saved_step if around.saved_step is not None else facts.samples[0].step
    behind = max((facts.last_step or begun) - begun, 0)
    hours = f" and {tenths(around.gpus * waited / 3600)} GPU-hours" if around.gpus else ""
    return f"If it failed now, {steps(behind)} steps{hours} of work would be lost."


def _said(facts: AttemptFacts, since: datetime) -> tuple[Evidence, ...]:
    """What the log says of storage and saves since then."""
    lines = [
        s
        for s in facts.signals
        if s.kind is SignalKind.FAILURE
        and s.rule in RULES_BY_ID
        and RULES_BY_ID[s.rule].failure_class in ABOUT_SAVES
        and s.at is not None
        and s.at >= since
    ]
    return tuple(
        Evidence(text=s.text, source=s.file, role=Role.CAUSE, rule=s.rule, line=s.line, at=s.at, rank=s.rank)
        for s in lines[:3]
    )
