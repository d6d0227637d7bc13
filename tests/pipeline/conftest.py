"""A desk for one cluster: a scripted controller, a clock that the test moves, a trainer that the test writes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from recovery.access import Actor, actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.models import Attempt, Cluster, Incident, PolicyVersion, Recommendation
from recovery.models.access import Role
from recovery.pipeline import notices, reconcile
from tests.factories import make_user
from tests.pipeline.asking import Ask, write_policy
from tests.pipeline.cases import SCRIPT, Case
from tests.pipeline.fake_slurm import FakeSlurm
from tests.pipeline.noticing import Post

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ECC = "[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered"


class Desk:
    """What a test of the path needs in one hand."""

    def __init__(self, folder: Path) -> None:
        self.now = START
        self.folder = folder
        self.log = folder / "job.out"
        self.checkpoints = folder / "ckpt"
        self.slurm = FakeSlurm(lambda: self.now)
        self.cluster = Cluster.objects.create(
            name="lab", backend="cli", poll_interval_s=2, next_look_at=self.now - timedelta(seconds=1)
        )

    # time
    def tick(self, *, seconds: float = 2, times: int = 1) -> None:
        for _ in range(times):
            self.now += timedelta(seconds=seconds)
            reconcile.tick(client_for=lambda cluster: self.slurm, clock=lambda: self.now)

    def tick_until(self, done: Callable[[], bool], *, within: int = 60) -> None:
        for _ in range(within):
            if done():
                return
            self.tick()
        raise AssertionError(f"not seen within {within} ticks; the incident is {self.incident.__dict__}")

    # the job
    def submit(self, job_id: str = "1", **fields: Any) -> None:
        comment = f'{{"recovery": {{"run": "llama-70b", "checkpoint_dir": "{self.checkpoints}"}}}}'
        self.slurm.enter(job_id, **{"comment": comment, "stdout": str(self.log), **fields})

    def start(self, job_id: str = "1", nodes: tuple[str, ...] = ("n1", "n2")) -> None:
        """Slurm's default open mode truncates the log; the trainer says where its ranks are."""
        self.slurm.start(job_id, nodes)
        ranks = [f"[rank{i}]: host {node} pid {100 + i}" for i, node in enumerate(nodes)]
        self.log.write_text("".join(line + "\n" for line in ranks))

    def say(self, *lines: str) -> None:
        with self.log.open("a") as file:
            file.writelines(line + "\n" for line in lines)

    def step(self, step: int, *, ms: float = 1000.0) -> None:
        self.say(
            f" [{self.now:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/   20000 | consumed samples: {step * 8:12d} | "
            f"elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): 400.0 | "
            "learning rate: 1.000000E-04 | global batch size:     8 | lm loss: 2.500000E+00 | loss scale: 1.0 | "
            "grad norm: 0.400 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )

    def train(self, first: int, last: int, *, every: int = 1) -> None:
        """A step each two seconds of the cluster's time; the desk looks at every so many of them, and at the last."""
        for step in range(first, last + 1):
            self.step(step)
            if step == last or (step - first + 1) % every == 0:
                self.tick()
            else:
                self.now += timedelta(seconds=2)

    def save(self, step: int) -> None:
        """A complete checkpoint in the Megatron layout, announced and finished in the log."""
        self.say(f"saving checkpoint at iteration {step:7d} to {self.checkpoints} in torch format")
        folder = self.checkpoints / f"iter_{step:07d}"
        for rank in range(2):
            shard = folder / f"mp_rank_{rank:02d}"
            shard.mkdir(parents=True, exist_ok=True)
            (shard / "model_optim_rng.pt").write_bytes(b"weights" * 100)
        (self.checkpoints / "latest_checkpointed_iteration.txt").write_text(str(step))
        self.say(f"  successfully saved checkpoint from iteration {step:7d} to {self.checkpoints} [ t 1/1, p 1/1 ]")

    def load(self, step: int) -> None:
        self.say(f"  successfully loaded checkpoint from {self.checkpoints} [ t 1/1, p 1/1 ] at iteration {step}")

    def start_from_scratch(self) -> None:
        self.say(
            f"WARNING: could not find the metadata file {self.checkpoints}/latest_checkpointed_iteration.txt",
            "    will not load any checkpoints and will start from random",
        )

    def run_with_checkpoint(self) -> None:
        """A job on n1 and n2 at step 12 whose checkpoint 10 is complete."""
        self.submit()
        self.tick()
        self.start()
        self.tick()
        self.train(1, 10, every=5)
        self.save(10)
        self.tick(times=3)
        self.train(11, 12)

    def crash_with_ecc(self) -> None:
        self.say(ECC)
        self.slurm.end()
        self.tick(times=2)

    # what is stored
    @property
    def incident(self) -> Incident:
        return Incident.objects.latest("pk")

    @property
    def recommendation(self) -> Recommendation:
        return self.incident.recommendations.get(superseded_at=None)

    @property
    def attempt(self) -> Attempt:
        return Attempt.objects.order_by("job__first_submitted_at", "number").last()  # type: ignore[return-value]


@pytest.fixture
def desk(db: None, tmp_path: Path, settings: Settings) -> Desk:
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    settings.SETTLE_S = 4
    settings.TICK_S = 2
    settings.HANG_FLOOR_S = 30
    return Desk(tmp_path)


@pytest.fixture
def policy(desk: Desk) -> Callable[..., PolicyVersion]:
    """Add a policy version: `policy(gpu_hardware="approve", node_fault="auto")`."""

    def add(**modes: str) -> PolicyVersion:
        number = PolicyVersion.objects.count() + 1
        rules = [{"name": f"{name} {mode}", "classes": [name], "mode": mode} for name, mode in modes.items()]
        # one of four nodes is more than a fleet's breaker lets pass
        document = {
            **DEFAULT_RULES,
            "rules": rules,
            "breaker": {**DEFAULT_RULES["breaker"], "max_excluded_percent": 60},
        }
        return PolicyVersion.objects.create(
            number=number, rules=document, author="admin", reason="test", created_at=desk.now
        )

    return add


@pytest.fixture
def case(desk: Desk, policy: Callable[..., PolicyVersion], operator: Any, approver: Any) -> Case:
    """A crash with a complete checkpoint, which waits for a decision; its script is kept."""
    policy(gpu_hardware="approve", not_a_failure="approve")
    desk.slurm.scripts["1"] = SCRIPT
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    return Case(desk, operator, approver)


@pytest.fixture
def hanging(desk: Desk, policy: Callable[..., PolicyVersion], operator: Any, approver: Any, settings: Settings) -> Case:
    """A job that runs, with a limit, and stands still."""
    settings.HANG_FLOOR_S, settings.HANG_FIRST_STEP_S = 20, 20
    policy(hang_silent="approve", unknown="approve")
    desk.slurm.scripts["1"] = SCRIPT
    desk.submit(time_limit_s=3600.0)
    desk.tick()
    desk.start()
    desk.tick()
    desk.train(1, 10, every=5)
    desk.save(10)
    desk.tick(times=3)
    desk.train(11, 14)
    desk.tick_until(lambda: Incident.objects.filter(state=IncidentState.AWAITING_DECISION).exists())
    return Case(desk, operator, approver)


@pytest.fixture
def ask(desk: Desk) -> Ask:
    """`ask(approval={…})`: a crash whose recommendation is judged by one rule with these fields."""

    def crash(**rule: Any) -> Desk:
        write_policy(desk, **rule)
        desk.run_with_checkpoint()
        desk.crash_with_ecc()
        return desk

    return crash


@pytest.fixture
def second(db: None) -> Actor:
    return actor_for(make_user(role=Role.APPROVER, username="second"))


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    taken = Post()
    monkeypatch.setitem(notices.SENDERS, "slack", taken)
    return taken
