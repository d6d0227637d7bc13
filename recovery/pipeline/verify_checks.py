"""The three checks of a case as they are stored: what was expected, what was seen, where, and by when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from recovery.core.plans import RULES
from recovery.core.speech import steps
from recovery.core.types import ActionKind, CheckpointState, JobState
from recovery.core.verify import (
    Check,
    CheckKey,
    CheckState,
    Deadline,
    Place,
    RestoreVerdict,
    checkpoint_time,
    first_step_time,
    restore_time,
)
from recovery.core.verify.deadlines import FLOOR_S, call_time, usual_wait
from recovery.models import Action, Attempt, Checkpoint, Incident
from recovery.pipeline.facts import as_json
from recovery.pipeline.subject import earlier_calls, waited_for
from recovery.pipeline.successor import queued_s
from recovery.pipeline.verify_facts import (
    Sight,
    checkpoint_intervals,
    earlier_starts,
    earlier_waits,
    first_step_unknown_s,
    stored_check,
)

ON_DISK = "complete on disk"
BY_WORD = "durable by the trainer's word (its folder can't be read)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """By when the next thing must be seen, and what that was learned from."""

    at: datetime
    basis: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """For how long somebody kept the run from going on: held in the queue, or suspended. `since`: it is so now."""

    since: datetime | None
    total_s: float


def store_checks(incident: Incident, checks: list[Check]) -> None:
    """Write them where they differ from what is stored."""
    told = as_json(checks)
    waits = next((check for check in checks if check.state in (CheckState.WAITING, CheckState.OVERDUE)), None)
    due = waits.deadline_at if waits else None
    if told != incident.verification or due != incident.deadline_at:
        Incident.objects.filter(pk=incident.pk).update(verification=told, deadline_at=due)
        incident.verification, incident.deadline_at = told, due


def waiting_checks(
    incident: Incident, *, now: datetime, note: str = "", at: datetime | None = None, due: Due | None = None
) -> list[Check]:
    """The checks while no new attempt has started: in the queue nothing is late.

    `note`: what was seen instead of that, at `at`; `due`: when the waiting for another job ends.
    """
    job, action = waited_for(incident), _action(incident)
    newest = job.attempts.order_by("-number").first()
    waits = newest is not None and newest.started_at is None
    queued, usual = (queued_s(newest, now=now), usual_wait(earlier_waits(newest))) if newest and waits else (None, "")
    pause = _pause(incident, None, paused=job.held, now=now)
    state = f"{job.state}{f' ({job.state_reason})' if job.state_reason else ''}"
    elsewhere = job.state == JobState.REVOKED
    where = "with another cluster of the federation" if elsewhere else f"{state}; its new attempt has not started"
    converged = Check(
        key=CheckKey.CONVERGED,
        state=CheckState.WAITING,
        expected=_wanted(incident, action),
        seen=note or f"Job {job.job_id} is {where}.",
        places=(Place(source="scheduler: JobState", says=state),),
        at=at or pause.since,
        deadline_at=due.at if due else None,
        deadline_from=due.basis if due else f"time in the queue is not counted{f'; {usual}' if usual else ''}",
        queued_s=queued,
        held_s=pause.total_s,
        held_since=pause.since,
    )
    restored = Check(
        key=CheckKey.RESTORED, state=CheckState.NOT_YET, expected=_step_wanted(incident.expected_step)
    )  # fmt: skip
    following = Check(key=CheckKey.CHECKPOINT, state=CheckState.NOT_YET, expected=_beyond(incident.expected_step))
    return [converged, restored, following]


def checks_of(incident: Incident, sight: Sight) -> list[Check]:
    """The checks once a new attempt has started."""
    pause = _pause(incident, sight.attempt, paused=sight.attempt.state == JobState.SUSPENDED, now=sight.now)
    return [
        _converged(incident, sight, pause), _restored(incident, sight, pause), _checkpoint(incident, sight, pause)
    ]  # fmt: skip


def _pause(incident: Incident, attempt: Attempt | None, *, paused: bool, now: datetime) -> Pause:
    """As the last look left it, and on from there. A hold in the queue ends with the start at the latest."""
    stored: dict[str, Any] = stored_check(incident, CheckKey.CONVERGED)
    if stored.get("attempt_id") not in (None, attempt and attempt.pk):
        stored = {}  # of the restart before
    since, total = stored.get("held_since"), stored.get("held_s") or 0.0
    began = datetime.fromisoformat(since) if since else None
    started = attempt.started_at if attempt is not None else None
    if began is not None and (not paused or (started is not None and began < started)):
        ended = started if started is not None and began < started else now
        total, began = total + max(0.0, (ended - began).total_seconds()), None
    return Pause(since=(began or now) if paused else None, total_s=total)


def is_overdue(checks: list[Check], key: CheckKey) -> bool:
    return any(check.key is key and check.state is CheckState.OVERDUE for check in checks)


def _converged(incident: Incident, sight: Sight, pause: Pause) -> Check:
    attempt, action = sight.attempt, _action(incident)
    job = attempt.job
    started = f"{attempt.started_at:%H:%M:%S} UTC" if attempt.started_at else ""
    places = [
        Place(source="scheduler: JobState", says=str(attempt.state)),
        Place(source="scheduler: StartTime", says=started),
        Place(source="scheduler: Restarts", says=str(attempt.number)),
        Place(source="scheduler: NodeList", says=", ".join(attempt.nodes[:8])),
    ]
    if action is not None and action.exclude_nodes:
        places.append(Place(source="scheduler: ExcNodeList", says=", ".join(job.excluded_nodes)))
    whose = "somebody else's doing" if incident.resolved_by_others else "our doing"
    stands = f" It is suspended since {pause.since:%H:%M:%S} UTC." if pause.since else ""
    return Check(
        key=CheckKey.CONVERGED,
        state=CheckState.AS_EXPECTED,
        expected=_wanted(incident, action),
        seen=f"Attempt {attempt.number} of job {job.job_id} started, {whose}.{stands}",
        places=tuple(places),
        at=attempt.started_at,
        deadline_at=action.deadline_at if action else None,
        deadline_from=_call_told(action) if action else "",
        queued_s=queued_s(attempt, now=sight.now),
        held_s=pause.total_s,
        held_since=pause.since,
        attempt_id=attempt.pk,
    )


def _restored(incident: Incident, sight: Sight, pause: Pause) -> Check:
    verdict = sight.restore.verdict
    waits = verdict is RestoreVerdict.WAITING
    due = _due(incident, sight, pause, CheckKey.RESTORED, "restore") if waits else None
    state = CheckState.AS_EXPECTED if verdict is RestoreVerdict.AS_EXPECTED else CheckState.NOT_AS_EXPECTED
    if due is not None:
        state = _late(sight, pause, due)
    return Check(
        key=CheckKey.RESTORED,
        state=state,
        expected=_step_wanted(sight.expected),
        seen=sight.restore.reason,
        places=tuple(
            Place(source=str(told.source), says=f"step {steps(told.step)}", file=told.file, line=told.line)
            for told in sight.told
        ),
        contradictions=sight.restore.contradictions,
        at=None if waits else sight.restored_at,
        deadline_at=due.at if due else None,
        deadline_from=due.basis if due else "",
        attempt_id=sight.attempt.pk,
        waits_for="restore" if waits else "",
    )


def _checkpoint(incident: Incident, sight: Sight, pause: Pause) -> Check:
    found, beyond = sight.following, sight.restore.step or sight.expected
    if sight.restore.verdict is RestoreVerdict.WAITING:
        return Check(key=CheckKey.CHECKPOINT, state=CheckState.NOT_YET, expected=_beyond(beyond))
    if found is not None:
        return Check(
            key=CheckKey.CHECKPOINT,
            state=CheckState.AS_EXPECTED,
            expected=_beyond(beyond),
            seen=f"Checkpoint {steps(found.step)} is {BY_WORD if found.by_word else ON_DISK}.",
            places=(_place_of(found),),
            at=found.completed_at,
            attempt_id=sight.attempt.pk,
        )
    attempt = sight.attempt
    waits_for = "first step" if attempt.first_step is None else "checkpoint"
    due = _due(incident, sight, pause, CheckKey.CHECKPOINT, waits_for)
    return Check(
        key=CheckKey.CHECKPOINT,
        state=_late(sight, pause, due),
        expected=_beyond(beyond),
        seen=_so_far(attempt, beyond),
        places=tuple(_place_of(row) for row in _unfinished(incident, attempt)),
        deadline_at=due.at,
        deadline_from=due.basis,
        attempt_id=attempt.pk,
        waits_for=waits_for,
    )


def _late(sight: Sight, pause: Pause, due: Due) -> CheckState:
    return CheckState.OVERDUE if pause.since is None and sight.is_past(due.at) else CheckState.WAITING


def _due(incident: Incident, sight: Sight, pause: Pause, key: CheckKey, waits_for: str) -> Due:
    """Set once, when this attempt begins to wait for it: what a reader was told moves by suspensions alone."""
    stored: dict[str, Any] = stored_check(incident, key)
    same = stored.get("attempt_id") == sight.attempt.pk and stored.get("waits_for") == waits_for
    if same and stored.get("deadline_at"):
        converged: dict[str, Any] = stored_check(incident, CheckKey.CONVERGED)
        held = pause.total_s - (converged.get("held_s") or 0.0)
        at = datetime.fromisoformat(stored["deadline_at"]) + timedelta(seconds=held)
        return Due(at=at, basis=stored["deadline_from"])
    since, deadline = _learned(sight, waits_for)
    # What was read late, after an outage say, is not late for that reason.
    at = max(
        since + timedelta(seconds=deadline.within_s), sight.now + timedelta(seconds=min(FLOOR_S, deadline.within_s))
    )
    return Due(at=at, basis=deadline.basis)


def _learned(sight: Sight, waits_for: str) -> tuple[datetime, Deadline]:
    attempt = sight.attempt
    if waits_for == "restore":
        learned = restore_time(earlier_starts(attempt), unknown_s=first_step_unknown_s())
        return attempt.started_at or sight.now, learned
    if waits_for == "first step":
        return sight.restored_at, first_step_time(earlier_starts(attempt), unknown_s=first_step_unknown_s())
    return attempt.first_step_at or sight.restored_at, checkpoint_time(checkpoint_intervals(attempt.job.run))


def _so_far(attempt: Attempt, beyond: int | None) -> str:
    if attempt.last_step is None:
        return "No step was reported since."
    gained = attempt.last_step - (beyond or 0)
    return f"It is at step {steps(attempt.last_step)}{f', {steps(gained)} further' if gained > 0 else ''}."


def _unfinished(incident: Incident, attempt: Attempt) -> list[Checkpoint]:
    """What the new attempt has begun to write and is not whole (yet)."""
    rows = Checkpoint.objects.filter(run=incident.run, attempt=attempt)
    return list(rows.exclude(state__in=[CheckpointState.COMPLETE, CheckpointState.MISSING]).order_by("-step")[:2])


def _place_of(row: Checkpoint) -> Place:
    says = f"step {steps(row.step)} {row.state}"
    return Place(source="checkpoint", says=says, file=row.folder, by_word=row.by_word)


def _action(incident: Incident) -> Action | None:
    return incident.actions.exclude(called_at=None).order_by("called_at").last()


def _call_told(action: Action) -> str:
    """What the deadline of a call was learned from."""
    kind = ActionKind(action.kind)
    calls = earlier_calls(action.incident.run_id, kind, before=action.intended_at)
    return call_time(calls, least_s=RULES[kind].time_s).basis


def _wanted(incident: Incident, action: Action | None) -> str:
    if action is None or incident.resolved_by_others:
        return "The run executes again, by whosever doing."
    return action.recommendation.headline


def _step_wanted(step: int | None) -> str:
    if step is None:
        return "A start from scratch: there was no complete checkpoint."
    return f"It continues at step {steps(step)} or later."


def _beyond(step: int | None) -> str:
    return f"A complete checkpoint beyond step {steps(step)}." if step else "A first complete checkpoint."
