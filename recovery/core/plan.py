"""The next step of an action, from what the scheduler shows now and which calls were begun. Pure and level-based:

the same observation gives the same step, however often it is asked and whoever died in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from recovery.core.types import ActionKind, JobState


class Step(StrEnum):
    WAIT = "wait"
    REQUEUE = "requeue"
    REQUEUE_HOLD = "requeue_hold"
    SET_EXCLUDED_NODES = "set_excluded_nodes"
    RELEASE = "release"
    CONVERGED = "converged"
    BY_OTHERS = "by_others"  # somebody else already put the job back into the queue
    REFUSE = "refuse"  # the facts are not those that were approved: nothing may be done
    FAIL = "fail"  # we began, and can't bring it to its end


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """What was approved: the action on one attempt in one state on these nodes."""

    kind: ActionKind
    exclude_nodes: tuple[str, ...]
    attempt_number: int
    attempt_state: JobState
    attempt_nodes: tuple[str, ...]
    begun: frozenset[str]  # operations whose call was begun, whatever is known of their end


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The job as the scheduler shows it now."""

    state: JobState
    restart_count: int
    held: bool
    held_by_requeue: bool  # the hold is the one that a held requeue leaves, and nobody else's on top of it
    requeueable: bool
    nodes: tuple[str, ...]
    excluded_nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Next:
    step: Step
    reason: str


def next_step(intent: Intent, seen: Seen) -> Next:
    """What to do next so that `intent` comes about exactly once."""
    requeues = seen.restart_count - intent.attempt_number
    if requeues < 0:
        return _refuse("the job has fewer restarts than when this was approved: it is another job")
    if requeues == 0:
        return _before_requeue(intent, seen)
    if not intent.begun & {Step.REQUEUE, Step.REQUEUE_HOLD}:
        return Next(step=Step.BY_OTHERS, reason="Somebody else has put the job back into the queue; we did nothing.")
    if requeues > 1:
        return Next(step=Step.FAIL, reason="The job was requeued more than once since this was approved.")
    if seen.state is JobState.COMPLETING:
        return Next(step=Step.WAIT, reason="The old attempt is still completing.")
    if intent.kind is ActionKind.REQUEUE:
        return Next(step=Step.CONVERGED, reason="Slurm shows the job back in the queue.")
    return _after_held_requeue(intent, seen)


def _before_requeue(intent: Intent, seen: Seen) -> Next:
    if seen.state is JobState.COMPLETING:
        return Next(step=Step.WAIT, reason="The job is completing: its nodes are not free yet.")
    if seen.state is JobState.CANCELLED:
        return _refuse("the job was cancelled; a cancelled job is never restarted")
    if seen.state is not intent.attempt_state:
        return _refuse(f"the job is {seen.state} now, it was {intent.attempt_state} when this was approved")
    if not _same(seen.nodes, intent.attempt_nodes):
        return _refuse("the job's nodes are not those that were shown")
    if not seen.requeueable:
        return _refuse("Slurm may not requeue this job (--no-requeue)")
    first = Step.REQUEUE if intent.kind is ActionKind.REQUEUE else Step.REQUEUE_HOLD
    return Next(step=first, reason="The job is as it was approved.")


def _after_held_requeue(intent: Intent, seen: Seen) -> Next:
    excluded = set(intent.exclude_nodes) <= set(seen.excluded_nodes)
    if seen.state is not JobState.PENDING and not excluded:
        return Next(step=Step.FAIL, reason="The job runs again without the exclusion: somebody released it first.")
    if not excluded:
        return Next(step=Step.SET_EXCLUDED_NODES, reason="The job is back in the queue, held by us.")
    if not seen.held or seen.state is not JobState.PENDING:
        return Next(step=Step.CONVERGED, reason="Slurm shows the job back in the queue with the exclusion in force.")
    if not seen.held_by_requeue:
        return Next(step=Step.FAIL, reason="Somebody else holds the job: that hold is not ours to release.")
    return Next(step=Step.RELEASE, reason="The exclusion is in force; the hold is ours.")


def _same(a: Sequence[str], b: Sequence[str]) -> bool:
    return set(a) == set(b)


def _refuse(why: str) -> Next:
    return Next(step=Step.REFUSE, reason=f"Nothing was done: {why}.")
