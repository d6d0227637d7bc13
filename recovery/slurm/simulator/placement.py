"""Where a job may run: partitions, constraints, exclusions, reservations, and whose nodes it may take."""

from __future__ import annotations

import math

from recovery.core.types import JobState
from recovery.slurm.simulator import ending
from recovery.slurm.simulator.spec import JobSpec, PartitionSpec, Preempt
from recovery.slurm.simulator.stage import Stage
from recovery.slurm.simulator.state import Job, Node, Reservation


def partition_of(stage: Stage, job: Job) -> PartitionSpec | None:
    """None where the cluster has no such partition: no such job is ever accepted."""
    return stage.spec.partition(job.spec.partition)


def partition_name(stage: Stage, job: Job) -> str:
    partition = partition_of(stage, job)
    return partition.name if partition is not None else job.spec.partition


def eligible_nodes(stage: Stage, job: Job) -> list[Node]:
    """Nodes that the job may run on at all, whatever their present state."""
    partition = partition_of(stage, job)
    names = partition.nodes if partition is not None else ()
    nodes = [stage.state.nodes[name] for name in names if name not in job.excluded]
    return [n for n in nodes if n.gpus >= job.spec.gpus_per_node and has_features(n.features, job.spec.features)]


def has_features(features: tuple[str, ...], wanted: str) -> bool:
    """Slurm's constraint: "h100&ib" wants both, "h100|a100" one of them; & binds stronger."""
    if not wanted:
        return True
    return any(set(one.split("&")) <= set(features) for one in wanted.split("|"))


# --- reservations -----------------------------------------------------------------------------------------------------
def blocking_reservations(stage: Stage, job: Job, at: float) -> list[Reservation]:
    """Reservations that keep their nodes from the job if it started now: it isn't for them, and would run into them."""
    over = at + (math.inf if job.time_limit_s is None else job.time_limit_s)
    return [
        found
        for found in stage.state.reservations.values()
        if found.name != job.spec.reservation and found.starts_at < over and found.ends_at > at
    ]


def own_reservation(stage: Stage, job: Job) -> Reservation | None:
    return stage.state.reservations.get(job.spec.reservation)


def may_use(reservation: Reservation, spec: JobSpec) -> bool:
    return spec.user in reservation.users or spec.account in reservation.accounts


def unreserved(stage: Stage, job: Job, nodes: list[Node], at: float) -> list[Node]:
    """Those of `nodes` that no reservation keeps from the job; with its own reservation, that one's only."""
    if not stage.state.reservations:
        return [] if job.spec.reservation else nodes
    taken = {name for found in blocking_reservations(stage, job, at) for name in found.nodes}
    if job.spec.reservation:
        own = own_reservation(stage, job)
        if own is None or not own.starts_at <= at < own.ends_at:
            return []
        return [node for node in nodes if node.name in own.nodes and node.name not in taken]
    return [node for node in nodes if node.name not in taken]


def next_change_of_reservations(stage: Stage, at: float) -> float | None:
    """When one begins or ends next."""
    times = [time for found in stage.state.reservations.values() for time in (found.starts_at, found.ends_at)]
    return min((time for time in times if time > at), default=None)


# --- choosing ---------------------------------------------------------------------------------------------------------
def choose(job: Job, usable: list[Node]) -> list[Node]:
    """As many free nodes as the job needs, the required ones first, in the order of the partition; else fewer."""
    free = [node for node in usable if node.gpus - node.used >= job.spec.gpus_per_node]
    if not has_all(free, job.spec.required_nodes):
        return []
    free.sort(key=lambda node: node.name not in job.spec.required_nodes)
    return free[: job.spec.nodes]


def has_all(nodes: list[Node], names: tuple[str, ...]) -> bool:
    return set(names) <= {node.name for node in nodes}


# --- preemption -------------------------------------------------------------------------------------------------------
def preempt_for(stage: Stage, job: Job, usable: list[Node], at: float) -> None:
    """End as few jobs of lower tiers as `job` needs to start on `usable`, the newest first; none where it's no use."""
    partition = partition_of(stage, job)
    if partition is None or not any(_yields(other, partition.tier) for other in stage.spec.partitions):
        return
    free = {node.name: node.gpus - node.used for node in usable}
    for other in stage.state.jobs.values():
        if other.completing_until is not None:  # is ending already: what it holds comes free by itself
            _give_back(free, other)
    victims: list[Job] = []
    for other in sorted(_running_below(stage, partition.tier), key=lambda other: -other.number):
        if _enough(free, job):
            break
        if any(free.get(name, 0) < job.spec.gpus_per_node for name in other.nodes if name in free):
            _give_back(free, other)
            victims.append(other)
    if not _enough(free, job):
        return
    for victim in victims:
        mode = (partition_of(stage, victim) or partition).preempt
        ending.preempt(stage, victim, at, requeue=mode is Preempt.REQUEUE)


def _yields(partition: PartitionSpec, tier: int) -> bool:
    return partition.tier < tier and partition.preempt is not Preempt.OFF


def _running_below(stage: Stage, tier: int) -> list[Job]:
    running = [job for job in stage.state.jobs.values() if job.state is JobState.RUNNING]
    return [job for job in running if (p := partition_of(stage, job)) is not None and _yields(p, tier)]


def _give_back(free: dict[str, int], job: Job) -> None:
    for name in job.nodes:
        if name in free:
            free[name] += job.spec.gpus_per_node


def _enough(free: dict[str, int], job: Job) -> bool:
    return sum(gpus >= job.spec.gpus_per_node for gpus in free.values()) >= job.spec.nodes
