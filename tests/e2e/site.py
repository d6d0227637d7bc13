"""A site: the lab's Slurm, and the product's own processes on the test's database. Nothing in it is simulated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from recovery.core.lifecycle import IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.demo.jobs import TrainingJob, job_script
from recovery.demo.lab import SlurmLab
from recovery.demo.processes import wait_until
from recovery.models import Action, Attempt, Cluster, Incident, PolicyVersion, Recommendation
from recovery.slurm.base import AttemptRecord, JobRecord
from recovery.slurm.cli import CliClient
from tests import daemons
from tests.browser import web_daemon
from tests.daemons import Daemon
from tests.services import database_url

# Quick rhythms, so that a scenario takes half a minute; every one is a setting that a site may choose as well.
RHYTHM = {
    "RECOVERY_TICK_S": "0.5",
    "RECOVERY_LEASE_S": "12",
    "RECOVERY_SLURM_TIMEOUT_S": "4",
    "RECOVERY_SETTLE_S": "3",
    "RECOVERY_HANG_FLOOR_S": "6",
    "RECOVERY_HANG_SAVING_S": "12",
}
STEP_S, SAVE_EVERY = 0.2, 10
SKEWED = Path(__file__).with_name("skewed")  # its sitecustomize.py moves the clock of a whole process


@dataclass
class Site:
    lab: SlurmLab
    folder: Path
    redis_url: str
    processes: dict[str, Daemon] = field(default_factory=dict)
    ahead_s: float = 0  # by so much the clock of the product's processes differs from Slurm's and ours

    # --- the product --------------------------------------------------------------------------------------------------
    @property
    def env(self) -> dict[str, str]:
        return {
            **RHYTHM,
            "DATABASE_URL": database_url(),
            "REDIS_URL": self.redis_url,
            "RECOVERY_DATA_DIR": str(self.folder / "data"),
            "RECOVERY_LOG_ROOTS": str(self.folder),
            "RECOVERY_LOG_LEVEL": "WARNING",
            **({"PYTHONPATH": str(SKEWED), "SKEW_S": str(self.ahead_s)} if self.ahead_s else {}),
        }

    @property
    def now(self) -> datetime:
        """The present, as the product's processes have it."""
        return datetime.now(UTC) + timedelta(seconds=self.ahead_s)

    def start(self, *names: str) -> None:
        for name in names or ("web", "worker", "beat"):
            self.processes[name] = {"web": self._web, "worker": self._worker, "beat": self._beat}[name]()
            self.processes[name].start()

    def stop(self) -> None:
        for daemon in self.processes.values():
            daemon.stop()

    def _worker(self) -> Daemon:
        folder = self.folder / f"worker-{len(list(self.folder.glob('worker-*')))}"
        folder.mkdir()
        return daemons.worker_daemon(folder, env=self.env)

    def _beat(self) -> Daemon:
        log = self.folder / "beat.log"
        command = [sys.executable, "-m", "celery", "-A", "recovery", "beat", "--scheduler", "celery.beat.Scheduler"]
        return Daemon(command, log=log, env=self.env, ready=lambda: "starting" in log.read_text(errors="replace"))

    def _web(self) -> Daemon:
        self.port = daemons.free_port()
        return web_daemon(self.folder, port=self.port, env=self.env)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, *, bin_dir: str = "") -> None:
        """Tell the product of the cluster; `bin_dir` may hold commands that misbehave."""
        Cluster.objects.create(
            name="lab",
            backend="cli",
            options=self.lab.options | ({"bin_dir": bin_dir} if bin_dir else {}),
            poll_interval_s=1,
            next_look_at=datetime.now(UTC),
        )

    def policy(self, **modes: str) -> None:
        rules = [{"name": f"{name}: {mode}", "classes": [name], "mode": mode} for name, mode in modes.items()]
        # one of four nodes is more than a fleet's breaker lets pass
        breaker = {**DEFAULT_RULES["breaker"], "max_excluded_percent": 60}
        PolicyVersion.objects.create(
            number=PolicyVersion.objects.count() + 1,
            rules={**DEFAULT_RULES, "rules": rules, "breaker": breaker},
            author="admin",
            reason="for this test",
            created_at=datetime.now(UTC),
        )

    # --- the training user --------------------------------------------------------------------------------------------
    def submit(self, *, faults: Sequence[str] = (), **fields: Any) -> str:
        """A job whose whole life the product sees: what had ended before its first look would be old news."""
        if "beat" in self.processes:
            self.wait(lambda: Cluster.objects.exclude(seen_at=None).exists(), what="a first look at the cluster")
        job = TrainingJob(
            name="llama-70b",
            checkpoint_dir=self.folder / "ckpt",
            log=self.folder / "%x-%j.out",
            step_time_s=STEP_S,
            save_every=SAVE_EVERY,
            steps=4000,
            faults=faults,
            python=sys.executable,
            **{"gpus_per_node": 8, **fields},
        )
        return self.lab.submit(job_script(job), work_dir=self.folder)

    # --- what is seen -------------------------------------------------------------------------------------------------
    @property
    def client(self) -> CliClient:
        return CliClient(slurm_conf=str(self.lab.conf))

    def record(self, job_id: str) -> JobRecord:
        return self.client.job(job_id)

    def history(self, job_id: str) -> list[AttemptRecord]:
        """Slurm's own accounting of the job's executions."""
        return self.client.attempts([job_id], since=datetime(2020, 1, 1, tzinfo=UTC)).get(job_id, [])

    @property
    def cluster(self) -> Cluster:
        return Cluster.objects.get()

    @property
    def incident(self) -> Incident:
        return Incident.objects.latest("pk")

    @property
    def recommendation(self) -> Recommendation:
        return self.incident.recommendations.get(superseded_at=None)

    @property
    def attempt(self) -> Attempt:
        return Attempt.objects.latest("pk")

    def has_reached(self, step: int, *, attempt: int = 0) -> bool:
        """Whether that attempt of the newest job was seen to train at `step` or beyond."""
        return Attempt.objects.filter(number=attempt, last_step__gte=step).exists()

    def wait(self, done: Callable[[], bool], *, within: float = 60, what: str = "") -> None:
        if not wait_until(done, timeout_s=within):
            raise AssertionError(f"not seen within {within:g} s: {what}\n{self._account()}")

    def wait_for(self, state: IncidentState, *, within: float = 60) -> Incident:
        def reached() -> bool:
            return Incident.objects.order_by("-pk").values_list("state", flat=True).first() == state

        self.wait(reached, within=within, what=f"an incident that is {state}")
        return self.incident

    def _account(self) -> str:
        """What a person would look at first."""
        cases = Incident.objects.values("state", "failure_class", "headline", "alarm", "error", "outcome_reason")
        attempts = Attempt.objects.exclude(next_look_at=None).values(
            "job__job_id", "number", "state", "state_reason", "nodes", "phase", "last_step", "blind_reason"
        )
        rows = [*cases, *attempts, *Cluster.objects.values("error", "seen_at")]
        actions = [f"{action.state}: {action.detail} {action.calls}" for action in Action.objects.all()]
        actions += [f"{row.action}: {row.mode} {row.mode_reason}" for row in Recommendation.objects.all()]
        return "\n".join([*map(str, rows), *actions, *self.lab.status()])
