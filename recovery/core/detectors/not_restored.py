"""Not restored: an attempt, whoever started it, did not continue where the run's newest checkpoint stood.

A restart of ours is watched by its own case (core/verify/); this covers all others.
"""

from __future__ import annotations

from datetime import datetime

from recovery.core.detectors.alarm import Alarm, AlarmKind
from recovery.core.detectors.alarm_limits import AlarmLimits
from recovery.core.detectors.surroundings import Surroundings
from recovery.core.speech import steps
from recovery.core.types import AttemptFacts, Evidence, Role, Signal, SignalKind
from recovery.core.verify.restore import RestoreVerdict, judge_restore

REMEDY = "If that is not wanted, stop it before its own checkpoints take the place of the good ones."


def detect_not_restored(facts: AttemptFacts, around: Surroundings, limits: AlarmLimits) -> Alarm | None:
    """An alarm from the moment it tells where it continues, until it has caught up with what was there."""
    expected = around.expected_step
    if expected is None or around.is_verified:
        return None
    if facts.last_step is not None and facts.last_step > expected and not _foreign(facts, around):
        return None
    since = facts.phase_since or facts.started_at or facts.now
    if foreign := _foreign(facts, around):
        reason = f"It loaded a checkpoint from {foreign.path[:160]}, not from the run's own {around.saves_to[:160]}."
        return _alarm(since if foreign.at is None else foreign.at, reason, foreign)
    found = judge_restore(expected_step=expected, told=around.told, log_interval=around.log_interval)
    if found.verdict not in (RestoreVerdict.OLDER, RestoreVerdict.FROM_SCRATCH):
        return None
    scratch = found.verdict is RestoreVerdict.FROM_SCRATCH
    what = "It starts from scratch" if scratch else "It continues from an older step"
    reason = f"{what}, though step {steps(expected)} of its run is complete. {found.reason}"
    return _alarm(since, reason, _load(facts))


def _load(facts: AttemptFacts) -> Signal | None:
    kinds = (SignalKind.LOADED, SignalKind.FRESH_START)
    return next((s for s in reversed(facts.signals) if s.kind in kinds), None)


def _foreign(facts: AttemptFacts, around: Surroundings) -> Signal | None:
    """The load line, where it names a folder that is neither the run's nor within it, nor the one that holds it."""
    load = _load(facts)
    if load is None or load.kind is not SignalKind.LOADED or not load.path.startswith("/") or not around.saves_to:
        return None
    here, there = around.saves_to.rstrip("/") + "/", load.path.rstrip("/") + "/"
    return None if there.startswith(here) or here.startswith(there) else load


def _alarm(since: datetime, reason: str, load: Signal | None) -> Alarm:
    evidence = (
        Evidence(text=load.text, source=load.file, role=Role.CAUSE, rule=load.rule, line=load.line, at=load.at)
        if load is not None
        else None
    )
    return Alarm(
        kind=AlarmKind.NOT_RESTORED, since=since, reason=reason[:500], remedy=REMEDY,
        evidence=(evidence,) if evidence else (),
    )  # fmt: skip
