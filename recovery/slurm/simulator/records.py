"""The world's jobs, attempts and nodes as the records that every back end answers with."""

from __future__ import annotations

from datetime import UTC, datetime

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import AttemptRecord, JobRecord, NodeRecord, PartitionRecord, ReservationRecord
from recovery.slurm.simulator import state as sim
from recovery.slurm.simulator.stage import Stage


def moment(at: float) -> datetime:
    """Slurm knows whole seconds only."""
    return datetime.fromtimestamp(int(at), UTC)


def moment_or_none(at: float | None) -> datetime | None:
    return None if at is None else moment(at)


def job_record(stage: Stage, job: sim.Job) -> JobRecord:
    """Made anew where anything of it is another than at the last look: most of ten thousand jobs are as they were."""
    made_of = (
        job.number, job.state, job.reason, job.restart_count, job.held, job.excluded, job.submitted_at, job.begin_at,
        job.started_at, job.ended_at, job.exit_code, job.exit_signal, job.nodes, job.time_limit_s, job.admin_comment,
        job.completing_until is None,
    )  # fmt: skip
    known = stage.records.get(job.job_id)
    if known is not None and known[0] == made_of:
        return known[1]
    record = _job_record(stage, job)
    stage.records[job.job_id] = made_of, record
    return record


def _job_record(stage: Stage, job: sim.Job) -> JobRecord:
    spec, told = job.spec, stage.describe(job)
    state = JobState.COMPLETING if job.completing_until is not None else job.state
    waits, ended = state is JobState.PENDING, state.is_terminal
    nodes = () if waits else job.nodes
    return JobRecord(
        job_id=job.job_id,
        name=spec.name,
        user=told.user,
        account=told.account,
        partition=told.partition,
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
        node_count=told.node_count,
        excluded_nodes=job.excluded,
        required_nodes=spec.required_nodes,
        gpus=told.gpus,
        time_limit_s=told.time_limit_s,
        comment=told.comment,
        work_dir=told.work_dir,
        stdout=told.stdout,  # stderr goes there too
        batch_host=nodes[0] if nodes else "",
        qos=told.qos,
        features=spec.features,
        reservation=spec.reservation,
        admin_comment=job.admin_comment,
    )


def attempt_records(stage: Stage, job_id: str, *, since: datetime) -> list[AttemptRecord]:
    """What sacct -D shows of that id: attempts that had not ended by `since`, oldest first, as far as it has heard."""
    attempts = [a for record in stage.state.forgotten.get(job_id, []) for a in record.attempts]
    if (job := stage.state.jobs.get(job_id)) is not None:
        attempts += [*job.past, job.attempt()]
    start = since.timestamp()
    shown = [a for a in _heard(stage, attempts) if a.ended_at is None or a.ended_at >= start]
    shown.sort(key=lambda attempt: attempt.submitted_at)
    return [_attempt_record(job_id, number, attempt) for number, attempt in enumerate(shown)]


def ended_records(stage: Stage, *, start: datetime, end: datetime) -> list[JobRecord]:
    """Every execution that ended in this time, as far as accounting has heard, the first to end first."""
    known = [(i, r.name, r.described, r.attempts) for i, rs in stage.state.forgotten.items() for r in rs]
    known += [(j.job_id, j.spec.name, stage.describe(j), [*j.past, j.attempt()]) for j in stage.state.jobs.values()]
    records = [
        _ended_record(job_id, name, told, number, attempt)
        for job_id, name, told, attempts in known
        for number, attempt in enumerate(_heard(stage, attempts))
        if attempt.state.is_terminal and attempt.ended_at is not None and start <= moment(attempt.ended_at) <= end
    ]
    return sorted(records, key=lambda record: record.ended_at or start)


def _ended_record(job_id: str, name: str, told: sim.Described, number: int, attempt: sim.Attempt) -> JobRecord:
    record = _attempt_record(job_id, number, attempt)
    return JobRecord(
        job_id=job_id,
        name=name,
        user=told.user,
        account=told.account,
        partition=told.partition,
        qos=told.qos,
        state=record.state,
        submitted_at=record.submitted_at,
        restart_count=number,
        started_at=record.started_at,
        ended_at=record.ended_at,
        exit_code=record.exit_code,
        exit_signal=record.exit_signal,
        nodes=record.nodes,
        node_count=told.node_count,
        gpus=told.gpus,
        time_limit_s=told.time_limit_s,
        comment=told.comment,
        work_dir=told.work_dir,
        stdout=told.stdout,
    )


def _heard(stage: Stage, attempts: list[sim.Attempt]) -> list[sim.Attempt]:
    """As far as accounting has heard of them."""
    heard = stage.state.now - stage.spec.accounting_lag_s
    return [_as_heard(a, heard) for a in attempts if a.submitted_at <= heard]


def _as_heard(attempt: sim.Attempt, heard: float) -> sim.Attempt:
    """As accounting knew it at the moment `heard`."""
    if attempt.started_at is not None and attempt.started_at > heard:
        return sim.Attempt(state=JobState.PENDING, submitted_at=attempt.submitted_at)
    if attempt.ended_at is not None and attempt.ended_at > heard:
        return sim.Attempt(
            state=JobState.RUNNING if attempt.started_at is not None else JobState.PENDING,
            submitted_at=attempt.submitted_at,
            started_at=attempt.started_at,
            nodes=attempt.nodes,
        )
    return attempt


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


def node_records(stage: Stage) -> list[NodeRecord]:
    partitions: dict[str, list[str]] = {}
    for partition in stage.spec.partitions:
        for name in partition.nodes:
            partitions.setdefault(name, []).append(partition.name)
    now = stage.state.now
    current = [r for r in stage.state.reservations.values() if r.maintenance and r.starts_at <= now < r.ends_at]
    maintained = {name for reservation in current for name in reservation.nodes}
    return [
        NodeRecord(
            name=node.name,
            state=_node_state(node),
            partitions=tuple(partitions.get(node.name, ())),
            raw_state=_raw_node_state(node) + ("+MAINTENANCE" if node.name in maintained else ""),
            reason=node.reason,
            reason_by=node.reason_by,
            reason_at=moment_or_none(node.reason_at),
            features=node.features,
            gpus=node.gpus,
            switch=node.rack,
            jobs_on_it=node.used > 0,
        )
        for node in stage.state.nodes.values()
    ]


def partition_records(stage: Stage) -> list[PartitionRecord]:
    return [
        PartitionRecord(
            name=partition.name,
            up=partition.up,
            nodes=partition.nodes,
            default=number == 0,
            time_limit_s=partition.time_limit_s,
        )
        for number, partition in enumerate(stage.spec.partitions)
    ]


def reservation_records(stage: Stage) -> list[ReservationRecord]:
    """Those that have not ended: Slurm forgets the others."""
    return [
        ReservationRecord(
            name=found.name,
            nodes=found.nodes,
            starts_at=moment(found.starts_at),
            ends_at=moment(found.ends_at),
            users=found.users,
            accounts=found.accounts,
            maintenance=found.maintenance,
        )
        for found in stage.state.reservations.values()
        if found.ends_at > stage.state.now
    ]


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
