"""Part of act: read what an action needs to know of the world, fresh, before each of its steps."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from datetime import datetime

from django.conf import settings

from recovery.core.diagnose.exits import HELD
from recovery.core.plans import Hold, NewJob, NodeSeen, Seen, TrackerSeen, World
from recovery.core.types import ActionKind, CheckpointState, JobState, NodeState
from recovery.models import Action, Attempt, Checkpoint, Job
from recovery.pipeline.job_rows import fill_job
from recovery.pipeline.look_at_checkpoints import still_complete
from recovery.pipeline.scripts import find_submitted
from recovery.pipeline.subject import submitted_id
from recovery.slurm.base import HELD_BY_REQUEUE, JobNotFound, JobRecord, NodeRecord, SlurmClient
from recovery.sources.trackers import read_tracker

_HOLDS = {
    HELD_BY_REQUEUE: Hold.REQUEUE, "JobHeldAdmin": Hold.ADMIN, "JobHeldUser": Hold.USER,
    **dict.fromkeys(HELD, Hold.LAUNCH),
}  # fmt: skip
ON_NODES = frozenset({ActionKind.DRAIN, ActionKind.RESUME})
_THERE = frozenset({JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED})


def hold_of(record: JobRecord) -> Hold:
    """A hold on a running job shows in the reason alone, and takes effect when the job is put back."""
    return _HOLDS.get(record.state_reason, Hold.OTHER if record.held else Hold.NONE)


def job_of(attempt: Attempt, client: SlurmClient) -> JobRecord | None:
    """None: Slurm does not list it. Raises SlurmError where it gave no trustworthy answer."""
    try:
        return client.job(attempt.job.job_id)
    except JobNotFound:
        return None


def as_read(job: Job, record: JobRecord | None) -> Job:
    """The row with what the scheduler says now, not to be saved; the row itself where it lists no such job."""
    if record is None:
        return job
    fresh = copy(job)
    fill_job(fresh, record, now=job.seen_at)
    return fresh


def world_of(action: Action, attempt: Attempt, record: JobRecord | None, client: SlurmClient) -> World:
    """What the plan of `action` looks at; `record` is the job as it was just read. Raises SlurmError."""
    kind, dropped = ActionKind(action.kind), record is None and attempt.job.ended_and_forgotten
    world = World(job=seen(record) if record is not None else None, dropped=dropped)
    if kind in ON_NODES:
        return replace(world, node=node_of(action.parameters["node"], attempt, client))
    if kind is ActionKind.RESUBMIT:
        return replace(world, new=_new_job(action, attempt, client))
    if kind is ActionKind.RESTORE_OLDER:
        return replace(world, tracker=_tracker(action, attempt))
    return world


def seen(record: JobRecord) -> Seen:
    return Seen(
        state=record.state, restart_count=record.restart_count, hold=hold_of(record), requeueable=record.requeueable,
        nodes=record.nodes, excluded_nodes=record.excluded_nodes, time_limit_s=record.time_limit_s,
        admin_comment=record.admin_comment, federated=record.federated, origin=record.origin,
    )  # fmt: skip


def node_of(name: str, attempt: Attempt, client: SlurmClient) -> NodeSeen | None:
    record = next((node for node in client.nodes() if node.name == name), None)
    if record is None:
        return None
    others = [
        job.job_id
        for job in client.jobs()
        if job.state in _THERE and name in job.nodes and job.job_id != attempt.job.job_id
    ]
    return node_seen(record, others=tuple(others))


def node_seen(record: NodeRecord, *, others: tuple[str, ...] = ()) -> NodeSeen:
    words = record.raw_state.upper()
    drained = record.state in (NodeState.DRAINING, NodeState.DRAINED) or "DRAIN" in words
    silent = any(word in words for word in ("DOWN", "NOT_RESPONDING", "*", "FAIL", "UNKNOWN"))
    down = silent or record.state in (NodeState.DOWN, NodeState.UNKNOWN)
    return NodeSeen(name=record.name, drained=drained, down=down, reason=record.reason, others=others)


def _new_job(action: Action, attempt: Attempt, client: SlurmClient) -> NewJob | None:
    """The job that our submission made, by the id that it was answered with or, where that was lost, by our key."""
    begun = [call for call in action.calls if call["operation"] == "submit"]
    if not begun:
        return None
    number = submitted_id(action)
    if number:
        found = [r for r in client.jobs() if r.job_id == number or r.job_id.startswith(f"{number}_")]
    else:
        since = datetime.fromisoformat(begun[0]["begun_at"])
        found = find_submitted(attempt, action.parameters["key"], since=since, client=client)
    if not found:  # one whose id is known exists, whatever a list says: it is never submitted again
        return NewJob(job_id=number, state=JobState.UNKNOWN, hold=Hold.OTHER) if number else None
    record = found[0]  # of an array of one task
    return NewJob(job_id=record.job_id, state=record.state, hold=hold_of(record))


def _tracker(action: Action, attempt: Attempt) -> TrackerSeen | None:
    tracker = read_tracker(action.parameters["folder"], roots=settings.CHECKPOINT_ROOTS)
    if tracker is None or tracker.name != action.parameters["tracker"]:
        return None
    rows = Checkpoint.objects.filter(run=attempt.job.run_id, step=action.parameters["step"])
    row = rows.filter(state=CheckpointState.COMPLETE).first()
    whole = "undoes" in action.parameters or (row is not None and still_complete(row))
    return TrackerSeen(content=tracker.content, complete=whole)
