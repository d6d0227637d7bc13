"""Cancel and submit again: the new job is submitted held, then the old one is ended, then the new one is released.

In this order nothing is lost whatever fails: until the new job is known to exist the old one is left as it is.
"""

from __future__ import annotations

from recovery.core.plans.base import (
    COMPLETING,
    UNLISTED,
    Hold,
    Intent,
    NewJob,
    Next,
    Seen,
    Step,
    World,
    changed,
    fail,
    other_execution,
    stop,
)
from recovery.core.types import JobState


def resubmit(intent: Intent, world: World) -> Next:
    if world.new is None:
        return _before(intent, world.job)
    new = world.new
    if new.state is JobState.CANCELLED:
        return fail(f"Somebody else has cancelled the new job {new.job_id}.")
    if new.state is JobState.UNKNOWN:
        return Next(step=Step.WAIT, reason=f"Slurm does not list the new job {new.job_id}.")
    if new.state is not JobState.PENDING:
        return Next(step=Step.CONVERGED, reason=f"The new job {new.job_id} has been started.")
    if world.job is not None and (unfinished := _end_old(intent, world.job, new)) is not None:
        return unfinished
    return _release_new(intent, new)


def _before(intent: Intent, old: Seen | None) -> Next:
    if old is None:
        forgotten = intent.parameters.get("forgotten") and not intent.has_begun(Step.SUBMIT)
        return Next(step=Step.SUBMIT, reason="Slurm has forgotten the old job.") if forgotten else UNLISTED
    if old.state is JobState.COMPLETING:
        return COMPLETING
    if why := other_execution(intent, old) or changed(intent, old):
        return stop(intent, why)
    if old.origin:
        return stop(intent, f"the job was submitted on cluster {old.origin} of the federation, which may put it back")
    return Next(step=Step.SUBMIT, reason="The job is as it was approved.")


def _end_old(intent: Intent, old: Seen, new: NewJob) -> Next | None:
    """What is left to do about the old job; None where it has ended."""
    if old.state is JobState.COMPLETING:
        return COMPLETING
    stays = f"the new job {new.job_id} waits, held: cancel it, or release it when the old one has ended"
    if why := other_execution(intent, old):
        return fail(f"It was begun, but {why}; {stays}.")
    if old.state is JobState.REVOKED:
        return fail(f"It was begun, but another cluster of the federation has the old job; {stays}.")
    if old.state.is_terminal:
        by_itself = intent.attempt_state is JobState.RUNNING and old.state is JobState.COMPLETED
        return fail(f"The old job has completed by itself; {stays}.") if by_itself else None
    return Next(step=Step.CANCEL, reason=f"The new job {new.job_id} exists, held; the old one can be ended.")


def _release_new(intent: Intent, new: NewJob) -> Next:
    if new.hold is Hold.NONE:
        return Next(step=Step.CONVERGED, reason=f"The old job has ended, and {new.job_id} is in the queue.")
    # what is submitted held has its user's hold
    if new.hold is not Hold.USER or Step.RELEASE in intent.accepted:
        return fail(f"Somebody else holds the new job {new.job_id}: that hold is not ours to release.")
    return Next(step=Step.RELEASE, reason=f"The old job has ended; the hold on {new.job_id} is ours.")
