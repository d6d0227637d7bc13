"""Stage 7, act: carry out one decided action on the scheduler, once.

1. The intent is already committed (decide.py).
2. Read the job fresh; recovery/core/plan.py says the next step from what is seen.
3. Commit that a call is begun, then call, then record its answer. Killed in between, the next look starts at 2.
4. Converged is only what was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.identity import Identity, identify
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.plan import Intent, Next, Seen, Step, next_step
from recovery.core.speech import steps
from recovery.core.types import ActionKind, JobState
from recovery.models import Action, Attempt, Incident
from recovery.pipeline.decide import acts_automatically, is_paused
from recovery.pipeline.eligible import eligible_nodes
from recovery.pipeline.job_rows import fingerprint_in, fingerprint_of
from recovery.pipeline.recommend import merged_exclusion, shown_hash
from recovery.pipeline.transition import LostRace, advance, advance_action
from recovery.slurm.base import (
    HELD_BY_PEOPLE,
    HELD_BY_REQUEUE,
    JobNotFound,
    JobRecord,
    Operation,
    SlurmClient,
    SlurmError,
    SlurmRefused,
)

CALLS_PER_LOOK = 6  # an exclusion takes three calls and a read after each; more in one look means a loop
LOOK_AGAIN = timedelta(seconds=2)
BEGINNINGS = frozenset({Step.REQUEUE, Step.REQUEUE_HOLD})
REFUSALS = 2  # one may be a race that the next reading explains; the second is an answer
LATE_ANSWER = 3  # so many time-outs an unanswered call may still take effect


def carry_out(action: Action, *, client: SlurmClient, now: datetime, clock: Callable[[], datetime]) -> datetime | None:
    """Bring `action` as far as it goes now. Returns when to look again; None when it came to its end."""
    incident = action.incident
    for _ in range(CALLS_PER_LOOK):
        if clock() - now > timedelta(seconds=settings.LEASE_S / 2):
            break  # slow answers: the next look goes on under a fresh lease
        step = _observe(action, client=client, now=now)
        if step is None or step.step is Step.WAIT:
            return _wait_or_give_up(action, incident, step, now=clock())
        if step.step in ENDINGS:
            ENDINGS[step.step](action, incident, step.reason, clock())
            return None
        if not _call(action, step.step, client=client, clock=clock):
            return clock() + LOOK_AGAIN
    return clock() + LOOK_AGAIN


def _observe(action: Action, *, client: SlurmClient, now: datetime) -> Next | None:
    """The next step, or None where the scheduler gave no trustworthy answer."""
    attempt = action.incident.attempt
    try:
        record = client.job(attempt.job.job_id)
    except JobNotFound:
        # One answer without the job may be half an answer: only silence until the deadline ends the action.
        return Next(step=Step.WAIT, reason="Slurm does not list the job (perhaps it ended longer than MinJobAge ago).")
    except SlurmError:
        return None
    if _is_other_job(attempt, record):
        return _other_job(begun=bool(action.calls))
    step = next_step(_intent(action), _seen(record))
    if step.step not in CALLS:
        return step
    doubt = _doubt_about_repeat(action, step.step, now=now)
    if doubt is None and step.step in BEGINNINGS:  # nothing had an effect yet: the facts must still hold
        doubt = _veto(action, record, now=now)
    return doubt or step


def _is_other_job(attempt: Attempt, record: JobRecord) -> bool:
    """Whether the id now is another submission's: ids begin anew where a controller lost its state or was replaced."""
    job = attempt.job
    approved = replace(fingerprint_of(job), submitted_at=attempt.submitted_at, restart_count=attempt.number)
    completing = record.state is JobState.COMPLETING
    verdict = identify(approved, fingerprint_in(record), completing=completing)
    return verdict in (Identity.NEW_JOB, Identity.OLD_NEWS)


def _other_job(*, begun: bool) -> Next:
    what = "the job id now belongs to another submission"
    if begun:
        return Next(step=Step.FAIL, reason=f"It was begun, but {what}: nothing more is done.")
    return Next(step=Step.REFUSE, reason=f"Nothing was done: {what}.")


def _doubt_about_repeat(action: Action, step: Step, *, now: datetime) -> Next | None:
    """Why a call that was begun before and shows no effect is not simply made again."""
    earlier = [call for call in action.calls if call["operation"] == step]
    refusals = [call["result"] for call in earlier if call.get("result", "").startswith("refused")]
    if len(refusals) >= REFUSALS:
        return Next(step=Step.FAIL, reason=f"Slurm refuses: {refusals[-1]}")
    if not earlier or refusals:
        return None
    # No answer is not a no: the controller may still carry it out, and a second requeue would then hit a running job.
    begun = datetime.fromisoformat(earlier[-1]["begun_at"])
    if now < begun + timedelta(seconds=LATE_ANSWER * settings.SLURM_TIMEOUT_S):
        return Next(step=Step.WAIT, reason="The last call got no answer; it may still take effect.")
    return None


def _veto(action: Action, record: JobRecord, *, now: datetime) -> Next | None:
    """Reasons not to begin that the job's own state does not show. Once begun, an action is brought to its end."""
    incident = action.incident
    attempt = incident.attempt
    cluster = attempt.job.cluster
    cluster.refresh_from_db()
    attempt.refresh_from_db()
    if record.submitted_at != attempt.submitted_at:
        return _other_job(begun=False)
    if cluster.is_stale(now):
        return Next(step=Step.WAIT, reason="The picture of the cluster is too old to act on.")
    if acts_automatically(action) and is_paused(cluster):
        return Next(step=Step.REFUSE, reason=f"Nothing was done: automation is paused ({cluster.paused_reason}).")
    if record.state is JobState.RUNNING and moved_since(incident, attempt):
        return Next(
            step=Step.REFUSE, reason=f"Nothing was done: the job moves again, at step {steps(attempt.last_step)}."
        )
    if record.state_reason in HELD_BY_PEOPLE:
        return Next(step=Step.REFUSE, reason="Nothing was done: somebody holds the job, and that hold is not ours.")
    if shown_hash(action.recommendation, attempt) != action.recommendation.hash:
        return Next(step=Step.REFUSE, reason="Nothing was done: the job is not as it was when this was decided.")
    return _veto_exclusion(action, record, now=now)


def _veto_exclusion(action: Action, record: JobRecord, *, now: datetime) -> Next | None:
    """An exclusion never leaves the job fewer nodes than it needs; nodes may have gone since it was proposed."""
    excluded = set(action.exclude_nodes)
    if not excluded:
        return None
    wanted = excluded & set(record.required_nodes)
    if wanted:
        reason = f"The job was submitted for {', '.join(sorted(wanted))} by name: without it, it could never start."
        return Next(step=Step.FAIL, reason=reason)
    job = action.incident.attempt.job
    places = eligible_nodes(job, now=now)
    if places.nodes is None:
        reason = f"Nothing was done: how many nodes would remain is not known. {places.reason}"
        return Next(step=Step.REFUSE, reason=reason)
    left = set(places.nodes) - excluded
    if len(left) < job.node_count:
        reason = f"Nothing was done: only {len(left)} eligible nodes would remain, the job needs {job.node_count}."
        return Next(step=Step.REFUSE, reason=reason)
    return None


def moved_since(incident: Incident, attempt: Attempt) -> bool:
    """Whether a step was read after the fault began, at whatever number: a restart within the attempt goes back."""
    return attempt.last_progress_at is not None and attempt.last_progress_at > incident.failed_at


def _intent(action: Action) -> Intent:
    attempt = action.incident.attempt
    return Intent(
        kind=ActionKind(action.kind), exclude_nodes=tuple(action.exclude_nodes), attempt_number=attempt.number,
        attempt_state=JobState(attempt.state), attempt_nodes=tuple(attempt.nodes),
        begun=frozenset(call["operation"] for call in action.calls),
    )  # fmt: skip


def _seen(record: JobRecord) -> Seen:
    return Seen(
        state=record.state, restart_count=record.restart_count, held=record.held,
        held_by_requeue=record.state_reason == HELD_BY_REQUEUE,
        requeueable=record.requeueable, nodes=record.nodes, excluded_nodes=record.excluded_nodes,
    )  # fmt: skip


def _call(action: Action, step: Step, *, client: SlurmClient, clock: Callable[[], datetime]) -> bool:
    """Begin, call, record. Returns whether the scheduler said yes (or that it is already so)."""
    job = action.incident.attempt.job
    nodes = merged_exclusion(job.excluded_nodes, action.exclude_nodes) if step is Step.SET_EXCLUDED_NODES else ()
    _begin(action, step, client.preview(Operation(step.value), job.job_id, nodes=nodes), now=clock())
    begun = list(action.calls)
    try:
        CALLS[step](client, job.job_id, nodes)
        result, accepted = "accepted", True
    except SlurmRefused as error:
        # Refused may mean "is already so" (a requeue of a pending job): the next reading of the job tells.
        result, accepted = f"refused: {error}", False
    except SlurmError as error:
        result, accepted = f"no answer: {error}", False
    action.calls = [*begun[:-1], {**begun[-1], "ended_at": clock().isoformat(), "result": result[:300]}]
    with transaction.atomic():
        if Action.objects.filter(pk=action.pk, calls=begun).update(calls=action.calls) != 1:
            raise LostRace(f"Action {action.pk} was taken further by somebody else.")
        audit.record_action(action, f"action.call_ended.{step}", actor=SYSTEM, at=clock(), reason=result)
    return accepted


def _begin(action: Action, step: Step, command: str, *, now: datetime) -> None:
    """Commit that the scheduler is about to be called; only the holder of the state that was read may go on."""
    calls = [*action.calls, {"operation": step.value, "command": command, "begun_at": now.isoformat()}]
    if action.state == ActionState.INTENDED:
        advance_action(action, ActionState.CALLED, now=now, why=command, calls=calls, called_at=now)
        return
    with transaction.atomic():
        if Action.objects.filter(pk=action.pk, state=action.state, calls=action.calls).update(calls=calls) != 1:
            raise LostRace(f"Action {action.pk} was taken further by somebody else.")
        audit.record_action(action, f"action.call_begun.{step}", actor=SYSTEM, at=now, reason=command)
    action.refresh_from_db()


def _requeue(client: SlurmClient, job_id: str, nodes: tuple[str, ...]) -> None:
    client.requeue(job_id, hold=False)


def _requeue_hold(client: SlurmClient, job_id: str, nodes: tuple[str, ...]) -> None:
    client.requeue(job_id, hold=True)


def _exclude(client: SlurmClient, job_id: str, nodes: tuple[str, ...]) -> None:
    client.set_excluded_nodes(job_id, nodes)


def _release(client: SlurmClient, job_id: str, nodes: tuple[str, ...]) -> None:
    client.release(job_id)


CALLS: dict[Step, Callable[[SlurmClient, str, tuple[str, ...]], None]] = {
    Step.REQUEUE: _requeue,
    Step.REQUEUE_HOLD: _requeue_hold,
    Step.SET_EXCLUDED_NODES: _exclude,
    Step.RELEASE: _release,
}


def _wait_or_give_up(action: Action, incident: Incident, step: Next | None, *, now: datetime) -> datetime | None:
    reason = step.reason if step else "The scheduler gives no trustworthy answer."
    if now < action.deadline_at:
        Action.objects.filter(pk=action.pk).update(detail=reason[:500])
        return now + LOOK_AGAIN
    _fail(action, incident, f"Not seen to have converged in time. {reason}", now)
    return None


def _converge(action: Action, incident: Incident, reason: str, now: datetime) -> None:
    with transaction.atomic():
        advance_action(action, ActionState.CONVERGED, now=now, why=reason, observed_at=now, detail=reason[:500])
        advance(
            incident, IncidentState.RESTORING, now=now, why=reason, acted_at=now, next_look_at=now, deadline_at=None
        )


def _by_others(action: Action, incident: Incident, reason: str, now: datetime) -> None:
    with transaction.atomic():
        advance_action(action, ActionState.REFUSED, now=now, why=reason, observed_at=now, detail=reason[:500])
        advance(
            incident, IncidentState.RESTORING, now=now, why=reason, acted_at=now, next_look_at=now,
            resolved_by_others=True, deadline_at=None,
        )  # fmt: skip


def _refuse(action: Action, incident: Incident, reason: str, now: datetime) -> None:
    """The facts changed: the case is looked at again from its beginning."""
    with transaction.atomic():
        advance_action(action, ActionState.REFUSED, now=now, why=reason, observed_at=now, detail=reason[:500])
        advance(incident, IncidentState.DETECTED, now=now, why=reason, next_look_at=now, deadline_at=None)


def _fail(action: Action, incident: Incident, reason: str, now: datetime) -> None:
    with transaction.atomic():
        advance_action(action, ActionState.FAILED, now=now, why=reason, observed_at=now, detail=reason[:500])
        advance(
            incident, IncidentState.NEEDS_PERSON, now=now, why=reason, alarm=reason[:500],
            next_look_at=now + timedelta(seconds=settings.TICK_S), deadline_at=None,
        )  # fmt: skip


ENDINGS: dict[Step, Callable[[Action, Incident, str, datetime], None]] = {
    Step.CONVERGED: _converge,
    Step.BY_OTHERS: _by_others,
    Step.REFUSE: _refuse,
    Step.FAIL: _fail,
}
