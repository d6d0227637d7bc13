"""Actions of one call on one job: release it, hold it, cancel it, extend its time limit."""

from __future__ import annotations

import math

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
    other_execution,
    over,
    refuse,
    stop,
)
from recovery.core.speech import duration
from recovery.core.types import JobState

# Whose hold a release may end, by its parameter `of`. Ours is an administrator's, or that of a held requeue.
RELEASABLE = {"slurm": {Hold.LAUNCH}, "us": {Hold.ADMIN, Hold.REQUEUE}}


def release(intent: Intent, world: World) -> Next:
    seen = world.job
    if seen is None:
        return UNLISTED
    if seen.state is JobState.COMPLETING:
        return COMPLETING
    if seen.hold is Hold.NONE:
        return _released(intent, seen)
    if why := other_execution(intent, seen) or changed(intent, seen):
        return stop(intent, why)
    if seen.hold not in RELEASABLE[intent.parameters["of"]]:
        return stop(intent, "somebody else holds the job, and that hold is not ours to release")
    if intent.parameters["of"] == "us" and Step.RELEASE in intent.accepted:
        return stop(intent, "the job is held again since we released it: that hold is somebody else's")
    return Next(step=Step.RELEASE, reason="The job is held as it was approved.")


def _released(intent: Intent, seen: Seen) -> Next:
    if seen.state is JobState.CANCELLED:
        return stop(intent, "the job was cancelled")
    if intent.has_begun(Step.RELEASE):
        return Next(step=Step.CONVERGED, reason="Slurm shows the job free to start.")
    if seen.state.is_terminal:
        return stop(intent, f"the job is {seen.state} now")
    return Next(step=Step.BY_OTHERS, reason="Somebody else has released the job; we did nothing.")


def hold(intent: Intent, world: World) -> Next:
    """On a running job the hold takes effect when Slurm puts the job back."""
    seen = world.job
    if seen is None:
        return UNLISTED
    if seen.state is JobState.COMPLETING:
        return COMPLETING
    begun = intent.has_begun(Step.HOLD)
    if seen.state.is_terminal:
        if begun and seen.state is not JobState.CANCELLED:
            return Next(step=Step.CONVERGED, reason=f"The job is {seen.state}: it starts no more by itself.")
        return stop(intent, f"the job is {seen.state} now")
    if seen.hold is not Hold.NONE:
        if begun and seen.hold is Hold.ADMIN:
            return Next(step=Step.CONVERGED, reason="Slurm shows the job held.")
        return Next(step=Step.BY_OTHERS, reason="The job is held already, not by us; that hold stays.")
    if why := other_execution(intent, seen) or changed(intent, seen):
        return stop(intent, why)
    return Next(step=Step.HOLD, reason="The job is as it was approved.")


def cancel(intent: Intent, world: World) -> Next:
    seen = world.job
    if seen is None:
        return UNLISTED
    if seen.state is JobState.COMPLETING:
        return COMPLETING
    begun = intent.has_begun(Step.CANCEL)
    if seen.state is JobState.CANCELLED:
        if begun:
            return Next(step=Step.CONVERGED, reason="Slurm shows the job cancelled.")
        return Next(step=Step.BY_OTHERS, reason="Somebody else has cancelled the job; we did nothing.")
    if why := other_execution(intent, seen):
        return stop(intent, why)
    if seen.state.is_terminal and begun:
        return Next(step=Step.CONVERGED, reason=f"The job has ended: Slurm calls it {seen.state}.")
    if why := changed(intent, seen):
        return stop(intent, why)
    return Next(step=Step.CANCEL, reason="The job is as it was approved.")


def extend(intent: Intent, world: World) -> Next:
    """To `seconds` from `from_s`, in Slurm's whole minutes; to a shorter limit where it undoes an extension."""
    seen = world.job
    if seen is None:
        return UNLISTED
    begun = intent.has_begun(Step.SET_TIME_LIMIT)
    if seen.state is JobState.COMPLETING:
        return COMPLETING if begun else refuse("the job is ending")
    if why := other_execution(intent, seen) or changed(intent, seen):
        return over(intent, why)
    wanted = 60.0 * math.ceil(intent.parameters["seconds"] / 60)
    if seen.time_limit_s == wanted:
        if begun:
            return Next(step=Step.CONVERGED, reason=f"Slurm shows a time limit of {duration(wanted)}.")
        return Next(step=Step.BY_OTHERS, reason="Somebody else has set this time limit; we did nothing.")
    if seen.time_limit_s != intent.parameters["from_s"]:
        limit = "unlimited" if seen.time_limit_s is None else duration(seen.time_limit_s)
        why = f"the time limit is {limit} now, by somebody else's hand"
        return fail(f"It was begun, but {why}.") if begun else stop(intent, why)
    return Next(step=Step.SET_TIME_LIMIT, reason="The job and its limit are as they were approved.")
