"""The worlds of a scenario: the product beside the simulator in virtual time, or beside a real Slurm."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from recovery.demo.jobs import TrainingJob, job_script
from recovery.demo.lab import SlurmLab
from recovery.models import Cluster, Incident
from recovery.pipeline import reconcile
from recovery.slurm.base import JobRecord, JobsPicture
from recovery.slurm.cli import CliClient
from recovery.slurm.simulator import Fault, FaultKind
from tests.pipeline.sim_desk import RHYTHM as SIM_RHYTHM
from tests.pipeline.sim_desk import SimDesk

__all__ = ["LAB_RHYTHM", "SIM_RHYTHM", "LabDesk", "VirtualDesk"]

STRIKES = 33  # step: behind the first checkpoint, before the second
_SIMULATED: dict[str, tuple[Fault, ...]] = {
    "hang": (Fault(kind=FaultKind.HANG, step=STRIKES),),
    "hang_here": (Fault(kind=FaultKind.HANG, step=STRIKES, node="gpu-01"),),
    "ecc": (Fault(kind=FaultKind.ECC, step=STRIKES, rank=9),),
    "traceback": (Fault(kind=FaultKind.TRACEBACK, step=STRIKES),),
    "torn": (Fault(kind=FaultKind.TEAR, step=37), Fault(kind=FaultKind.ECC, step=47, rank=9)),
}
_REAL = {
    "hang": ("kind=hang,step=33,attempt=0",),
    "hang_here": ("kind=hang,step=33,attempt=0",),
    "ecc": ("kind=ecc,step=33,rank=1,attempt=0",),
    "traceback": ("kind=traceback,step=33,rank=1",),
    "torn": ("kind=tear,step=40,attempt=0", "kind=ecc,step=47,rank=1,attempt=0"),
}
LAB_RHYTHM = {
    "SETTLE_S": 3.0, "TICK_S": 0.5, "HANG_FLOOR_S": 5.0, "HANG_SAVING_S": 10.0, "LEASE_S": 6.0, "SLURM_TIMEOUT_S": 5.0,
}  # fmt: skip


class VirtualDesk(SimDesk):
    """Two nodes of eight GPUs; a checkpoint at every twentieth step."""

    def train(self, fault: str, *, requeueable: bool = True, time_limit_s: float | None = None) -> str:
        return self.submit(*_SIMULATED[fault], requeueable=requeueable, time_limit_s=time_limit_s)

    def admin_requeue(self, job_id: str) -> None:
        self.world.admin_requeue(job_id)


class OwnJobs:
    """A CliClient that shows the jobs of one name alone: trials share a cluster, and know nothing of each other."""

    def __init__(self, client: CliClient, name: str) -> None:
        self._client = client
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def jobs(self) -> list[JobRecord]:
        return [job for job in self._client.jobs() if job.name == self._name]

    def jobs_since(self, mark: str) -> JobsPicture:
        picture = self._client.jobs_since(mark)
        own = None if picture.jobs is None else [job for job in picture.jobs if job.name == self._name]
        return replace(picture, jobs=own)


class LabDesk:
    """The product beside a lab's Slurm, in real time. The folder's name is that of its training job."""

    def __init__(self, folder: Path, lab: SlurmLab) -> None:
        self.lab = lab
        self.folder = folder
        self.client: Any = OwnJobs(CliClient(slurm_conf=str(lab.conf), timeout_s=5), folder.name)
        if not Cluster.objects.exists():
            Cluster.objects.create(
                name="lab", backend="cli", options=lab.options, poll_interval_s=0.5,
                next_look_at=self.now,
            )  # fmt: skip

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    def train(self, fault: str, *, requeueable: bool = True, time_limit_s: float | None = None) -> str:
        self.run_until(lambda: Cluster.objects.exclude(seen_at=None).exists())
        job = TrainingJob(
            name=self.folder.name, checkpoint_dir=self.folder / "ckpt", log=self.folder / "%x-%j.out", nodes=1,
            save_every=20, step_time_s=0.1, steps=4000, faults=_REAL[fault], requeueable=requeueable,
            python=sys.executable,
        )  # fmt: skip
        options = [f"--time={int(time_limit_s // 60)}"] if time_limit_s else []
        return self.lab.submit(_strikes_once(job), work_dir=self.folder, options=options)

    def admin_requeue(self, job_id: str) -> None:
        self.lab.run("scontrol", "requeue", job_id)

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            reconcile.tick(client_for=lambda cluster: self.client, clock=lambda: self.now)
            time.sleep(0.5)

    def run_until(self, done: Callable[[], bool], *, within: float = 90) -> None:
        end = self.now + timedelta(seconds=within)
        while not done():
            if self.now > end:
                raise AssertionError(f"not seen within {within:g} s: {_cases()}")
            self.run(0.5)


def _strikes_once(job: TrainingJob) -> str:
    """The job's script; where it is submitted again, the fault does not strike again."""
    script, whole = (job_script(each).rstrip().rpartition("\n")[2] for each in (job, replace(job, faults=())))
    head = job_script(job).rstrip().rpartition("\n")[0]
    again = "[ -e struck-$SLURM_JOB_ID ] || ! ls struck-* >/dev/null 2>&1 || "
    return f"{head}\n{again}exec {whole}\ntouch struck-$SLURM_JOB_ID\nexec {script}\n"


def _cases() -> str:
    return str(list(Incident.objects.values("state", "outcome", "alarm", "headline", "error")))
