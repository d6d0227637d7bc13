"""What users, administrators and the product order: Slurm's answers as measured on 22.05, in Slurm's own words."""

from __future__ import annotations

import math

from recovery.core.types import JobState
from recovery.slurm.base import JobNotFound, SlurmRefused
from recovery.slurm.names import check_job_id, one_line
from recovery.slurm.simulator import arrays, ending, nodes, queue
from recovery.slurm.simulator.effects import Effect, EffectKind
from recovery.slurm.simulator.spec import JobSpec, Trainer
from recovery.slurm.simulator.stage import Stage
from recovery.slurm.simulator.state import Checkpoint, Job, Node, Reservation

ALREADY_PENDING = "Job is pending execution"
NO_LONGER_PENDING = "Job is no longer pending execution"
FINISHED = "Job has already finished"
NOT_REQUEUEABLE = "Requested operation is presently disabled"
NO_SUCH_NODE = "Invalid node name specified"
NO_SUCH_JOB = "Invalid job id specified"
BAD_NODE_STATE = "Invalid node state specified"

ADMIN_COMMENT = 1000  # characters


class Orders(Stage):
    """Orders happen at the state's own `now`: advance first, then call."""

    # --- jobs --------------------------------------------------------------------------------------------------------
    def submit(self, spec: JobSpec, *, job_id: str | None = None) -> Job:
        """sbatch. `job_id` reuses an id that the controller has forgotten, as Slurm does after MaxJobId.

        Raises SlurmRefused for a job that this cluster never could run.
        """
        return queue.submit(self, spec, at=self.state.now, job_id=job_id)

    def cancel(self, job_id: str, *, by: str) -> bool:
        """scancel of one job or task, or of all tasks of an array. False, as no error, where all had ended."""
        if (waiting := arrays.waiting_record(self, job_id)) is not None and len(waiting[0].waiting_tasks) > 1:
            array, task = waiting
            array.waiting_tasks = tuple(number for number in array.waiting_tasks if number != task)
            self.changed()
            return True
        found = arrays.records_of(self, job_id) or [self._own_record(job_id, tried=f"scancel {job_id}")]
        alive = [job for job in found if not job.state.is_terminal]
        for job in alive:
            ending.cancel(self, job, by, self.state.now)
        return bool(alive)

    def requeue(self, job_id: str, *, hold: bool) -> None:
        """scontrol requeue, or requeuehold."""
        tried = f"scontrol {'requeuehold' if hold else 'requeue'} {job_id}"
        job = self.job(job_id, tried=tried)
        if job.state is JobState.PENDING:
            raise SlurmRefused(ALREADY_PENDING, tried=tried, permanent=True)
        if not job.spec.requeueable:
            raise SlurmRefused(NOT_REQUEUEABLE, tried=tried, permanent=True)
        ending.put_back(self, job, hold=hold, at=self.state.now)

    def hold(self, job_id: str, *, by_admin: bool) -> None:
        """scontrol hold (by an admin), or uhold. On a running job it takes effect when the job is put back."""
        job = self._alive(job_id, tried=f"scontrol hold {job_id}")
        job.held, job.reason = True, queue.HELD_BY_ADMIN if by_admin else queue.HELD_BY_USER
        self.changed()

    def release(self, job_id: str) -> None:
        """scontrol release: what is left of the requeue delay still holds."""
        job = self._alive(job_id, tried=f"scontrol release {job_id}")
        if not job.held:
            return
        job.held = False
        waits = job.state is JobState.PENDING and job.begin_at > self.state.now
        job.reason = "BeginTime" if waits else ""
        self.changed()
        self.schedule(self.state.now + self.spec.latency_s)

    def set_excluded_nodes(self, job_id: str, names: tuple[str, ...]) -> None:
        tried = f"scontrol update JobId={job_id} ExcNodeList={','.join(names)}"
        job = self._alive(job_id, tried=tried)
        if job.state is not JobState.PENDING:
            raise SlurmRefused(NO_LONGER_PENDING, tried=tried, permanent=True)
        if set(names) - set(self.state.nodes):
            raise SlurmRefused(NO_SUCH_NODE, tried=tried, permanent=True)
        job.excluded = tuple(sorted(set(names)))
        self.changed()
        self.schedule(self.state.now + self.spec.latency_s)

    def set_time_limit(self, job_id: str, seconds: float) -> None:
        """Whole minutes, rounded up; a limit that a running job has passed already ends it at Slurm's next look."""
        minutes = math.ceil(seconds / 60)
        job = self._alive(job_id, tried=f"scontrol update JobId={job_id} TimeLimit={minutes}")
        job.time_limit_s = minutes * 60.0
        if job.state is JobState.RUNNING:
            queue.set_limit(self, job)
            if job.limit_at is not None:
                job.limit_at = max(job.limit_at, self.state.now)
            self.touch(job)
        self.changed()
        self.schedule(self.state.now + self.spec.latency_s)

    def set_admin_comment(self, job_id: str, text: str) -> None:
        job = self._alive(job_id, tried=f"scontrol update JobId={job_id} AdminComment=…")
        job.admin_comment = one_line(text, ADMIN_COMMENT)
        self.changed()

    # --- nodes -------------------------------------------------------------------------------------------------------
    def node(self, name: str, *, tried: str = "") -> Node:
        if name not in self.state.nodes:
            raise SlurmRefused(NO_SUCH_NODE, tried=tried or f"node {name}", permanent=True)
        return self.state.nodes[name]

    def crash_node(self, name: str, *, back_after_s: float = 0) -> None:
        """Power cut: noticed after the node time-out, and back so long after that (0: never)."""
        nodes.crash(self, self.node(name), self.state.now, back_after_s=back_after_s)

    def crash_rack(self, rack: str, *, within_s: float = 2, back_after_s: float = 0) -> None:
        """All nodes of a rack lose power within a moment."""
        found = [node for node in self.state.nodes.values() if node.rack == rack]
        if not rack or not found:
            raise SlurmRefused(NO_SUCH_NODE, tried=f"rack {rack}", permanent=True)
        nodes.crash_rack(self, found, self.state.now, within_s=within_s, back_after_s=back_after_s)

    def fail_node(self, name: str, *, reason: str, by: str) -> None:
        """Down at once, as `scontrol update state=down` does it."""
        nodes.fail(self, self.node(name), self.state.now, reason=reason, by=by)

    def drain_node(self, name: str, *, reason: str, by: str) -> None:
        tried = f"scontrol update NodeName={name} State=DRAIN"
        nodes.drain(self.node(name, tried=tried), self.state.now, reason=reason, by=by)

    def resume_node(self, name: str) -> None:
        """scontrol update State=RESUME. Raises SlurmRefused for a node that has nothing to resume."""
        tried = f"scontrol update NodeName={name} State=RESUME"
        node = self.node(name, tried=tried)
        if node.takes_jobs:
            raise SlurmRefused(BAD_NODE_STATE, tried=tried, permanent=True)
        self.restore_node(name)

    def restore_node(self, name: str) -> None:
        nodes.restore(self, self.node(name), self.state.now)

    def reserve(self, reservation: Reservation) -> None:
        """scontrol create reservation: from then on jobs keep out of its nodes while it lasts."""
        tried = f"scontrol create reservation {reservation.name}"
        if reservation.name in self.state.reservations:
            raise SlurmRefused("Reservation name already exists", tried=tried, permanent=True)
        for name in reservation.nodes:
            self.node(name, tried=tried)
        self.state.reservations[reservation.name] = reservation
        self.schedule(self.state.now + self.spec.latency_s)

    # --- what lies on the disk ---------------------------------------------------------------------------------------
    def put_checkpoint(self, run: str, step: int, *, shards: int, trainer: Trainer = Trainer.MEGATRON) -> None:
        """A complete checkpoint from the time before this world."""
        for kind in (EffectKind.SAVE_BEGIN, EffectKind.SAVE_END):
            path = self.run_folder(run)
            self.effects.append(Effect(kind=kind, path=path, step=step, shards=shards, trainer=trainer))
        record = self.run(run)
        record.saved.append(Checkpoint(step=step, complete=True))
        record.tracker, record.trainer = step, trainer

    # --- look-ups ----------------------------------------------------------------------------------------------------
    def job(self, job_id: str, *, tried: str) -> Job:
        """Raises JobNotFound, in Slurm's words, where the controller does not know it."""
        check_job_id(job_id)
        found = self.state.jobs.get(job_id)
        if found is None:
            raise JobNotFound(NO_SUCH_JOB, tried=tried, permanent=True)
        return found

    def _own_record(self, job_id: str, *, tried: str) -> Job:
        """The job's record; a task that waits with others is split off first, as Slurm does when one is changed."""
        if (waiting := arrays.waiting_record(self, job_id)) is not None:
            return arrays.split(self, *waiting)
        return self.job(job_id, tried=tried)

    def _alive(self, job_id: str, *, tried: str) -> Job:
        if (found := self.state.jobs.get(job_id)) is not None and found.state.is_terminal:
            raise SlurmRefused(FINISHED, tried=tried, permanent=True)
        return self._own_record(job_id, tried=tried)
