"""Stage 8, verify: a restarted job is not a recovered job.

The case stays open until the run was seen to restore the expected step and its next checkpoint was seen complete.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from recovery.core.detectors.slowdown import pace_is_back
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.speech import steps
from recovery.core.types import CheckpointState, JobState, Outcome
from recovery.core.verify import Restore, RestoreVerdict, Source, Told, judge_restore
from recovery.models import Attempt, Checkpoint, Incident
from recovery.pipeline.decide import close
from recovery.pipeline.facts import attempt_facts, limits, log_interval
from recovery.pipeline.transition import advance

RESTORE_TIME = timedelta(minutes=30)  # start-up, loading and compilation of a large model; counted from the start
CHECKPOINT_TIME = timedelta(hours=2)  # used until the run's own checkpoint interval is known
HELD = timedelta(minutes=1)  # a job that was put back and released is not held; a picture may be a little older
GONE = timedelta(minutes=10)  # so long a job that waits may be missing from the list before it is said
LATE = 2.0  # a checkpoint is late after so many of the run's own intervals


def successor(incident: Incident) -> Attempt | None:
    """The newest started execution after the failed one: a later attempt of its job, or a later job of the run."""
    failed = incident.attempt
    later_attempt = Q(job_id=failed.job_id, number__gt=failed.number)
    # A job of the run that ran beside the failed one is no restart of it.
    later_job = Q(
        job__run=incident.run, job__first_submitted_at__gt=failed.job.first_submitted_at,
        started_at__gte=incident.failed_at,
    )  # fmt: skip
    return (
        Attempt.objects.filter(later_attempt | later_job)
        .exclude(started_at=None)  # the next job of a chain may wait behind the restarted one
        .select_related("job__cluster", "job__run")
        .order_by("-job__first_submitted_at", "-number")
        .first()
    )


def verify_incident(incident: Incident, *, now: datetime) -> None:
    """Move a case that waits for a restore or a checkpoint as far as what was seen allows."""
    attempt = successor(incident)
    if attempt is None:
        _never_started(incident, now=now)
        return
    if incident.state == IncidentState.RESTORING and incident.new_attempt_id != attempt.pk:
        _adopt(incident, attempt)
    elif incident.state != IncidentState.RESTORING and not _goes_on(incident, attempt, now=now):
        return
    if incident.state == IncidentState.RESTORING:
        _check_restore(incident, attempt, now=now)
    if incident.state == IncidentState.AWAITING_CHECKPOINT:
        _check_checkpoint(incident, attempt, now=now)


def _never_started(incident: Incident, *, now: datetime) -> None:
    """The job that was put back was cancelled or forgotten before it began: nothing will come by itself."""
    job = incident.attempt.job
    if job.state == JobState.CANCELLED:
        why = "The job was cancelled before its new attempt started."
        close(incident, Outcome.STOPPED_ON_PURPOSE, why=why, now=now)
    elif incident.state != IncidentState.RESTORING:
        return
    elif job.held and incident.acted_at and now - incident.acted_at > HELD:
        alarm = (
            f"The job is back in the queue, but held ({job.state_reason}). Either somebody holds it, or the controller "
            f"was restarted before it had written our release down. If nobody does: scontrol release {job.job_id}"
        )
        advance(incident, IncidentState.NEEDS_PERSON, now=now, why=alarm, alarm=alarm[:500], deadline_at=None)
    elif job.vanished_at and now - job.vanished_at > GONE:
        alarm = "Slurm no longer lists the job, and its new attempt was never seen to start."
        advance(incident, IncidentState.NEEDS_PERSON, now=now, why=alarm, alarm=alarm, deadline_at=None)


def _adopt(incident: Incident, attempt: Attempt) -> None:
    deadline = (attempt.started_at or attempt.submitted_at) + RESTORE_TIME
    Incident.objects.filter(pk=incident.pk).update(new_attempt=attempt, deadline_at=deadline)
    incident.new_attempt, incident.deadline_at = attempt, deadline


def _goes_on(incident: Incident, attempt: Attempt, *, now: datetime) -> bool:
    """Whether a case that was restored, or has an alarm, is to be looked at further.

    An attempt that started since is verified from its beginning; without one, an alarm stays until a person ends it.
    """
    known = incident.new_attempt or incident.attempt
    failed_action = incident.actions.exclude(observed_at=None).filter(state=ActionState.FAILED).last()
    since = failed_action.observed_at if failed_action and incident.new_attempt is None else None
    newer = attempt.pk != known.pk and attempt.started_at is not None and (since is None or attempt.started_at > since)
    if not newer:
        return incident.state == IncidentState.AWAITING_CHECKPOINT
    why = f"Attempt {attempt.number} of job {attempt.job.job_id} started, not by our doing."
    advance(
        incident, IncidentState.RESTORING, now=now, why=why, alarm="", restored_at=None, restored_step=None,
        acted_at=incident.acted_at or attempt.started_at, resolved_by_others=True, new_attempt=attempt,
        deadline_at=(attempt.started_at or now) + RESTORE_TIME,
    )  # fmt: skip
    return True


def _check_restore(incident: Incident, attempt: Attempt, *, now: datetime) -> None:
    expected = expected_step(incident, attempt)
    restore = judge_restore(
        expected_step=expected,
        told=told_by(attempt),
        log_interval=log_interval(attempt),
    )
    if restore.verdict is RestoreVerdict.WAITING:
        _still_waiting(incident, attempt, now=now)
        return
    fields: dict[str, Any] = {
        "restored_at": attempt.restored_at or attempt.last_progress_at or now,
        "restored_step": restore.step,
        "expected_step": expected,
    }
    if restore.verdict is RestoreVerdict.AS_EXPECTED:
        deadline = now + _checkpoint_time(incident)
        advance(
            incident, IncidentState.AWAITING_CHECKPOINT, now=now, why=restore.reason, alarm="",
            deadline_at=deadline, next_look_at=now, **fields,
        )  # fmt: skip
        return
    alarm = _alarm(restore, expected)
    advance(incident, IncidentState.NEEDS_PERSON, now=now, why=alarm, alarm=alarm[:500], deadline_at=None, **fields)


def told_by(attempt: Attempt) -> list[Told]:
    """What the attempt's own sources tell of the restored step."""
    told = [Told(source=Source.FRESH, step=0)] if attempt.fresh_start else []
    if attempt.restored_step is not None:
        told.append(Told(source=Source.LOAD, step=attempt.restored_step))
    if attempt.first_step is not None:
        told.append(Told(source=Source.FIRST_STEP, step=attempt.first_step))
    return told


def _alarm(restore: Restore, expected: int | None) -> str:
    if restore.verdict is RestoreVerdict.FROM_SCRATCH:
        return (
            f"Restarted from scratch: step {steps(expected)} was expected to be restored. {restore.reason} "
            "Stop the job before it overwrites or rotates away the good checkpoint."
        )
    instead = f"step {steps(restore.step)} instead of {steps(expected)}"
    return f"Restored an older checkpoint than expected ({instead}). {restore.reason}"


def expected_step(incident: Incident, attempt: Attempt) -> int | None:
    """The step that the new attempt should restore: of the newest checkpoint complete before it started."""
    rows = Checkpoint.objects.filter(run=incident.run).exclude(completed_at=None)
    rows = rows.filter(state__in=[CheckpointState.COMPLETE, CheckpointState.MISSING])
    rows = rows.exclude(state=CheckpointState.MISSING, checked_at__lt=attempt.started_at)  # gone before it started
    before = rows.exclude(attempt=attempt).filter(first_seen_at__lt=attempt.started_at).order_by("-step").first()
    return before.step if before else incident.expected_step


def _still_waiting(incident: Incident, attempt: Attempt, *, now: datetime) -> None:
    if _ended_quietly(incident, attempt, now=now):
        return
    if incident.deadline_at is not None and now > incident.deadline_at and not incident.alarm:
        minutes = int(RESTORE_TIME.total_seconds() // 60)
        alarm = f"No restore and no step was seen within {minutes} min after the restart."
        if attempt.blind_reason:
            alarm += f" The attempt can't be observed: {attempt.blind_reason}"
        Incident.objects.filter(pk=incident.pk).update(alarm=alarm[:500])


def _check_checkpoint(incident: Incident, attempt: Attempt, *, now: datetime) -> None:
    found = _next_checkpoint(incident, attempt)
    if found is not None:
        restored = f"restored at step {steps(incident.restored_step)}"
        why = f"Recovered: {restored}, and checkpoint {steps(found.step)} is complete."
        Incident.objects.filter(pk=incident.pk).update(
            checkpoint_at=found.completed_at, next_checkpoint_step=found.step, alarm=""
        )
        close(incident, Outcome.RECOVERED, why=why, now=now)
        return
    if _ended_quietly(incident, attempt, now=now):
        return
    if incident.deadline_at is not None and now > incident.deadline_at and not incident.alarm:
        alarm = (
            f"The run trains (step {steps(attempt.last_step)}) but its next checkpoint is overdue: "
            "all work since is at stake."
        )
        Incident.objects.filter(pk=incident.pk).update(alarm=alarm[:500])


def _next_checkpoint(incident: Incident, attempt: Attempt) -> Checkpoint | None:
    """The first checkpoint with a greater step that became complete in the new attempt."""
    rows = Checkpoint.objects.filter(
        run=incident.run, state=CheckpointState.COMPLETE, completed_at__gt=attempt.started_at
    )
    rows = rows.filter(Q(attempt=attempt) | Q(attempt=None) | Q(first_seen_at__gt=attempt.started_at))
    return rows.filter(step__gt=incident.restored_step or 0).order_by("step").first()


def _ended_quietly(incident: Incident, attempt: Attempt, *, now: datetime) -> bool:
    """The new attempt ended without a fault before the case could be closed."""
    if attempt.state == JobState.CANCELLED:
        close(incident, Outcome.STOPPED_ON_PURPOSE, why=f"Attempt {attempt.number} was cancelled.", now=now)
        return True
    if (
        attempt.state == JobState.COMPLETED
        and attempt.read_at
        and attempt.ended_at
        and attempt.read_at > attempt.ended_at
    ):
        why = (
            f"The job ended by itself as completed, at step {steps(attempt.last_step)}; no further checkpoint was seen."
        )
        close(incident, Outcome.STOPPED_ON_PURPOSE, why=why, now=now)
        return True
    return False


def _checkpoint_time(incident: Incident) -> timedelta:
    """How long the run takes between checkpoints, by its own history, with room."""
    rows = Checkpoint.objects.filter(run=incident.run).exclude(completed_at=None).order_by("-step")
    times = [row.completed_at for row in rows[:20] if row.completed_at]
    gaps = sorted((a - b).total_seconds() for a, b in itertools.pairwise(times) if a > b)
    if not gaps:
        return CHECKPOINT_TIME
    return timedelta(seconds=max(60.0, LATE * gaps[len(gaps) // 2]))


def close_slowdown(incident: Incident, *, now: datetime) -> bool:
    """End the case of a slow attempt that ended, or whose pace is back and whose next checkpoint is complete."""
    attempt = incident.attempt
    if JobState(attempt.state).is_terminal:
        close(incident, Outcome.STOPPED_ON_PURPOSE, why="The slow attempt has ended without a fault.", now=now)
        return True
    facts = attempt_facts(attempt, now=now)
    if facts.blind_reason or not pace_is_back(facts, limits(), found_at=incident.detected_at):
        return False
    rows = Checkpoint.objects.filter(run=incident.run, state=CheckpointState.COMPLETE)
    found = rows.filter(completed_at__gt=incident.detected_at).order_by("step").first()
    if found is None:
        return False
    why = f"The pace is back, and checkpoint {steps(found.step)} is complete."
    close(incident, Outcome.RECOVERED, why=why, now=now)
    return True
