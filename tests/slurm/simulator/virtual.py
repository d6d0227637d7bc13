"""A simulated cluster in virtual time, with the few helpers that its tests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from recovery.core.types import JobState
from recovery.slurm.base import AttemptRecord, JobRecord
from recovery.slurm.simulator import (
    ClusterSpec,
    Fault,
    FaultKind,
    JobSpec,
    SimulatedCluster,
    SimulatorClient,
    make_nodes,
)

START = datetime(2026, 2, 3, 4, 0, tzinfo=UTC)


class VirtualClock:
    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Sim:
    clock: VirtualClock
    cluster: SimulatedCluster
    client: SimulatorClient

    def run(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.cluster.advance()

    def until(self, job_id: str, state: JobState, *, within_s: float = 200, step_s: float = 0.5) -> JobRecord:
        """The job's first record in `state`."""
        return self.until_true(job_id, lambda job: job.state is state, within_s=within_s, step_s=step_s)

    def until_true(
        self, job_id: str, look: Callable[[JobRecord], bool], *, within_s: float = 200, step_s: float = 0.5
    ) -> JobRecord:
        job = self.client.job(job_id)
        for _ in range(int(within_s / step_s)):
            if look(job):
                return job
            self.clock.advance(step_s)
            job = self.client.job(job_id)
        raise AssertionError(f"not seen within {within_s} s: {job}")

    def attempts(self, job_id: str) -> list[AttemptRecord]:
        return self.client.attempts([job_id], since=START - timedelta(hours=1)).get(job_id, [])

    def log(self, job_id: str) -> str:
        """What the job has written so far; "" before it started."""
        path = self.cluster.log_path(job_id)
        return path.read_bytes().decode("utf-8", "replace") if path.exists() else ""

    def steps(self, job_id: str) -> list[int]:
        """The iterations that the job's log reports, in order."""
        return reported_steps(self.log(job_id))

    def checkpoints(self, run: str) -> list[str]:
        return sorted(path.name for path in self.cluster.checkpoint_dir(run).glob("iter_*"))


def reported_steps(log: str) -> list[int]:
    return [int(line.split("iteration")[1].split("/")[0]) for line in log.split("\n") if "] iteration " in line]


def make_sim(state_dir: Path, **spec: Any) -> Sim:
    """A cluster of four nodes with eight GPUs each, unless `spec` says otherwise."""
    clock = VirtualClock()
    cluster = SimulatedCluster(state_dir, clock=clock)
    cluster.create(ClusterSpec(**{"seed": 1, "nodes": make_nodes(4), **spec}))
    return Sim(clock=clock, cluster=cluster, client=SimulatorClient(state_dir, clock=clock))


def train(**changes: Any) -> JobSpec:
    """A job that saves every ten steps of about one second."""
    return JobSpec(**{"name": "llama", "save_every": 10, "total_steps": 200, **changes})


def failing(kind: FaultKind, step: int, **changes: Any) -> JobSpec:
    """The same, with one fault."""
    fault = {key: changes.pop(key) for key in list(changes) if key in _OF_FAULT}
    return train(faults=(Fault(kind=kind, step=step, **fault),), **changes)


_OF_FAULT = {"attempt", "task", "node", "rank", "repeat", "factor", "seconds", "exit_code"}
