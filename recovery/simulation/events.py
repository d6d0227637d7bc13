"""What a scenario's events do to the simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from recovery.simulation.scenario import Deed, PlannedEvent
from recovery.slurm.base import JobNotFound
from recovery.slurm.simulator import Reservation, SimulatedCluster

ADMIN = "root"


def carry_out(event: PlannedEvent, world: SimulatedCluster, *, now: datetime) -> str:
    """Do it; what was done, in words. Raises SlurmError where the cluster says no."""
    if event.do is Deed.RESERVE:
        return _reserve(event, world, now)
    if event.do is Deed.TROUBLE:
        world.be_in_trouble(event.how, for_s=event.for_s, operations=tuple(map(str, event.operations)))
        return f"the scheduler is in trouble ({event.how}) for {event.for_s:g} s"
    if event.do is Deed.PAUSE:
        return f"the desk stands still for {event.for_s:g} s"
    if event.do is Deed.CRASH_RACK:
        world.crash_rack(event.rack, within_s=event.within_s, back_after_s=event.back_after_s)
        return f"{event.rack} loses power"
    if event.do in _TO_NODES:
        return "; ".join(_TO_NODES[event.do](world, name, event) for name in event.nodes)
    return _TO_JOBS[event.do](world, newest_job(world, event.job), event)


def newest_job(world: SimulatedCluster, name: str) -> str:
    """The id of the job of that name that was submitted last. Raises JobNotFound."""
    with world.world() as state:
        found = [job for job in state.state.jobs.values() if job.spec.name == name]
        if not found:
            raise JobNotFound(f"the controller knows no job {name!r} now", tried="event", permanent=True)
        return max(found, key=lambda job: job.number).job_id


def _reserve(event: PlannedEvent, world: SimulatedCluster, now: datetime) -> str:
    starts_at = now.timestamp() + event.starts_in_s
    world.reserve(
        Reservation(
            name=event.name,
            nodes=event.nodes,
            starts_at=starts_at,
            ends_at=starts_at + event.for_s,
            users=event.users or (ADMIN,),
            maintenance=event.maintenance,
        )
    )
    kind = "maintenance" if event.maintenance else "reservation"
    return f"{kind} {event.name} of {', '.join(event.nodes)} in {event.starts_in_s:g} s for {event.for_s:g} s"


def _crash(world: SimulatedCluster, name: str, event: PlannedEvent) -> str:
    world.crash_node(name, back_after_s=event.back_after_s)
    return f"{name} loses power"


def _fail(world: SimulatedCluster, name: str, event: PlannedEvent) -> str:
    world.fail_node(name, reason=event.reason or "broken", by=event.by or ADMIN)
    return f"{event.by or ADMIN} sets {name} down"


def _drain(world: SimulatedCluster, name: str, event: PlannedEvent) -> str:
    world.drain_node(name, reason=event.reason or "maintenance", by=event.by or ADMIN)
    return f"{event.by or ADMIN} drains {name}"


def _restore(world: SimulatedCluster, name: str, event: PlannedEvent) -> str:
    world.restore_node(name)
    return f"{name} is up again"


def _cancel(world: SimulatedCluster, job_id: str, event: PlannedEvent) -> str:
    world.cancel(job_id, by=event.by or ADMIN)
    return f"{event.by or ADMIN} cancels {event.job} (job {job_id})"


def _requeue(world: SimulatedCluster, job_id: str, event: PlannedEvent) -> str:
    world.admin_requeue(job_id, hold=event.hold)
    return f"{event.by or ADMIN} requeues {event.job} (job {job_id})"


def _hold(world: SimulatedCluster, job_id: str, event: PlannedEvent) -> str:
    world.admin_hold(job_id)
    return f"{event.by or ADMIN} holds {event.job} (job {job_id})"


def _release(world: SimulatedCluster, job_id: str, event: PlannedEvent) -> str:
    with world.world() as state:
        state.release(job_id)
    return f"{event.by or ADMIN} releases {event.job} (job {job_id})"


def _lose_checkpoint(world: SimulatedCluster, job_id: str, event: PlannedEvent) -> str:
    with world.world() as state:
        state.remove_checkpoint(state.run_key(state.job(job_id, tried="event")), event.step)
    return f"somebody deletes checkpoint {event.step} of {event.job}"


Doing = Callable[[SimulatedCluster, str, PlannedEvent], str]

_TO_NODES: dict[Deed, Doing] = {
    Deed.CRASH_NODE: _crash,
    Deed.FAIL_NODE: _fail,
    Deed.DRAIN_NODE: _drain,
    Deed.RESTORE_NODE: _restore,
}
_TO_JOBS: dict[Deed, Doing] = {
    Deed.CANCEL: _cancel,
    Deed.REQUEUE: _requeue,
    Deed.HOLD: _hold,
    Deed.RELEASE: _release,
    Deed.LOSE_CHECKPOINT: _lose_checkpoint,
}
