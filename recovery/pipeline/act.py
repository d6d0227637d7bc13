"""Stage 7, act: carry out one decided action, once.

1. The intent is already committed (decide.py).
2. Read the world fresh (observe.py); recovery/core/plans/ says the next step from what is seen.
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
from recovery.core.lifecycle import ActionState
from recovery.core.plans import RULES, Intent, Next, Step, World, next_step
from recovery.core.plans.base import refuse
from recovery.core.types import ActionKind, JobState
from recovery.models import Action, Attempt
from recovery.pipeline import marks
from recovery.pipeline.act_endings import ENDINGS, give_up
from recovery.pipeline.call_results import ACCEPTED, FOR_NOW, REFUSED, accepted_in, begun_in, was_refused
from recovery.pipeline.calls import Target, command, make, target_of
from recovery.pipeline.job_rows import fingerprint_in, fingerprint_of
from recovery.pipeline.observe import ON_NODES, job_of, world_of
from recovery.pipeline.subject import subject_of, submitted_id
from recovery.pipeline.transition import LostRace, advance_action
from recovery.pipeline.veto import midway, other_job, veto, why_stopped
from recovery.slurm.base import JobRecord, SlurmClient, SlurmError, SlurmRefused

CALLS_PER_LOOK = 8  # an exclusion takes four calls and a read after each; more in one look means a loop
LOOK_AGAIN = timedelta(seconds=2)
REFUSALS = 2  # one may be a race that the next reading explains; the second is an answer
LATE_ANSWER = 3  # so many time-outs an unanswered call may still take effect


class Stopped(Exception):
    """It must not be begun any more; the message says why."""


def carry_out(action: Action, *, client: SlurmClient, now: datetime, clock: Callable[[], datetime]) -> datetime | None:
    """Bring `action` as far as it goes now. Returns when to look again; None when it came to its end."""
    attempt = subject_of(action.incident, action.parameters)
    for _ in range(CALLS_PER_LOOK):
        if clock() - now > timedelta(seconds=settings.LEASE_S / 2):
            break  # slow answers: the next look goes on under a fresh lease
        step, target = _observe(action, attempt, client=client, now=now)
        if step is None or step.step is Step.WAIT:
            return _wait_or_give_up(action, step, now=clock())
        if step.step in ENDINGS:
            ENDINGS[step.step](action, step.reason, clock())
            return None
        try:
            accepted = _call(action, step.step, target, client=client, clock=clock)
        except Stopped as why:
            action.refresh_from_db()  # the call was taken back
            ENDINGS[Step.REFUSE](action, str(why), clock())
            return None
        if not accepted and step.step is not Step.SET_ADMIN_COMMENT:
            return clock() + LOOK_AGAIN
    return clock() + LOOK_AGAIN


def _observe(action: Action, attempt: Attempt, *, client: SlurmClient, now: datetime) -> tuple[Next | None, Target]:
    """The next step, or None where the scheduler gave no trustworthy answer; and what its call is made on."""
    target = target_of(action, attempt, None)
    try:
        # A node stays what it is whatever became of the job.
        record = None if ActionKind(action.kind) in ON_NODES else job_of(attempt, client)
        if record is not None and _is_other_job(attempt, record):
            return other_job(begun=bool(action.calls)), target
        world = world_of(action, attempt, record, client)
    except SlurmError:
        return None, target
    _note_new_job(action, world, now=now)
    target = target_of(action, attempt, record)
    step = next_step(_intent(action, attempt, target, client=client, now=now), world)
    return _doubt(action, attempt, record, step, client=client, now=now) or step, target


def _doubt(
    action: Action, attempt: Attempt, record: JobRecord | None, step: Next, *, client: SlurmClient, now: datetime
) -> Next | None:
    """Why a call is not made although the scheduler's answer speaks for it."""
    if not step.step.is_call:
        return None
    doubt = _doubt_about_repeat(action, step.step, origin=record.origin if record else "", now=now)
    begun = begun_in(action) - {step.step, Step.SET_ADMIN_COMMENT}
    if doubt is None and not begun:  # nothing had an effect yet: the facts must still hold
        doubt = veto(action, attempt, record, client=client, now=now)
    return doubt or midway(action, attempt, record, step.step, now=now)


def _is_other_job(attempt: Attempt, record: JobRecord) -> bool:
    """Whether the id now is another submission's: ids begin anew where a controller lost its state or was replaced."""
    job = attempt.job
    approved = replace(fingerprint_of(job), submitted_at=attempt.submitted_at, restart_count=attempt.number)
    completing = record.state is JobState.COMPLETING
    verdict = identify(approved, fingerprint_in(record), completing=completing)
    return verdict in (Identity.NEW_JOB, Identity.OLD_NEWS)


def _doubt_about_repeat(action: Action, step: Step, *, origin: str, now: datetime) -> Next | None:
    """Why a call that was begun before and shows no effect is not simply made again.

    `origin`: the cluster of the federation that does what is asked of the job, "" for this one itself.
    """
    earlier = [call for call in action.calls if call["operation"] == step]
    refusals = [call["result"] for call in earlier if was_refused(call)]
    if len(refusals) >= REFUSALS:
        return Next(step=Step.FAIL, reason=f"Slurm refuses: {refusals[-1]}")
    if not earlier or was_refused(earlier[-1]):
        return None
    accepted = step in accepted_in(action)
    if accepted and origin:  # by now the job may run on a cluster from which this one has not heard
        reason = f"Cluster {origin} of the federation has accepted it; what became of it does not show here yet."
        return Next(step=Step.WAIT, reason=reason)
    # No answer is not a no: the controller may still carry it out, and a second requeue would then hit a running job.
    begun = datetime.fromisoformat(earlier[-1]["begun_at"])
    if now < begun + timedelta(seconds=LATE_ANSWER * settings.SLURM_TIMEOUT_S):
        said = "was accepted; what it does does not show yet" if accepted else "got no answer; it may still take effect"
        return Next(step=Step.WAIT, reason=f"The last call {said}.")
    return None


def _intent(action: Action, attempt: Attempt, target: Target, *, client: SlurmClient, now: datetime) -> Intent:
    kind = ActionKind(action.kind)
    mark = marks.mark_for(target, client, now=now) if RULES[kind].marks else ""
    return Intent(
        kind=kind, exclude_nodes=tuple(action.exclude_nodes), attempt_number=attempt.number,
        attempt_state=JobState(attempt.state), attempt_nodes=tuple(attempt.nodes),
        begun=begun_in(action), accepted=accepted_in(action), parameters=action.parameters, mark=mark,
    )  # fmt: skip


def _note_new_job(action: Action, world: World, *, now: datetime) -> None:
    """Write down under which id a submission of ours is listed: its answer may be lost, or name the whole array."""
    if world.new is None or submitted_id(action) == world.new.job_id:
        return
    calls, place = list(action.calls), max(i for i, call in enumerate(action.calls) if call["operation"] == "submit")
    found = f"{ACCEPTED}: {world.new.job_id}"
    calls[place] = {**calls[place], "answer": world.new.job_id, "result": found}
    _store_calls(action, calls, f"action.found.{Step.SUBMIT}", now=now, reason=f"Slurm lists job {world.new.job_id}.")


def _call(action: Action, step: Step, target: Target, *, client: SlurmClient, clock: Callable[[], datetime]) -> bool:
    """Begin, call, record. Returns whether the scheduler said yes (or that it is already so)."""
    _begin(action, step, command(step, target, client), now=clock())
    begun, answer = action.calls, ""
    try:
        answer = make(step, target, client)
        result, accepted = f"{ACCEPTED}: {answer}" if answer else ACCEPTED, True
    except SlurmRefused as error:
        # Refused may mean "is already so" (a requeue of a pending job), by somebody else: the next reading tells.
        result, accepted = f"{REFUSED if error.permanent else FOR_NOW}{error}", False
        if step is Step.SET_ADMIN_COMMENT and error.permanent:
            marks.note_refusal(target, str(error), now=clock())
    except SlurmError as error:
        result, accepted = f"no answer: {error}", False
    ended = {**begun[-1], "ended_at": clock().isoformat(), "result": result[:300]}
    if answer:
        ended["answer"] = answer
    _store_calls(action, [*begun[:-1], ended], f"action.call_ended.{step}", now=clock(), reason=result)
    return accepted


def _begin(action: Action, step: Step, shown: str, *, now: datetime) -> None:
    """Commit that the scheduler is about to be called; only the holder of the state that was read may go on.

    Reading the scheduler took its time: raises Stopped where somebody stopped it meanwhile.
    """
    calls = [*action.calls, {"operation": step.value, "command": shown, "begun_at": now.isoformat()}]
    if action.state == ActionState.INTENDED:
        with transaction.atomic():
            advance_action(action, ActionState.CALLED, now=now, why=shown, calls=calls, called_at=now)
            if why := why_stopped(action, now=now):
                raise Stopped(refuse(why).reason)
        return
    _store_calls(action, calls, f"action.call_begun.{step}", now=now, reason=shown)


def _store_calls(action: Action, calls: list[dict[str, str]], verb: str, *, now: datetime, reason: str) -> None:
    with transaction.atomic():
        if Action.objects.filter(pk=action.pk, state=action.state, calls=action.calls).update(calls=calls) != 1:
            raise LostRace(f"Action {action.pk} was taken further by somebody else.")
        audit.record_action(action, verb, actor=SYSTEM, at=now, reason=reason)
    action.refresh_from_db()


def _wait_or_give_up(action: Action, step: Next | None, *, now: datetime) -> datetime | None:
    reason = step.reason if step else "The scheduler gives no trustworthy answer."
    if now < action.deadline_at:
        Action.objects.filter(pk=action.pk).update(detail=reason[:500])
        return now + LOOK_AGAIN
    give_up(action, f"Not seen to have converged in time. {reason}", now)
    return None
