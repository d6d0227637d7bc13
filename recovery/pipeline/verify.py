"""Stage 8, verify: a restarted job is not a recovered job.

The case stays open until the run was seen to restore the expected step and its next checkpoint was seen complete. Each
look judges anew all that was seen of the new attempt, in whatever order it came.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from recovery.core.detectors.slowdown import pace_is_back
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.speech import steps
from recovery.core.types import TERMINAL_STATES, CheckpointState, JobState, Outcome
from recovery.core.verify import Check, CheckKey, RestoreVerdict, advise, danger_ahead
from recovery.models import Attempt, Checkpoint, Incident, Job
from recovery.pipeline.decide import close
from recovery.pipeline.facts import attempt_facts, limits
from recovery.pipeline.foresee import ELSEWHERE, history_of
from recovery.pipeline.subject import waited_for
from recovery.pipeline.successor import is_ours, successor, waiting_job
from recovery.pipeline.transition import advance
from recovery.pipeline.verify_checks import BY_WORD, Due, checks_of, is_overdue, store_checks, waiting_checks
from recovery.pipeline.verify_facts import Sight, look_at, saves_elsewhere, step_time

HELD = timedelta(minutes=1)  # a job that was put back and released is not held; a picture may be a little older
HELD_AGAIN = "The job is back in the queue, but held"
# What a case says whose job went on where it can't be followed.
ELSEWHERE_NOW = (
    "Another cluster of the federation has started the job: whether it restores can't be seen here. Look at it there, "
    "then close this case."
)
GONE = timedelta(minutes=10)  # so long a job that waits may be missing from the list before it is said
# A restarted job that is cancelled is often submitted anew, changed: so long its run is waited for before the case
# ends.
SUBMITTED_ANEW = timedelta(minutes=5)
UNREAD = timedelta(minutes=10)  # so long the last words of a job that has completed are waited for
MOVED = timedelta(seconds=5)  # an estimate is stored anew where it has moved by more than this, and than a tenth


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """What is not as expected, and the step that its advice is about."""

    outcome: Outcome
    alarm: str
    step: int | None = None


def verify_incident(incident: Incident, *, now: datetime) -> None:
    """Move a case that waits for a restore or a checkpoint as far as what was seen allows."""
    attempt = successor(incident)
    if attempt is None:
        _never_started(incident, now=now)
        return
    if incident.new_attempt_id != attempt.pk and not _follow(incident, attempt, now=now):
        return
    if incident.state == IncidentState.NEEDS_PERSON and not incident.trouble:
        return  # the action failed, say: nothing that this attempt does ends that
    sight = look_at(incident, attempt, now=now)
    checks = checks_of(incident, sight)
    store_checks(incident, checks)
    if sight.following is not None and sight.restore.verdict is RestoreVerdict.AS_EXPECTED:
        _recovered(incident, sight, sight.following)
    elif not _ended_quietly(incident, attempt, now=now):
        _move(incident, sight, _trouble(sight, checks))


def _never_started(incident: Incident, *, now: datetime) -> None:
    """No new attempt yet: it waits in the queue, or was cancelled or forgotten, or is held."""
    job = waited_for(incident)
    verifies = incident.state in (IncidentState.RESTORING, IncidentState.AWAITING_CHECKPOINT)
    acted_at = incident.acted_at or incident.detected_at  # the job that we submitted may not be in the picture yet
    if job.state == JobState.CANCELLED:
        ended = job.attempts.order_by("-number").values_list("ended_at", flat=True).first() or now
        why = "The job was cancelled before its new attempt started."
        _cancelled(incident, why, stopped=job, at=max(ended, acted_at), now=now)
        return
    if incident.state == IncidentState.NEEDS_PERSON and incident.alarm.startswith(HELD_AGAIN):
        if job.held:
            store_checks(incident, waiting_checks(incident, now=now))
            return
        advance(
            incident, IncidentState.RESTORING, now=now, why="The job is no longer held.", alarm="", deadline_at=None
        )
        return
    if not verifies:
        return
    store_checks(incident, waiting_checks(incident, now=now))
    if job.state == JobState.REVOKED:
        why = ELSEWHERE_NOW
        advance(incident, IncidentState.NEEDS_PERSON, now=now, why=why, alarm=why, deadline_at=None)
    elif job.held and incident.acted_at and now - incident.acted_at > HELD:
        alarm = (
            f"{HELD_AGAIN} ({job.state_reason}). Either somebody holds it, or the controller "
            f"was restarted before it had written our release down. If nobody does: scontrol release {job.job_id}"
        )
        advance(incident, IncidentState.NEEDS_PERSON, now=now, why=alarm, alarm=alarm[:500], deadline_at=None)
    elif job.vanished_at and now - max(job.vanished_at, acted_at) > GONE:
        alarm = "Slurm no longer lists the job, and its new attempt was never seen to start."
        advance(incident, IncidentState.NEEDS_PERSON, now=now, why=alarm, alarm=alarm, deadline_at=None)


def _follow(incident: Incident, attempt: Attempt, *, now: datetime) -> bool:
    """Verify `attempt`, which started since, from its beginning. False: it tells nothing of this case."""
    if attempt.started_at is None:
        return False
    failed_action = incident.actions.filter(state=ActionState.FAILED, observed_at__gte=attempt.started_at)
    if incident.new_attempt_id is None and failed_action.exists():
        return False  # it was there before the action failed
    others = incident.resolved_by_others or not is_ours(attempt, incident)
    fields: dict[str, Any] = {"new_attempt": attempt, "resolved_by_others": others}
    if incident.state == IncidentState.RESTORING:
        Incident.objects.filter(pk=incident.pk).update(**fields)
        incident.new_attempt, incident.resolved_by_others = attempt, others
        return True
    whose = ", not by our doing" if others else ""
    why = f"Attempt {attempt.number} of job {attempt.job.job_id} started{whose}."
    advance(
        incident, IncidentState.RESTORING, now=now, why=why, alarm="", trouble="", advice="", **_NO_DANGER,
        restored_at=None, restored_step=None, acted_at=incident.acted_at or attempt.started_at, **fields,
    )  # fmt: skip
    return True


def _recovered(incident: Incident, sight: Sight, found: Checkpoint) -> None:
    restored = f"restored at step {steps(sight.restore.step)}"
    what = BY_WORD if found.by_word else "complete"
    Incident.objects.filter(pk=incident.pk).update(
        checkpoint_at=found.completed_at, next_checkpoint_step=found.step, alarm="", trouble="", advice="",
        **_restored(sight),
    )  # fmt: skip
    why = f"Recovered: {restored}, and checkpoint {steps(found.step)} is {what}."
    close(incident, Outcome.RECOVERED, why=why, now=sight.now)


def _restored(sight: Sight) -> dict[str, Any]:
    """The fields that say where it continues."""
    return {
        "restored_at": sight.restored_at, "restored_step": sight.restore.step, "expected_step": sight.expected,
    }  # fmt: skip


def _trouble(sight: Sight, checks: list[Check]) -> Trouble | None:
    """What is not as expected now; None where all is, or may still be."""
    verdict, attempt = sight.restore.verdict, sight.attempt
    expected, step = sight.expected, sight.restore.step
    if verdict is RestoreVerdict.FROM_SCRATCH:
        alarm = f"Restarted from scratch: step {steps(expected)} was expected to be restored. {sight.restore.reason}"
        return Trouble(outcome=Outcome.FROM_SCRATCH, alarm=alarm)
    if verdict is RestoreVerdict.OLDER:
        instead = f"step {steps(step)} instead of {steps(expected)}"
        alarm = f"Restored an older checkpoint than expected ({instead}). {sight.restore.reason}"
        return Trouble(outcome=Outcome.RESTORED_OLDER, alarm=alarm, step=step)
    if is_overdue(checks, CheckKey.RESTORED) or (
        is_overdue(checks, CheckKey.CHECKPOINT) and attempt.first_step is None
    ):
        after = "the restart" if verdict is RestoreVerdict.WAITING else "the load"
        what = "No restore and no step was seen" if verdict is RestoreVerdict.WAITING else "No step was seen"
        blind = f" The attempt can't be observed: {attempt.blind_reason}" if attempt.blind_reason else ""
        return Trouble(outcome=Outcome.NO_PROGRESS, alarm=f"{what} in the time it usually takes after {after}.{blind}")
    if is_overdue(checks, CheckKey.CHECKPOINT):
        alarm = (
            f"The run trains (step {steps(attempt.last_step)}) but its next checkpoint is overdue: "
            "all work since is at stake."
        )
        return Trouble(outcome=Outcome.NO_CHECKPOINT, alarm=alarm, step=attempt.last_step)
    return None


def _move(incident: Incident, sight: Sight, trouble: Trouble | None) -> None:
    """To a person where something is not as expected, and back where it is after all."""
    now, waits = sight.now, sight.restore.verdict is RestoreVerdict.WAITING
    fields = {} if waits else _restored(sight)
    if trouble is not None:
        _raise_alarm(incident, sight, trouble, fields)
        return
    if incident.state == IncidentState.NEEDS_PERSON:
        why = f"It is as expected after all: {sight.restore.reason}"
        advance(
            incident, IncidentState.RESTORING, now=now, why=why, alarm="", trouble="", advice="", **_NO_DANGER
        )  # fmt: skip
    if incident.state == IncidentState.RESTORING and not waits:
        advance(
            incident, IncidentState.AWAITING_CHECKPOINT, now=now, why=sight.restore.reason, alarm="",
            next_look_at=now, **fields,
        )  # fmt: skip


def watch_danger(incident: Incident, *, now: datetime) -> None:
    """While a person's proposal waits for its decision: what the job that runs meanwhile destroys, as it is by now."""
    if not incident.trouble or incident.new_attempt is None:
        return
    sight = look_at(incident, incident.new_attempt, now=now)
    trouble = _trouble(sight, [])
    if trouble is not None:
        _store_changed(incident, _alarm(incident, sight, trouble))


def _raise_alarm(incident: Incident, sight: Sight, trouble: Trouble, restored: dict[str, Any]) -> None:
    fields = _alarm(incident, sight, trouble) | restored
    if incident.state == IncidentState.NEEDS_PERSON:
        _store_changed(incident, fields)
    else:
        advance(incident, IncidentState.NEEDS_PERSON, now=sight.now, why=trouble.alarm, **fields)


def _alarm(incident: Incident, sight: Sight, trouble: Trouble) -> dict[str, Any]:
    danger = _danger(incident, sight, trouble)
    alarm = f"{trouble.alarm}{_lost(incident, sight, trouble)}"[:500]
    advice = advise(
        trouble.outcome, expected_step=sight.expected, step=trouble.step, in_danger=danger["danger_at"] is not None,
        unseen=sight.attempt.blind_remedy if sight.attempt.blind_reason else "",
    )  # fmt: skip
    return {"alarm": alarm, "trouble": trouble.outcome, "advice": advice[:500], **danger}


def _store_changed(incident: Incident, fields: dict[str, Any]) -> None:
    changed = {name: value for name, value in fields.items() if getattr(incident, name) != value}
    if changed:
        Incident.objects.filter(pk=incident.pk, state=incident.state).update(**changed)


_NO_DANGER: dict[str, Any] = {"danger_at": None, "danger_step": None, "danger": ""}
STARTED_WRONG = (Outcome.FROM_SCRATCH, Outcome.RESTORED_OLDER)


def _danger(incident: Incident, sight: Sight, trouble: Trouble) -> dict[str, Any]:
    """Whether the job that runs now is about to destroy the good checkpoint, and when."""
    attempt = sight.attempt
    if trouble.outcome not in STARTED_WRONG or sight.expected is None or attempt.state in TERMINAL_STATES:
        return _NO_DANGER
    if saves_elsewhere(attempt):
        return _NO_DANGER
    began = sight.restore.step or 0
    found = danger_ahead(
        good_step=sight.expected, saved=history_of(incident.run), at_step=max(began, attempt.last_step or 0),
        began_at=began, step_time_s=step_time(attempt) or step_time(incident.attempt),
    )  # fmt: skip
    if found is None:
        return _NO_DANGER
    at = sight.now + timedelta(seconds=found.in_s or 0)
    if incident.danger_at is not None and incident.danger_step == found.step:
        moved = abs(at - incident.danger_at)
        if moved <= max(MOVED, abs(incident.danger_at - sight.now) / 10):
            at = incident.danger_at
    return {"danger_at": at, "danger_step": found.step, "danger": found.sentence}


def _lost(incident: Incident, sight: Sight, trouble: Trouble) -> str:
    """Whether the good checkpoint is gone already."""
    if trouble.outcome not in STARTED_WRONG or sight.expected is None:
        return ""
    there = Checkpoint.objects.filter(run=incident.run, step=sight.expected).exclude(detail=ELSEWHERE)
    state = there.order_by("-checked_at").values_list("state", "completed_at").first()
    if state is None or sight.attempt.started_at is None:
        return ""
    if state[0] == CheckpointState.MISSING:
        return f" Step {steps(sight.expected)} is gone since."
    if state[0] != CheckpointState.COMPLETE or (state[1] and state[1] > sight.attempt.started_at):
        return f" Step {steps(sight.expected)} was overwritten since."
    return ""


def _ended_quietly(incident: Incident, attempt: Attempt, *, now: datetime) -> bool:
    """The new attempt ended without a fault before the case could be closed."""
    if attempt.state == JobState.CANCELLED:
        why = f"Attempt {attempt.number} of job {attempt.job.job_id} was cancelled."
        _cancelled(incident, why, stopped=attempt.job, at=attempt.ended_at or now, now=now)
        return True
    if attempt.state == JobState.COMPLETED and was_read_to_its_end(attempt, now=now):
        why = (
            f"The job ended by itself as completed, at step {steps(attempt.last_step)}; no further checkpoint was seen."
        )
        close(incident, Outcome.STOPPED_ON_PURPOSE, why=why, now=now)
        return True
    return False


def was_read_to_its_end(attempt: Attempt, *, now: datetime) -> bool:
    """Whether its last words were looked for since it ended; where its log can't be read, they are not waited for."""
    if attempt.ended_at is None:
        return False
    return (attempt.read_at is not None and attempt.read_at > attempt.ended_at) or now - attempt.ended_at > UNREAD


def _cancelled(incident: Incident, why: str, *, stopped: Job, at: datetime, now: datetime) -> None:
    """Somebody stopped the restarted job: where they submit another one of the run, that one is verified."""
    anew = waiting_job(incident, after=stopped)
    if anew is None and now - at > SUBMITTED_ANEW:
        close(incident, Outcome.STOPPED_ON_PURPOSE, why=why, now=now)
        return
    next_one = "A new job of the run is waited for." if anew is None else f"Job {anew.job_id} of the run was submitted."
    due = Due(at=at + SUBMITTED_ANEW, basis="then the case ends as stopped on purpose") if anew is None else None
    store_checks(incident, waiting_checks(incident, now=now, note=f"{why} {next_one}", at=at, due=due))
    if incident.danger_at is not None:
        Incident.objects.filter(pk=incident.pk).update(**_NO_DANGER)


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
    what = BY_WORD if found.by_word else "complete"
    why = f"The pace is back, and checkpoint {steps(found.step)} is {what}."
    close(incident, Outcome.RECOVERED, why=why, now=now)
    return True
