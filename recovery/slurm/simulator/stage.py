"""What every part of the simulation works on: the state, the pending timers and what will be done to the disk.

No I/O and no clock: time comes in as an argument of what happens.
"""

from __future__ import annotations

import json
from heapq import heappush
from pathlib import PurePath

from recovery.slurm import job_paths
from recovery.slurm.base import JobRecord, SlurmRefused
from recovery.slurm.simulator.effects import Effect, EffectKind
from recovery.slurm.simulator.spec import ClusterSpec
from recovery.slurm.simulator.state import Described, Forgotten, Job, Node, Run, State
from recovery.slurm.simulator.trainers import STYLES

CHECKPOINTS = "ckpt"  # below the state directory, one folder for each run

# What happens at the same moment happens in this order, so that one long advance equals many short ones.
NODE, JOB, RECORD, SCHEDULER, WORKLOAD = range(5)
Timer = tuple[float, int, int, str]  # when, what, order among equals, name


class Stage:
    def __init__(self, state: State, *, root: PurePath) -> None:
        self.state = state
        self.root = root  # absolute path of the state directory, as jobs print it
        self.timers: list[Timer] = []
        self.effects: list[Effect] = []
        self.records: dict[str, tuple[tuple[object, ...], JobRecord]] = {}  # job id → what it was made of, and it
        self._written: dict[str, list[str]] = {}  # job id → lines since the last flush

    @property
    def spec(self) -> ClusterSpec:
        return self.state.spec

    def changed(self) -> None:
        """To be called when the record of some job is another than before, so that a client's mark grows old."""
        self.state.changes += 1

    def next_id(self) -> str:
        """The next free job id: after the largest one it begins again, and passes over those in use."""
        in_use = {job.record_id for job in self.state.jobs.values()} if self.state.wrapped else set()
        for _ in range(len(in_use) + self.spec.max_job_id - self.spec.first_job_id + 2):
            given = self.state.next_id
            self.state.next_id = given + 1
            if self.state.next_id > self.spec.max_job_id:
                self.state.next_id, self.state.wrapped = self.spec.first_job_id, True
                in_use = {job.record_id for job in self.state.jobs.values()}
            if str(given) not in in_use:
                return str(given)
        raise SlurmRefused("every job id is in use", tried="submit a job")

    def next_number(self) -> int:
        self.state.next_number += 1
        return self.state.next_number - 1

    # --- timers: a heap whose outdated entries are recognised when they come up --------------------------------------
    def touch(self, job: Job) -> None:
        """To be called when a job's `due` may have changed."""
        due = job.due()
        if due is not None:
            heappush(self.timers, (due, JOB, job.number, job.job_id))

    def touch_node(self, node: Node) -> None:
        due = node.due()
        if due is not None:
            heappush(self.timers, (due, NODE, 0, node.name))

    def schedule(self, at: float) -> None:
        """Let the scheduler look at the queue at `at`, or earlier where it would anyway."""
        if self.state.schedule_at is None or at < self.state.schedule_at:
            self.state.schedule_at = at
            heappush(self.timers, (at, SCHEDULER, 0, ""))

    def look_at_workload(self, at: float) -> None:
        self.state.workload_at = at
        heappush(self.timers, (at, WORKLOAD, 0, ""))

    # --- logs --------------------------------------------------------------------------------------------------------
    def stdout_path(self, job: Job) -> str:
        """Absolute, with Slurm's patterns filled in."""
        facts = job_paths.PathFacts(
            raw_id=int(job.record_id),
            array_id=int(job.array_id or 0),
            array_task=job.task,
            name=job.spec.name,
            user=job.spec.user,
            node=job.nodes[0] if job.nodes else "",
            work_dir=job.spec.work_dir or str(self.root),
        )
        return job_paths.expand(job.spec.stdout or job_paths.default_pattern(facts), facts)

    def log_path(self, job: Job) -> str:
        """Below the state directory; "" where the job's output goes elsewhere: that is never written."""
        path = PurePath(self.stdout_path(job))
        if ".." in path.parts or not path.is_relative_to(self.root) or path == self.root:
            return ""
        return str(path.relative_to(self.root))

    def open_log(self, job: Job) -> None:
        """Empty the job's log, as Slurm's default open mode does at each start, or write on behind what is there."""
        job.log_size = self.state.appended.get(job.log, 0) if job.spec.append else 0
        self._written[job.job_id] = []

    def write(self, job: Job, *lines: str) -> None:
        self._written.setdefault(job.job_id, []).extend(lines)

    def flush(self) -> None:
        """Turn what was written into effects, one for each log: after the saves that these lines speak of."""
        for job_id in list(self._written):
            self.flush_log(self.state.jobs[job_id])

    def flush_log(self, job: Job) -> None:
        lines = self._written.pop(job.job_id, [])
        if not job.log or not lines:
            return
        text = "\n".join(lines) + "\n"
        self.effects.append(Effect(kind=EffectKind.LOG, path=job.log, offset=job.log_size, text=text))
        job.log_size += len(text.encode("utf-8", "surrogateescape"))
        if job.spec.append:
            self.state.appended[job.log] = job.log_size

    # --- checkpoints -------------------------------------------------------------------------------------------------
    def run(self, key: str) -> Run:
        return self.state.runs.setdefault(key, Run())

    def run_folder(self, key: str) -> str:
        """Below the state directory; `checkpoint_dir` is the same, absolute, as the job prints it."""
        return f"{CHECKPOINTS}/{key}"

    def run_key(self, job: Job) -> str:
        """Of the run that the job writes checkpoints of: each task of an array trains a run of its own."""
        return job.spec.run_key if job.task is None else f"{job.spec.run_key}-{job.task}"

    def checkpoint_dir(self, job: Job) -> str:
        return str(self.root / self.run_folder(self.run_key(job)))

    def remove_checkpoint(self, key: str, step: int) -> None:
        run = self.run(key)
        run.saved = [c for c in run.saved if c.step != step]
        self._remove(f"{self.run_folder(key)}/{STYLES[run.trainer].name(step)}")

    # --- what is told of a job ---------------------------------------------------------------------------------------
    def comment(self, job: Job) -> str:
        """Its own, else what its user would write to be watched; the log keeps its pattern, as in a batch script."""
        spec = job.spec
        if spec.comment is not None:
            return spec.comment
        options: dict[str, str | int] = {}
        if not job.array_id:  # the tasks of an array share one comment, and each trains a run of its own
            log = str(self.root / spec.stdout)
            options |= {"run": spec.run_key, "checkpoint_dir": self.checkpoint_dir(job), "log": log}
        if spec.mode:
            options["mode"] = spec.mode
        if spec.max_restarts is not None:
            options["max_restarts"] = spec.max_restarts
        return json.dumps({"recovery": options})

    def describe(self, job: Job) -> Described:
        spec, partition = job.spec, self.spec.partition(job.spec.partition)
        return Described(
            user=spec.user,
            account=spec.account,
            partition=partition.name if partition is not None else spec.partition,
            qos=spec.qos,
            node_count=spec.nodes,
            gpus=spec.ranks,
            time_limit_s=job.time_limit_s,
            comment=self.comment(job),
            work_dir=spec.work_dir or str(self.root),
            stdout=self.stdout_path(job),
        )

    # --- forgetting --------------------------------------------------------------------------------------------------
    def purge(self, job: Job, at: float) -> None:
        """MinJobAge is over: the controller forgets the job, accounting does not."""
        self.flush_log(job)
        self.changed()
        del self.state.jobs[job.job_id]
        self.records.pop(job.job_id, None)
        keep = self.spec.keep_records_s
        record = Forgotten(
            name=job.spec.name,
            attempts=[*job.past, job.attempt()],
            log=job.log,
            run=self.run_key(job),
            forget_at=None if keep is None else at + keep,
            described=self.describe(job),
        )
        self.state.forgotten.setdefault(job.job_id, []).append(record)
        self.touch_forgotten(job.job_id)

    def touch_forgotten(self, job_id: str) -> None:
        due = min((r.forget_at for r in self.state.forgotten[job_id] if r.forget_at is not None), default=None)
        if due is not None:
            heappush(self.timers, (due, RECORD, 0, job_id))

    def forget(self, job_id: str, at: float) -> None:
        """Drop what is left of ended jobs of that id: records, log and, with its last job, the run's checkpoints."""
        records = self.state.forgotten.pop(job_id)
        kept = [r for r in records if r.forget_at is None or r.forget_at > at]
        if kept:
            self.state.forgotten[job_id] = kept
        for record in records:
            if record not in kept:
                self._remove_unless_used(record)

    def _remove_unless_used(self, record: Forgotten) -> None:
        others = [r for rs in self.state.forgotten.values() for r in rs]
        logs = {job.log for job in self.state.jobs.values()} | {r.log for r in others}
        runs = {self.run_key(job) for job in self.state.jobs.values()} | {r.run for r in others}
        if record.log and record.log not in logs:
            self._remove(record.log)
            self.state.appended.pop(record.log, None)
        if record.run not in runs:
            self.state.runs.pop(record.run, None)
            self._remove(self.run_folder(record.run))

    def _remove(self, path: str) -> None:
        self.effects.append(Effect(kind=EffectKind.REMOVE, path=path))
