"""A case whose job nears its time limit: it ends by itself when the checkpoint came, or when it will come in time."""

from __future__ import annotations

from datetime import datetime

from recovery.core.detectors.limit_near import limit_of, next_save_due
from recovery.core.lifecycle import ActionState
from recovery.core.speech import duration, steps
from recovery.core.types import TERMINAL_STATES, ActionKind, CheckpointState, JobState, Outcome
from recovery.models import Attempt, Checkpoint, Incident
from recovery.pipeline.decide import close
from recovery.pipeline.facts import brief_facts, with_rhythm


def close_limit_near(incident: Incident, *, now: datetime) -> bool:
    """Whether such a case was closed now. One whose job the limit ended has become a crash."""
    found = _ending(incident, incident.attempt, now=now)
    if found is None:
        return False
    close(incident, found[0], why=found[1], now=now)
    return True


def _ending(incident: Incident, attempt: Attempt, *, now: datetime) -> tuple[Outcome, str] | None:
    ours = incident.actions.filter(kind=ActionKind.EXTEND_TIME_LIMIT, state=ActionState.CONVERGED).last()
    saved = Checkpoint.objects.filter(run=incident.run_id, state=CheckpointState.COMPLETE)
    new = saved.filter(completed_at__gt=incident.detected_at).order_by("-step").first()
    if new is not None and ours is not None and ours.observed_at is not None:
        return Outcome.RECOVERED, f"Checkpoint {steps(new.step)} is complete, within the longer time limit."
    if new is not None:
        return Outcome.FALSE_ALARM, f"Checkpoint {steps(new.step)} is complete, before the time limit."
    if attempt.state == JobState.COMPLETED:
        return Outcome.FALSE_ALARM, "The job ended by itself, before its time limit."
    if ours is not None or attempt.state in TERMINAL_STATES:
        return None
    facts = with_rhythm(brief_facts(attempt, now=now), attempt.job.run_id)
    end, due = limit_of(facts), next_save_due(facts)
    if end is None:
        return Outcome.FALSE_ALARM, "The job has no time limit any more."
    if due is not None and due <= end and facts.time_limit_s is not None:
        limit = duration(facts.time_limit_s)
        return Outcome.FALSE_ALARM, f"The time limit is {limit} now: the next checkpoint is due before it."
    return None
