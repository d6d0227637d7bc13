"""Point the trainer at an older complete checkpoint, then requeue. The torn one is neither touched nor deleted."""

from __future__ import annotations

from dataclasses import replace

from recovery.core.plans.base import (
    COMPLETING,
    NOTHING_DONE,
    UNLISTED,
    Intent,
    Next,
    Seen,
    Step,
    TrackerSeen,
    World,
    changed,
    fail,
    other_execution,
    stop,
)
from recovery.core.plans.requeue import requeue
from recovery.core.types import JobState

RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED})


def restore_older(intent: Intent, world: World) -> Next:
    """Write `write` where `old` stood; with `then` = "requeue" put the job back into the queue."""
    if intent.has_begun(Step.REQUEUE):
        return _written(intent, requeue(intent, world))
    if world.job is None:
        return UNLISTED
    if world.job.state is JobState.COMPLETING:
        return COMPLETING
    return _point(intent, world.job, world.tracker) or _then(intent, world)


def _then(intent: Intent, world: World) -> Next:
    if intent.parameters.get("then") != "requeue":
        return Next(step=Step.CONVERGED, reason="The tracker names what it shall.")
    return _written(intent, requeue(replace(intent, begun=intent.begun - {Step.WRITE_TRACKER}), world))


def _written(intent: Intent, found: Next) -> Next:
    """What a requeue says after the tracker was written: no longer that nothing was done."""
    written = f"The tracker says {intent.parameters['write']} now; its old content is kept beside it."
    if found.step is Step.REFUSE:
        why = found.reason.removeprefix(NOTHING_DONE)
        return fail(f"{written} Nothing more was done: {why}")
    if found.step is Step.BY_OTHERS:
        return Next(step=Step.BY_OTHERS, reason=f"{written} Somebody else has put the job back into the queue.")
    return found


def _point(intent: Intent, job: Seen, tracker: TrackerSeen | None) -> Next | None:
    """What is left to do about the tracker; None where we have seen to it that it names what it shall."""
    wanted, old = intent.parameters["write"], intent.parameters["old"]
    if tracker is None:
        return stop(intent, "the tracker can't be read")
    if tracker.content == wanted and intent.has_begun(Step.WRITE_TRACKER):
        return None
    if tracker.content != old:
        return stop(intent, f"the tracker says {tracker.content[:50]!r} now, it said {old[:50]!r}")
    if job.state in RUNS:
        return stop(intent, "the job runs, and its trainer writes the tracker itself")
    if why := other_execution(intent, job) or changed(intent, job):
        return stop(intent, why)
    if intent.parameters.get("then") == "requeue" and not job.requeueable:
        return stop(intent, "Slurm may not requeue this job (--no-requeue)")
    if not tracker.complete:
        return stop(intent, f"the checkpoint of step {intent.parameters['step']} is no longer complete")
    return Next(step=Step.WRITE_TRACKER, reason="The job does not run, and the checkpoint is complete.")
