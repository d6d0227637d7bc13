"""The scheduler: who waits for what, and who starts where.

Higher tiers first, then first in, first out in each partition, as Slurm's builtin scheduler does with equal priorities:
the first job that has to wait for nodes makes the later ones of its partition wait too. Jobs that can't run for another
reason (held, begin time, nodes that are down, excluded or reserved) stand in nobody's way.
"""

from __future__ import annotations

import math

from recovery.core.types import JobState
from recovery.slurm.base import SlurmRefused
from recovery.slurm.simulator import arrays, placement, training
from recovery.slurm.simulator.placement import choose, eligible_nodes, has_all, partition_name, partition_of
from recovery.slurm.simulator.spec import JobSpec
from recovery.slurm.simulator.stage import Stage
from recovery.slurm.simulator.state import Job, Node

HELD_BY_USER = "JobHeldUser"
HELD_BY_ADMIN = "JobHeldAdmin"


def submit(stage: Stage, spec: JobSpec, *, at: float, job_id: str | None = None, stream: int | None = None) -> Job:
    """Put a new job into the queue. Raises SlurmRefused for one that this cluster never could run."""
    tried = f"sbatch {spec.name}"
    state = stage.state
    if job_id is not None and job_id in state.jobs:
        raise SlurmRefused(f"Duplicate job id {job_id}", tried=tried, permanent=True)
    partition = stage.spec.partition(spec.partition)
    job = Job(
        number=state.next_number,
        job_id="",
        spec=spec,
        log="",
        submitted_at=at,
        excluded=spec.excluded_nodes,
        begin_at=at,
        stream=stream,
        time_limit_s=spec.time_limit_s or (partition.time_limit_s if partition else None),
        admin_comment=spec.admin_comment,
        held=spec.hold,
        reason=HELD_BY_USER if spec.hold else "",
        waiting_tasks=spec.array,
    )
    _refuse_what_never_runs(stage, job, tried=tried)
    job.job_id = job.record_id = job_id or stage.next_id()
    job.array_id = job.job_id if spec.array else ""
    job.log = stage.log_path(job)
    state.next_number += 1
    state.jobs[job.job_id] = job
    stage.changed()
    stage.schedule(at + stage.spec.latency_s)
    return job


def _refuse_what_never_runs(stage: Stage, job: Job, *, tried: str) -> None:
    spec = job.spec
    known = {feature for node in stage.state.nodes.values() for feature in node.features}
    wanted = set(spec.features.replace("|", "&").split("&")) if spec.features else set()
    if partition_of(stage, job) is None:
        raise SlurmRefused("Invalid partition name specified", tried=tried, permanent=True)
    if set(job.excluded) - set(stage.state.nodes):
        raise SlurmRefused("Invalid node name specified", tried=tried, permanent=True)
    if wanted - known:
        raise SlurmRefused("Invalid feature specification", tried=tried, permanent=True)
    if spec.reservation:
        reservation = placement.own_reservation(stage, job)
        if reservation is None:
            raise SlurmRefused("Requested reservation is invalid", tried=tried, permanent=True)
        if not placement.may_use(reservation, spec):
            raise SlurmRefused("Access denied to requested reservation", tried=tried, permanent=True)
    if len(eligible_nodes(stage, job)) < spec.nodes:
        raise SlurmRefused("Requested node configuration is not available", tried=tried, permanent=True)


def run_queue(stage: Stage, at: float) -> None:
    """One pass over all pending jobs. Linear in jobs, plus nodes for each job that is not behind a waiting one."""
    full: set[str] = set()  # partitions in which a job already waits for nodes
    pending = [job for job in stage.state.jobs.values() if job.state is JobState.PENDING]
    for job in sorted(pending, key=lambda job: (-_tier(stage, job), job.number)):
        if job.held or job.completing_until is not None:
            continue
        if job.begin_at > at:
            _waits_for(stage, job, "BeginTime")
            stage.schedule(job.begin_at + stage.spec.latency_s)
        elif partition_name(stage, job) in full:
            _waits_for(stage, job, "Priority")
        else:
            _try_to_start(stage, job, at, full)


def _tier(stage: Stage, job: Job) -> int:
    partition = partition_of(stage, job)
    return partition.tier if partition is not None else 0


def _waits_for(stage: Stage, job: Job, reason: str) -> None:
    if job.reason != reason:
        job.reason = reason
        stage.changed()


def _try_to_start(stage: Stage, job: Job, at: float, full: set[str]) -> None:
    """Start the job, or as many tasks of the array as have room, or say what it waits for."""
    if job.array_id and not arrays.may_start_another(stage, job):
        _waits_for(stage, job, "JobArrayTaskLimit")
        return
    possible = eligible_nodes(stage, job)
    usable = [node for node in possible if node.takes_jobs]
    allowed = placement.unreserved(stage, job, usable, at)
    chosen = choose(job, allowed)
    if refused := _partition_says_no(stage, job):
        _waits_for(stage, job, refused)
    elif len(chosen) == job.spec.nodes:
        waits = bool(job.waiting_tasks)
        one = arrays.split(stage, job, job.waiting_tasks[0]) if waits else job
        _start(stage, one, chosen, at)
        if one is not job:
            _try_to_start(stage, job, at, full)
    elif len(usable) < job.spec.nodes or not has_all(usable, job.spec.required_nodes):
        away = ",".join(node.name for node in possible if not node.takes_jobs)
        _waits_for(stage, job, f"ReqNodeNotAvail, UnavailableNodes:{away}")
    elif len(allowed) < job.spec.nodes:
        _wait_for_reservations(stage, job, at)
    else:
        placement.preempt_for(stage, job, allowed, at)
        _waits_for(stage, job, "Resources")
        full.add(partition_name(stage, job))


def _partition_says_no(stage: Stage, job: Job) -> str:
    partition = partition_of(stage, job)
    if partition is None or not partition.up:
        return "PartitionDown"
    if partition.time_limit_s is not None and (job.time_limit_s or 0) > partition.time_limit_s:
        return "PartitionTimeLimit"
    return ""


def _wait_for_reservations(stage: Stage, job: Job, at: float) -> None:
    blocking = placement.blocking_reservations(stage, job, at)
    if job.spec.reservation:
        _waits_for(stage, job, "Reservation")
    elif any(found.maintenance for found in blocking):
        _waits_for(stage, job, "ReqNodeNotAvail, Reserved for maintenance")
    else:
        _waits_for(stage, job, "ReqNodeNotAvail, May be reserved for other job")
    if (change := placement.next_change_of_reservations(stage, at)) is not None:
        stage.schedule(change + stage.spec.latency_s)


def _start(stage: Stage, job: Job, nodes: list[Node], at: float) -> None:
    for node in nodes:
        node.used += job.spec.gpus_per_node
    job.nodes = tuple(sorted(node.name for node in nodes))
    job.state, job.reason = JobState.RUNNING, ""
    job.started_at, job.ended_at = at, None
    job.exit_code = job.exit_signal = 0
    job.step_exit_codes = ()
    set_limit(stage, job)
    training.begin(stage, job, at)
    stage.changed()
    stage.touch(job)


def set_limit(stage: Stage, job: Job) -> None:
    """When a running job reaches its limit. Slurm looks only so often."""
    job.limit_at = None
    if job.time_limit_s is None or job.started_at is None:
        return
    every = stage.spec.limit_check_s
    over = job.started_at + job.time_limit_s
    job.limit_at = math.ceil(over / every) * every if every else over
