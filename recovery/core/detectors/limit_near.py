"""Limit near: the attempt is healthy, but its next checkpoint is due after its time limit, so work would be lost to it.

It can be told from the last save that fits on. Only where a rhythm of the run's checkpoints is known; a job that saves
when Slurm warns it (--signal) is not known to do so, and is told too.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from recovery.core.detectors.limits import Limits
from recovery.core.speech import duration
from recovery.core.types import AttemptFacts, Evidence, Finding, FindingKind, JobState, Role


def detect_limit_near(facts: AttemptFacts, limits: Limits) -> Finding | None:
    """A finding if the work since the last checkpoint would be lost to the time limit; None otherwise."""
    if facts.state is not JobState.RUNNING or facts.blind_reason or facts.last_progress_at is None:
        return None
    if (facts.now - facts.seen_at).total_seconds() > limits.stale_after_s:
        return None
    end, saved, due = limit_of(facts), facts.saved_at, next_save_due(facts)
    if end is None or saved is None or due is None or not facts.now < end < due:
        return None
    lost = (end - saved).total_seconds()
    if lost < limits.limit_worth_s or end - facts.now > timedelta(seconds=limits.limit_lead_s):
        return None
    reason = (
        f"The time limit ends the job at {end:%H:%M} UTC, and its next checkpoint is due at {due:%H:%M} UTC: "
        f"{duration(lost)} of work since the last one would be lost."
    )
    evidence = Evidence(text=reason, source="scheduler", role=Role.CONFIRMATION, rule="limit.near", at=saved)
    return Finding(kind=FindingKind.LIMIT_NEAR, since=facts.now, reason=reason, confidence=0.8, evidence=(evidence,))


def limit_of(facts: AttemptFacts) -> datetime | None:
    """When the time limit ends the attempt; None where it has none, or has not started."""
    if facts.started_at is None or facts.time_limit_s is None:
        return None
    return facts.started_at + timedelta(seconds=facts.time_limit_s)


def next_save_due(facts: AttemptFacts) -> datetime | None:
    """By the run's own rhythm; one that is late is due now."""
    if facts.saved_at is None or facts.save_every_s is None:
        return None
    return max(facts.saved_at + timedelta(seconds=facts.save_every_s), facts.now)


def looks_from(facts: AttemptFacts, limits: Limits) -> datetime | None:
    """Before this nothing is found, whatever the rhythm of the run is; None where nothing can be found at all."""
    end = limit_of(facts)
    if end is None or facts.state is not JobState.RUNNING or facts.now >= end:
        return None
    return end - timedelta(seconds=limits.limit_lead_s)
