"""The simulated cluster as a pure, seeded machine: a state, and what time and people do to it.

`advance` plays everything that happens up to a moment, in the order in which it happens: one long advance and many
short ones lead to the same state and the same logs, byte for byte. Nothing here reads a clock, a file or a random
number.
"""

from __future__ import annotations

from heapq import heapify, heappop
from pathlib import PurePath

from recovery.core.types import JobState
from recovery.slurm.base import JobNotFound, SlurmRefused
from recovery.slurm.simulator import ending, nodes, queue, training, workload
from recovery.slurm.simulator.effects import Effect, EffectKind
from recovery.slurm.simulator.pause import skip
from recovery.slurm.simulator.spec import ClusterSpec, JobSpec
from recovery.slurm.simulator.stage import JOB, NODE, RECORD, SCHEDULER, WORKLOAD, Stage
from recovery.slurm.simulator.state import Checkpoint, Job, Node, State

ALREADY_PENDING = "Job is pending execution"
NO_LONGER_PENDING = "Job is no longer pending execution"
NOT_REQUEUEABLE = "Requested operation is presently disabled"
NO_SUCH_NODE = "Invalid node name specified"
NO_SUCH_JOB = "Invalid job id specified"


def new_state(spec: ClusterSpec, *, now: float) -> State:
    """An idle cluster at `now` (seconds since 1970)."""
    state = State(spec=spec, now=now, next_id=spec.first_job_id)
    state.nodes = {node.name: Node(name=node.name, gpus=node.gpus) for node in spec.nodes}
    if spec.workload is not None:
        state.workload_at = now
        state.generations = [0] * len(spec.workload.streams)
    return state


class World(Stage):
    """Operations happen at the state's own `now`: advance first, then call."""

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
    def advance(self, now: float) -> None:
        """Play everything up to `now`. A `now` in the past changes nothing: time only goes forward."""
        if skip(self.state, now):
            self._set_timers()
        while self.timers and self.timers[0][0] <= now:
            at, what, _, name = heappop(self.timers)
            self._happen(at, what, name)
        self.state.now = max(now, self.state.now)

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

    # --- what users do -----------------------------------------------------------------------------------------------
    def submit(self, spec: JobSpec, *, job_id: str | None = None) -> Job:
        """sbatch. `job_id` reuses an id that the controller has forgotten, as Slurm does after MaxJobId.

        Raises SlurmRefused for a job that this cluster never could run.
        """
        return queue.submit(self, spec, at=self.state.now, job_id=job_id)

    def cancel(self, job_id: str, *, by: str) -> None:
        job = self.job(job_id, tried=f"scancel {job_id}")
        ending.cancel(self, job, by, self.state.now)

    # --- what the product and administrators do ----------------------------------------------------------------------
    def requeue(self, job_id: str, *, hold: bool) -> None:
        """scontrol requeue, or requeuehold."""
        tried = f"scontrol {'requeuehold' if hold else 'requeue'} {job_id}"
        job = self.job(job_id, tried=tried)
        if job.state is JobState.PENDING:
            raise SlurmRefused(ALREADY_PENDING, tried=tried, permanent=True)
        if not job.spec.requeueable:
            raise SlurmRefused(NOT_REQUEUEABLE, tried=tried, permanent=True)
        ending.requeue(self, job, hold=hold, at=self.state.now)

    def hold(self, job_id: str, *, by_admin: bool) -> None:
        """scontrol hold (by an admin), or uhold."""
        job = self._pending(job_id, tried=f"scontrol hold {job_id}")
        job.held, job.reason = True, queue.HELD_BY_ADMIN if by_admin else queue.HELD_BY_USER

    def release(self, job_id: str) -> None:
        """scontrol release: what is left of the requeue delay still holds."""
        job = self._pending(job_id, tried=f"scontrol release {job_id}")
        if not job.held:
            return
        job.held = False
        job.reason = "BeginTime" if job.begin_at > self.state.now else ""
        self.schedule(self.state.now + self.spec.latency_s)

    def set_excluded_nodes(self, job_id: str, names: tuple[str, ...]) -> None:
        tried = f"scontrol update JobId={job_id} ExcNodeList={','.join(names)}"
        job = self._pending(job_id, tried=tried)
        if set(names) - set(self.state.nodes):
            raise SlurmRefused(NO_SUCH_NODE, tried=tried, permanent=True)
        job.excluded = tuple(sorted(set(names)))
        self.schedule(self.state.now + self.spec.latency_s)

    # --- what happens to machines ------------------------------------------------------------------------------------
    def node(self, name: str) -> Node:
        if name not in self.state.nodes:
            raise SlurmRefused(NO_SUCH_NODE, tried=f"node {name}", permanent=True)
        return self.state.nodes[name]

    def crash_node(self, name: str, *, back_after_s: float = 0) -> None:
        """Power cut: noticed after the node time-out, and back so long after that (0: never)."""
        nodes.crash(self, self.node(name), self.state.now, back_after_s=back_after_s)

    def fail_node(self, name: str, *, reason: str, by: str) -> None:
        """Down at once, as `scontrol update state=down` does it."""
        nodes.fail(self, self.node(name), self.state.now, reason=reason, by=by)

    def drain_node(self, name: str, *, reason: str, by: str) -> None:
        nodes.drain(self.node(name), self.state.now, reason=reason, by=by)

    def restore_node(self, name: str) -> None:
        nodes.restore(self, self.node(name), self.state.now)

    # --- what lies on the disk ---------------------------------------------------------------------------------------
    def put_checkpoint(self, run: str, step: int, *, shards: int) -> None:
        """A complete checkpoint from the time before this world."""
        folder = self.run_folder(run)
        for kind in (EffectKind.SAVE_BEGIN, EffectKind.SAVE_END):
            self.effects.append(Effect(kind=kind, path=folder, step=step, shards=shards))
        record = self.run(run)
        record.saved.append(Checkpoint(step=step, complete=True))
        record.tracker = step

    # --- look-ups ----------------------------------------------------------------------------------------------------
    def job(self, job_id: str, *, tried: str) -> Job:
        """Raises JobNotFound, in Slurm's words, where the controller does not know it."""
        found = self.state.jobs.get(job_id)
        if found is None:
            raise JobNotFound(NO_SUCH_JOB, tried=tried, permanent=True)
        return found

    def _pending(self, job_id: str, *, tried: str) -> Job:
        job = self.job(job_id, tried=tried)
        if job.state is not JobState.PENDING:
            raise SlurmRefused(NO_LONGER_PENDING, tried=tried, permanent=True)
        return job
