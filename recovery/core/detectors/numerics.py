"""Numerics: the loss is no number, diverges, or is no longer printed. An alarm, never a reason to restart machines.

A loss that is not finite is stored as none (the parsers' rule), so "no number" and "no longer printed" look alike here;
what the log says beside it tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import median

from recovery.core.detectors.alarm import Alarm, AlarmKind
from recovery.core.detectors.alarm_limits import AlarmLimits
from recovery.core.detectors.surroundings import Surroundings
from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.speech import steps
from recovery.core.types import AttemptFacts, Evidence, FailureClass, Role, Sample, Signal, SignalKind

REMEDY = "Look at the loss before more is trained and saved: an older checkpoint or other settings may help."
MOSTLY = 0.8  # of the earlier reports must carry a loss, for its absence to mean anything
OVERFLOW = "numerics.overflow"


def detect_numerics(facts: AttemptFacts, around: Surroundings, limits: AlarmLimits) -> Alarm | None:
    """An alarm where the newest reports carry no loss any more, or a far greater one, or the trainer says so itself."""
    own = [s for s in facts.samples if s.rank == facts.samples[0].rank] if facts.samples else []
    return _gone(own, facts, limits) or _said(own, facts, limits) or _diverged(own, limits)


def _gone(samples: Sequence[Sample], facts: AttemptFacts, limits: AlarmLimits) -> Alarm | None:
    count = next((n for n, s in enumerate(reversed(samples)) if s.loss is not None), len(samples))
    if count < limits.loss_gone:
        return None
    before = samples[: len(samples) - count]
    if len(before) < (limits.loss_known if count < 2 * limits.loss_known else limits.loss_least):
        return None
    if sum(s.loss is not None for s in before) < MOSTLY * len(before):
        return None
    first = samples[len(before)]
    said = [s for s in _signals(facts) if s.at is not None and s.at >= before[-1].at]
    what = "is no number" if said else "is no number, or is no longer printed,"
    reason = f"The loss {what} since step {steps(first.step)}, in each of the last {count} reports."
    return _alarm(first.at, reason, *(_evidence(signal) for signal in said[:3]))


def _said(samples: Sequence[Sample], facts: AttemptFacts, limits: AlarmLimits) -> Alarm | None:
    """What the trainer itself says, as long as no row of reports with a loss has followed."""
    quiet_since = samples[-limits.loss_gone].at if len(samples) >= limits.loss_gone else None
    said = [s for s in _signals(facts) if quiet_since is None or (s.at is not None and s.at >= quiet_since)]
    causes = [s for s in said if RULES_BY_ID[s.rule].role is Role.CAUSE]
    skipped = [s for s in said if s.rule == OVERFLOW]
    if causes:
        told = causes[0]
        return _alarm(told.at or facts.now, RULES_BY_ID[told.rule].sentence, _evidence(told))
    if len(skipped) >= limits.skipped_steps:
        reason = f"{len(skipped)} steps were skipped for overflow within the last reports: the loss scale collapses."
        return _alarm(skipped[0].at or facts.now, reason, _evidence(skipped[0]), _evidence(skipped[-1]))
    return None


def _diverged(samples: Sequence[Sample], limits: AlarmLimits) -> Alarm | None:
    losses = [s.loss for s in samples if s.loss is not None]
    newest, before = losses[-limits.loss_window :], losses[: -limits.loss_window]
    if len(before) < 2 * limits.loss_window or min(newest) <= limits.loss_factor * min(before):
        return None  # no level lies lower than the least loss
    level, lately = _level(before, limits.loss_window), before[-5 * limits.loss_window :]
    middle = median(lately)
    spread = median(abs(loss - middle) for loss in lately)
    bound = max(level * limits.loss_factor, level + limits.loss_spread * spread)
    if level <= 0 or min(newest) <= bound:
        return None
    first = [s for s in samples if s.loss is not None][-limits.loss_window]
    reason = (
        f"The loss stands at {median(newest):.3g} since step {steps(first.step)}, {median(newest) / level:.1f} times "
        f"the {level:.3g} that it had come down to: the training diverges."
    )
    return _alarm(first.at, reason)


def _level(losses: Sequence[float], window: int) -> float:
    """What it had come down to: the least median of a whole window."""
    return min(median(losses[start : start + window]) for start in range(0, len(losses) - window + 1, window))


def _signals(facts: AttemptFacts) -> list[Signal]:
    return [
        s
        for s in facts.signals
        if s.kind is SignalKind.FAILURE
        and s.rule in RULES_BY_ID
        and RULES_BY_ID[s.rule].failure_class is FailureClass.NUMERICS
    ]


def _evidence(signal: Signal) -> Evidence:
    return Evidence(
        text=signal.text, source=signal.file, role=Role.CAUSE, rule=signal.rule, line=signal.line, at=signal.at,
        rank=signal.rank, node=signal.node,
    )  # fmt: skip


def _alarm(since: datetime, reason: str, *evidence: Evidence) -> Alarm:
    return Alarm(kind=AlarmKind.NUMERICS, since=since, reason=reason, remedy=REMEDY, evidence=evidence)
