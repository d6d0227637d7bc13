"""Requeue, and requeue without nodes: hold the requeue, set the exclusion, read it back, release our own hold alone."""

from __future__ import annotations

from recovery.core.plans.base import (
    COMPLETING,
    UNLISTED,
    Hold,
    Intent,
    Next,
    Seen,
    Step,
    World,
    changed,
    fail,
    refuse,
    stop,
)
from recovery.core.types import ActionKind, JobState

# What a job of a federation reads for a moment when the cluster where it was submitted puts it back (seen on 22.05).
_PUTTING_BACK = frozenset({JobState.CANCELLED, JobState.REVOKED})


def requeue(intent: Intent, world: World) -> Next:
    seen = world.job
    if seen is None:
        return UNLISTED
    requeues = seen.restart_count - intent.attempt_number
    if requeues < 0:
        return _stop(intent, "the job has fewer restarts than when this was approved: it is another job")
    if requeues == 0:
        return _before(intent, seen)
    if not intent.has_begun(Step.REQUEUE, Step.REQUEUE_HOLD):
        return Next(step=Step.BY_OTHERS, reason="Somebody else has put the job back into the queue; we did nothing.")
    if requeues > 1:
        return fail("The job was requeued more than once since this was approved.")
    if seen.state is JobState.COMPLETING:
        return Next(step=Step.WAIT, reason="The old attempt is still completing.")
    if seen.state is JobState.CANCELLED:
        return Next(step=Step.CONVERGED, reason="The job was back in the queue; somebody has cancelled it since.")
    if intent.kind is not ActionKind.REQUEUE_EXCLUDING:
        return Next(step=Step.CONVERGED, reason="Slurm shows the job back in the queue.")
    return _after_held_requeue(intent, seen)


def _stop(intent: Intent, why: str) -> Next:
    """A requeue that does not show was not done; what follows one only begins when it does."""
    return stop(intent, why) if intent.has_begun(Step.SET_EXCLUDED_NODES, Step.RELEASE) else refuse(why)


def _before(intent: Intent, seen: Seen) -> Next:
    if seen.state is JobState.COMPLETING:
        return COMPLETING
    if seen.state in _PUTTING_BACK and seen.origin and intent.has_begun(Step.REQUEUE):
        reason = f"Cluster {seen.origin} of the federation ends the job here; whether it is put back shows in a moment."
        return Next(step=Step.WAIT, reason=reason)
    if why := changed(intent, seen):
        return _stop(intent, why)
    if not seen.requeueable:
        return _stop(intent, "Slurm may not requeue this job (--no-requeue)")
    first = Step.REQUEUE_HOLD if intent.kind is ActionKind.REQUEUE_EXCLUDING else Step.REQUEUE
    return Next(step=first, reason="The job is as it was approved.")


def _after_held_requeue(intent: Intent, seen: Seen) -> Next:
    excluded = set(intent.exclude_nodes) <= set(seen.excluded_nodes)
    if seen.state is not JobState.PENDING and not excluded:
        return fail("The job runs again without the exclusion: somebody released it first.")
    if not excluded:
        return Next(step=Step.SET_EXCLUDED_NODES, reason="The job is back in the queue, held by us.")
    if seen.hold is Hold.NONE or seen.state is not JobState.PENDING:
        return Next(step=Step.CONVERGED, reason="Slurm shows the job back in the queue with the exclusion in force.")
    if seen.hold is not Hold.REQUEUE:
        return fail("Somebody else holds the job: that hold is not ours to release.")
    return Next(step=Step.RELEASE, reason="The exclusion is in force; the hold is ours.")
