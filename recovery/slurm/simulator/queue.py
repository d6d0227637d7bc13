"""The scheduler: who waits for what, and who starts where.

First in, first out in each partition, as Slurm's builtin scheduler does with equal priorities: the first job that has
to wait for nodes makes the later ones of its partition wait too. Jobs that can't run for another reason (held, begin
time, nodes that are down or excluded) stand in nobody's way.
"""

from __future__ import annotations

from recovery.core.types import JobState
from recovery.slurm.base import SlurmRefused
from recovery.slurm.simulator import training
from recovery.slurm.simulator.names import expand
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
    given = job_id or str(state.next_id)
    job = Job(
        number=state.next_number,
        job_id=given,
        spec=spec,
        log=_log_path(stage, spec, given),
        submitted_at=at,
        excluded=spec.excluded_nodes,
        begin_at=at,
        stream=stream,
    )
    if len(eligible_nodes(stage, job)) < spec.nodes:
        raise SlurmRefused("Requested node configuration is not available", tried=tried, permanent=True)
    state.next_number += 1
    state.next_id += job_id is None
    state.jobs[given] = job
    stage.schedule(at + stage.spec.latency_s)
    return job


def _log_path(stage: Stage, spec: JobSpec, job_id: str) -> str:
    """Below the state directory; "" where the job's output goes elsewhere: that is never written."""
    path = stage.root / expand(spec.stdout, job_id=job_id, name=spec.name, user=spec.user)
    if ".." in path.parts or not path.is_relative_to(stage.root) or path == stage.root:
        return ""
    return str(path.relative_to(stage.root))


def run_queue(stage: Stage, at: float) -> None:
    """One pass over all pending jobs. Linear in jobs, plus nodes for each job that is not behind a waiting one."""
    full: set[str] = set()  # partitions in which a job already waits for nodes
    pending = [job for job in stage.state.jobs.values() if job.state is JobState.PENDING]
    for job in sorted(pending, key=lambda job: job.number):
        if job.held or job.completing_until is not None:
            continue
        if job.begin_at > at:
            job.reason = "BeginTime"
            stage.schedule(job.begin_at + stage.spec.latency_s)
        elif partition_name(stage, job) in full:
            job.reason = "Priority"
        else:
            _try_to_start(stage, job, at, full)


def _try_to_start(stage: Stage, job: Job, at: float, full: set[str]) -> None:
    """Start the job, or say what it waits for."""
    possible = eligible_nodes(stage, job)
    usable = [node for node in possible if node.takes_jobs]
    chosen = _choose(job, usable)
    if len(chosen) == job.spec.nodes:
        _start(stage, job, chosen, at)
    elif len(usable) < job.spec.nodes or not _has(usable, job.spec.required_nodes):
        away = ",".join(node.name for node in possible if not node.takes_jobs)
        job.reason = f"ReqNodeNotAvail, UnavailableNodes:{away}"
    else:
        job.reason = "Resources"
        full.add(partition_name(stage, job))


def partition_name(stage: Stage, job: Job) -> str:
    partition = stage.spec.partition(job.spec.partition)
    return partition.name if partition is not None else job.spec.partition


def eligible_nodes(stage: Stage, job: Job) -> list[Node]:
    """Nodes that the job may run on at all, whatever their present state."""
    partition = stage.spec.partition(job.spec.partition)
    names = partition.nodes if partition is not None else ()
    nodes = [stage.state.nodes[name] for name in names if name not in job.excluded]
    return [node for node in nodes if node.gpus >= job.spec.gpus_per_node]


def _choose(job: Job, usable: list[Node]) -> list[Node]:
    """As many free nodes as the job needs, the required ones first, in the order of the partition; else fewer."""
    free = [node for node in usable if node.gpus - node.used >= job.spec.gpus_per_node]
    if not _has(free, job.spec.required_nodes):
        return []
    free.sort(key=lambda node: node.name not in job.spec.required_nodes)
    return free[: job.spec.nodes]


def _has(nodes: list[Node], names: tuple[str, ...]) -> bool:
    return set(names) <= {node.name for node in nodes}


def _start(stage: Stage, job: Job, nodes: list[Node], at: float) -> None:
    for node in nodes:
        node.used += job.spec.gpus_per_node
    job.nodes = tuple(sorted(node.name for node in nodes))
    job.state, job.reason = JobState.RUNNING, ""
    job.started_at, job.ended_at = at, None
    job.exit_code = job.exit_signal = 0
    job.step_exit_codes = ()
    if job.spec.time_limit_s is not None:
        every = stage.spec.limit_check_s
        over = at + job.spec.time_limit_s
        job.limit_at = -(-over // every) * every if every else over  # Slurm looks only so often
    training.begin(stage, job, at)
    stage.touch(job)
