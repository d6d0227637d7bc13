"""The world's jobs, attempts and nodes as the records that every back end answers with."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import AttemptRecord, JobRecord, NodeRecord
from recovery.slurm.simulator import state as sim
from recovery.slurm.simulator.names import expand
from recovery.slurm.simulator.queue import partition_name
from recovery.slurm.simulator.stage import Stage


def moment(at: float) -> datetime:
    """Slurm knows whole seconds only."""
    return datetime.fromtimestamp(int(at), UTC)


def moment_or_none(at: float | None) -> datetime | None:
    return None if at is None else moment(at)


def job_record(stage: Stage, job: sim.Job) -> JobRecord:
    spec = job.spec
    state = JobState.COMPLETING if job.completing_until is not None else job.state
    waits, ended = state is JobState.PENDING, state.is_terminal
    nodes = () if waits else job.nodes
    return JobRecord(
        job_id=job.job_id,
        name=spec.name,
        user=spec.user,
        account=spec.account,
        partition=partition_name(stage, job),
        state=state,
        state_reason=job.reason,
        submitted_at=moment(job.submitted_at),
        restart_count=job.restart_count,
        requeueable=spec.requeueable,
        held=waits and job.held,
        eligible_at=moment(job.begin_at),
        started_at=moment_or_none(job.started_at),
        ended_at=moment_or_none(job.ended_at) if ended else None,
        exit_code=job.exit_code if ended else None,
        exit_signal=job.exit_signal or None if ended else None,
        nodes=nodes,
        node_count=spec.nodes,
        excluded_nodes=job.excluded,
        required_nodes=spec.required_nodes,
        gpus=spec.ranks,
        time_limit_s=spec.time_limit_s,
        comment=comment(stage, job),
        work_dir=str(stage.root),
        stdout=stdout_path(stage, job),  # stderr goes there too
        batch_host=nodes[0] if nodes else "",
    )


def stdout_path(stage: Stage, job: sim.Job) -> str:
    """Absolute, with Slurm's patterns filled in."""
    spec = job.spec
    return str(stage.root / expand(spec.stdout, job_id=job.job_id, name=spec.name, user=spec.user))


def comment(stage: Stage, job: sim.Job) -> str:
    """The job's own, else what its user would write to be watched; the log keeps its pattern, as in a batch script."""
    spec = job.spec
    if spec.comment is not None:
        return spec.comment
    options: dict[str, str | int] = {
        "run": spec.run_key,
        "checkpoint_dir": stage.checkpoint_dir(job),
        "log": str(stage.root / spec.stdout),
    }
    if spec.mode:
        options["mode"] = spec.mode
    if spec.max_restarts is not None:
        options["max_restarts"] = spec.max_restarts
    return json.dumps({"recovery": options})


def attempt_records(stage: Stage, job_id: str, *, since: datetime) -> list[AttemptRecord]:
    """What sacct -D shows of that id: attempts that had not ended by `since`, oldest first."""
    attempts = [a for record in stage.state.forgotten.get(job_id, []) for a in record.attempts]
    if (job := stage.state.jobs.get(job_id)) is not None:
        attempts += [*job.past, job.attempt()]
    start = since.timestamp()
    shown = [a for a in attempts if a.ended_at is None or a.ended_at >= start]
    shown.sort(key=lambda attempt: attempt.submitted_at)
    return [_attempt_record(job_id, number, attempt) for number, attempt in enumerate(shown)]


def _attempt_record(job_id: str, number: int, attempt: sim.Attempt) -> AttemptRecord:
    ended = attempt.state.is_terminal
    return AttemptRecord(
        job_id=job_id,
        number=number,
        state=attempt.state,
        submitted_at=moment(attempt.submitted_at),
        started_at=moment_or_none(attempt.started_at),
        ended_at=moment_or_none(attempt.ended_at),
        exit_code=attempt.exit_code if ended else None,
        exit_signal=attempt.exit_signal or None if ended else None,
        nodes=() if attempt.state is JobState.PENDING else attempt.nodes,
        cancelled_by=attempt.cancelled_by,
        step_exit_codes=attempt.step_exit_codes,
    )


def node_record(stage: Stage, node: sim.Node) -> NodeRecord:
    return NodeRecord(
        name=node.name,
        state=_node_state(node),
        partitions=stage.spec.partitions_of(node.name),
        raw_state=_raw_node_state(node),
        reason=node.reason,
        reason_by=node.reason_by,
        reason_at=moment_or_none(node.reason_at),
    )


def _node_state(node: sim.Node) -> NodeState:
    if node.down:
        return NodeState.DOWN
    if node.drained:
        return NodeState.DRAINING if node.used else NodeState.DRAINED
    return NodeState.UP


def _raw_node_state(node: sim.Node) -> str:
    if node.down:
        base = "DOWN"
    elif node.used:
        base = "ALLOCATED" if node.used == node.gpus else "MIXED"
    else:
        base = "IDLE"
    return base + ("+DRAIN" if node.drained else "")
