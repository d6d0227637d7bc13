"""How each action goes: its plan, how long it may take, what the case then does, and how it is undone.

A plan says the next step from what the scheduler shows now and which calls were begun. Pure and level-based: the same
observation gives the same step, however often it is asked and whoever died in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from recovery.core.plans.base import (
    DROPPED,
    UNLISTED,
    Hold,
    Intent,
    NewJob,
    Next,
    NodeSeen,
    Seen,
    Step,
    TrackerSeen,
    World,
    refuse,
    stop,
)
from recovery.core.plans.nodes import drain, resume
from recovery.core.plans.queue import cancel, extend, hold, release
from recovery.core.plans.requeue import requeue
from recovery.core.plans.restore import restore_older
from recovery.core.plans.resubmit import resubmit
from recovery.core.types import ActionKind, JobState

__all__ = [
    "RULES",
    "Hold",
    "Intent",
    "NewJob",
    "Next",
    "NodeSeen",
    "Rules",
    "Seen",
    "Step",
    "Then",
    "TrackerSeen",
    "World",
    "next_step",
]


class Then(StrEnum):
    """What the case does when its action has converged."""

    VERIFY = "verify"  # to the restored step and the next checkpoint
    WATCH = "watch"  # the job is where it was: is it coming back?
    CLOSE = "close"  # stopped on purpose


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """`automatic`: a policy may decide it. `time_s`: by then it must be seen to have converged."""

    plan: Callable[[Intent, World], Next]
    then: Then
    undo: str  # how it is undone, or that it can't be; shown before it is decided
    undone_by: ActionKind | None = None
    automatic: bool = False
    marks: bool = True  # our key is left in the job's admin comment
    time_s: float = 300.0


A = ActionKind
_AGAIN = "It can't be undone: the job starts again, and can be held or cancelled."

RULES: dict[ActionKind, Rules] = {
    A.REQUEUE: Rules(plan=requeue, then=Then.VERIFY, undo=_AGAIN, automatic=True),
    A.REQUEUE_EXCLUDING: Rules(plan=requeue, then=Then.VERIFY, undo=_AGAIN, automatic=True),
    A.RELEASE: Rules(
        plan=release, then=Then.VERIFY, automatic=True, undone_by=A.HOLD,
        undo="Until the job starts it can be held again.",
    ),
    A.HOLD: Rules(plan=hold, then=Then.WATCH, undone_by=A.RELEASE, undo="Our hold can be released at any time."),
    A.CANCEL: Rules(plan=cancel, then=Then.CLOSE, undo="It can't be undone: its user can only submit it anew."),
    A.RESUBMIT: Rules(
        plan=resubmit, then=Then.VERIFY, marks=False, time_s=600.0,
        undo="It can't be undone: the old job is gone; the new one can be cancelled.",
    ),
    A.EXTEND_TIME_LIMIT: Rules(
        plan=extend, then=Then.WATCH, automatic=True, undone_by=A.EXTEND_TIME_LIMIT,
        undo="The old limit can be set again while the job has not reached it.",
    ),
    A.DRAIN: Rules(
        plan=drain, then=Then.WATCH, marks=False, undone_by=A.RESUME,
        undo="The node can be resumed when its health was seen again, unless somebody else takes it over.",
    ),
    A.RESUME: Rules(
        plan=resume, then=Then.WATCH, marks=False, undone_by=A.DRAIN, undo="The node can be drained again."
    ),
    A.RESTORE_OLDER: Rules(
        plan=restore_older, then=Then.VERIFY, undone_by=A.RESTORE_OLDER,
        undo="Until the job starts, what the tracker said before can be written back: it is kept beside it.",
    ),
}  # fmt: skip

_ALIVE = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})  # Slurm changes no job that has ended
MARK = Next(step=Step.SET_ADMIN_COMMENT, reason="Our key is left on the job.")


def next_step(intent: Intent, world: World) -> Next:
    """What to do next so that `intent` comes about exactly once."""
    found = RULES[intent.kind].plan(intent, world)
    if found is UNLISTED and world.dropped and not intent.begun - {Step.SET_ADMIN_COMMENT}:
        return refuse(DROPPED)
    old = world.job if intent.kind is not A.RESUBMIT else None  # what that one releases is a job of its own
    if old is not None and (why := _why_not_in_federation(old, found.step)):
        return stop(intent, why)
    return MARK if _wants_mark(intent, world.job, found) else found


_OF_ORIGIN = frozenset({Step.REQUEUE_HOLD, Step.SET_EXCLUDED_NODES, Step.HOLD, Step.RELEASE})
_OF_NODES = frozenset({Step.DRAIN_NODE, Step.RESUME_NODE})


def _why_not_in_federation(job: Seen, step: Step) -> str:
    """As a clause; "" where the step is safe. Both were seen on Slurm 22.05 (docs/back-ends.md)."""
    if job.state is JobState.REVOKED and step.is_call and step not in _OF_NODES:
        return "another cluster of the federation has the job now, and what is asked of it here would be done there"
    if step in _OF_ORIGIN and job.origin:
        return (
            f"the job was submitted on cluster {job.origin} of the federation: a hold or an exclusion is that "
            "cluster's to set, and from here the job would be lost sight of"
        )
    if step in (Step.HOLD, Step.RELEASE) and job.federated and job.state is not JobState.PENDING:
        return "in a federation a job that runs must not be held: when it is released Slurm starts it a second time"
    return ""


def _wants_mark(intent: Intent, job: Seen | None, found: Next) -> bool:
    """Before the first call that can carry it, else right before the end; once, and never to no purpose."""
    if not intent.mark or job is None or Step.SET_ADMIN_COMMENT in intent.begun:
        return False
    goes_on = found.step.is_call or found.step is Step.CONVERGED
    return goes_on and RULES[intent.kind].marks and job.state in _ALIVE and intent.mark not in job.admin_comment
