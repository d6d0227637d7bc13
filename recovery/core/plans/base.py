"""What plans speak of: what was approved (Intent), what is seen now (World), and what to do next (Next)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from recovery.core.types import ActionKind, JobState


class Step(StrEnum):
    """A call to be made, by the name of its operation, or a verdict."""

    REQUEUE = "requeue"
    REQUEUE_HOLD = "requeue_hold"
    SET_EXCLUDED_NODES = "set_excluded_nodes"
    RELEASE = "release"
    HOLD = "hold"
    CANCEL = "cancel"
    SET_TIME_LIMIT = "set_time_limit"
    SET_ADMIN_COMMENT = "set_admin_comment"
    DRAIN_NODE = "drain_node"
    RESUME_NODE = "resume_node"
    SUBMIT = "submit"
    WRITE_TRACKER = "write_tracker"  # no call of Slurm's: the trainer's own pointer to the checkpoint it will load

    WAIT = "wait"
    CONVERGED = "converged"
    BY_OTHERS = "by_others"  # somebody else has already done it
    REFUSE = "refuse"  # the facts are not those that were approved: nothing may be done
    FAIL = "fail"  # we began, and can't bring it to its end

    @property
    def is_call(self) -> bool:
        return self not in VERDICTS


VERDICTS = frozenset({Step.WAIT, Step.CONVERGED, Step.BY_OTHERS, Step.REFUSE, Step.FAIL})


class Hold(StrEnum):
    """Who keeps a job from starting."""

    NONE = "none"
    REQUEUE = "requeue"  # a held requeue, and nobody since
    LAUNCH = "launch"  # Slurm itself, because it could not launch the job
    ADMIN = "admin"  # an administrator's hold; ours is one too
    USER = "user"  # the user's own; a job that was submitted held has it too
    OTHER = "other"  # priority 0 for a reason that can't be named


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """What was approved: the action on one attempt in one state on these nodes. docs/actions.md lists `parameters`.

    `begun`: operations whose call was begun and may have had an effect: all but those that Slurm refused each time.
    `accepted`: those that Slurm said yes to. So what shows the same as before such a call is somebody else's doing.
    """

    kind: ActionKind
    exclude_nodes: tuple[str, ...]
    attempt_number: int
    attempt_state: JobState
    attempt_nodes: tuple[str, ...]
    begun: frozenset[str]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    mark: str = ""  # our key, to be left in the job's admin comment; "" where Slurm does not let us
    accepted: frozenset[str] = frozenset()

    def has_begun(self, *steps: Step) -> bool:
        return not self.begun.isdisjoint(steps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A job as the scheduler shows it now."""

    state: JobState
    restart_count: int
    hold: Hold
    requeueable: bool
    nodes: tuple[str, ...]
    excluded_nodes: tuple[str, ...]
    time_limit_s: float | None = None
    admin_comment: str = ""
    federated: bool = False  # Slurm may start it on several clusters
    origin: str = ""  # the other cluster where it was submitted


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSeen:
    """A node as the scheduler shows it now. `others`: the ids of jobs on it that are not the incident's."""

    name: str
    drained: bool
    down: bool
    reason: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """The job that our submission made, found by its key."""

    job_id: str
    state: JobState
    hold: Hold


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackerSeen:
    """The file that tells the trainer what to load: what stands in it, and whether what it shall name is complete."""

    content: str
    complete: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """Everything that was read for one look. `job` is None where Slurm does not list it, and `dropped` where it has
    ended besides, and was missing from a whole picture of all jobs before this answer."""

    job: Seen | None = None
    dropped: bool = False
    node: NodeSeen | None = None
    new: NewJob | None = None
    tracker: TrackerSeen | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Next:
    step: Step
    reason: str


UNLISTED = Next(step=Step.WAIT, reason="Slurm does not list the job (perhaps it ended longer than MinJobAge ago).")
DROPPED = "Slurm has dropped the job, which has ended (MinJobAge): the case is looked at again"
COMPLETING = Next(step=Step.WAIT, reason="The job is completing: its nodes are not free yet.")


NOTHING_DONE = "Nothing was done: "


def refuse(why: str) -> Next:
    return Next(step=Step.REFUSE, reason=f"{NOTHING_DONE}{why}.")


def fail(reason: str) -> Next:
    return Next(step=Step.FAIL, reason=reason)


def stop(intent: Intent, why: str) -> Next:
    """It can't go on: nothing was done yet, or a part of it was."""
    done = intent.begun - {Step.SET_ADMIN_COMMENT}
    return fail(f"It was begun, but {why}: nothing more is done.") if done else refuse(why)


def over(intent: Intent, why: str) -> Next:
    """What it was for has passed by itself: whatever was begun means nothing any more, and nobody has to look."""
    if not intent.begun - {Step.SET_ADMIN_COMMENT}:
        return refuse(why)
    return Next(step=Step.REFUSE, reason=f"It was begun, but {why}: the case is looked at again.")


def same(a: Sequence[str], b: Sequence[str]) -> bool:
    return set(a) == set(b)


def changed(intent: Intent, seen: Seen) -> str:
    """Why the job is not as it was approved, as a clause; "" if it is."""
    if seen.state is JobState.CANCELLED:
        return "the job was cancelled; a cancelled job is never restarted"
    if seen.state is not intent.attempt_state:
        return f"the job is {seen.state} now, it was {intent.attempt_state} when this was approved"
    if seen.state is not JobState.PENDING and not same(seen.nodes, intent.attempt_nodes):
        return "the job's nodes are not those that were shown"
    return ""


def other_execution(intent: Intent, seen: Seen) -> str:
    """Why this is not the execution that was approved, as a clause; "" if it is."""
    if seen.restart_count < intent.attempt_number:
        return "the job has fewer restarts than when this was approved: it is another job"
    if seen.restart_count > intent.attempt_number:
        return "the job was put back into the queue since this was approved"
    return ""
