"""The simulated cluster as a pure, seeded machine: a state, and what time and people do to it.

`advance` plays everything that happens up to a moment, in the order in which it happens: one long advance and many
short ones lead to the same state and the same logs, byte for byte. Nothing here reads a clock, a file or a random
number.
"""

from __future__ import annotations

from heapq import heapify, heappop
from pathlib import PurePath

from recovery.slurm.simulator import ending, nodes, queue, training, workload
from recovery.slurm.simulator.effects import Effect
from recovery.slurm.simulator.orders import Orders
from recovery.slurm.simulator.pause import skip
from recovery.slurm.simulator.spec import ClusterSpec
from recovery.slurm.simulator.stage import JOB, NODE, RECORD, SCHEDULER, WORKLOAD
from recovery.slurm.simulator.state import Job, Node, Reservation, State


def new_state(spec: ClusterSpec, *, now: float) -> State:
    """An idle cluster at `now` (seconds since 1970)."""
    state = State(spec=spec, now=now, next_id=spec.first_job_id)
    for node in spec.nodes:
        state.nodes[node.name] = Node(name=node.name, gpus=node.gpus, features=node.features, rack=node.rack)
    for found in spec.reservations:
        state.reservations[found.name] = Reservation(
            name=found.name,
            nodes=found.nodes,
            starts_at=now + found.starts_s,
            ends_at=now + found.ends_s,
            users=found.users,
            accounts=found.accounts,
            maintenance=found.maintenance,
        )
    if spec.workload is not None:
        state.workload_at = now
        state.generations = [0] * len(spec.workload.streams)
    return state


class World(Orders):
    """The whole machine: orders, and the time that passes between them."""

    def __init__(self, state: State, *, root: PurePath) -> None:
        super().__init__(state, root=root)
        self._set_timers()

    def _set_timers(self) -> None:
        state = self.state
        self.timers = [
            (due, JOB, job.number, job.job_id) for job in state.jobs.values() if (due := job.due()) is not None
        ]
        self.timers += [(due, NODE, 0, n.name) for n in state.nodes.values() if (due := n.due()) is not None]
        if state.schedule_at is not None:
            self.timers.append((state.schedule_at, SCHEDULER, 0, ""))
        if state.workload_at is not None:
            self.timers.append((state.workload_at, WORKLOAD, 0, ""))
        heapify(self.timers)
        for job_id in state.forgotten:
            self.touch_forgotten(job_id)

    # --- time --------------------------------------------------------------------------------------------------------
    def advance(self, now: float) -> bool:
        """Play everything up to `now`. A `now` in the past changes nothing: time only goes forward.

        True where anything happened.
        """
        moved = skip(self.state, now)
        if moved:
            self._set_timers()
        while self.timers and self.timers[0][0] <= now:
            at, what, _, name = heappop(self.timers)
            self._happen(at, what, name)
            moved = True
        self.state.now = max(now, self.state.now)
        return moved

    def _happen(self, at: float, what: int, name: str) -> None:
        """Do what is due at `at`, unless the timer is outdated."""
        state = self.state
        if what == JOB and (job := state.jobs.get(name)) is not None and job.due() == at:
            self._happen_to(job, at)
        elif what == NODE and state.nodes[name].due() == at:
            nodes.happens(self, state.nodes[name], at)
        elif what == RECORD and name in state.forgotten:
            self.forget(name, at)
        elif what == SCHEDULER and state.schedule_at == at:
            state.schedule_at = None
            queue.run_queue(self, at)
        elif what == WORKLOAD and state.workload_at == at:
            workload.look(self, at)

    def _happen_to(self, job: Job, at: float) -> None:
        """One of a job's timers is due; where several are, the end of what was comes before what is next."""
        if job.purge_at == at:
            self.purge(job, at)
            return
        if job.completing_until == at:
            ending.finish_completing(self, job, at)
        elif job.limit_at == at:
            ending.reach_time_limit(self, job, at)
        elif job.training is not None:
            training.happens(self, job, job.training, at)
        self.touch(job)

    def take_effects(self) -> list[Effect]:
        """What the disk must be told of since the last call."""
        self.flush()
        taken, self.effects = self.effects, []
        return taken
