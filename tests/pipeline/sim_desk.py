"""The pipeline on a simulated cluster in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.contrib.auth.models import User

from recovery.access import actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.models import Cluster, Incident, PolicyVersion, Recommendation
from recovery.pipeline import decide, reconcile
from recovery.slurm.base import SlurmClient
from recovery.slurm.simulator import (
    ClusterSpec,
    Fault,
    JobSpec,
    PartitionSpec,
    SimulatedCluster,
    SimulatorClient,
    make_nodes,
)

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

# Quick rhythms, so that a scenario takes minutes of virtual time; each is a setting that a site may choose as well.
RHYTHM = {"SETTLE_S": 4.0, "TICK_S": 2.0, "HANG_FLOOR_S": 20.0, "HANG_SAVING_S": 40.0}


def make_policy(*rules: dict[str, object]) -> PolicyVersion:
    # one of six nodes is more than a fleet's breaker lets pass
    breaker = {**DEFAULT_RULES["breaker"], "max_excluded_percent": 60}
    document = {**DEFAULT_RULES, "rules": list(rules), "breaker": breaker}
    return PolicyVersion.objects.create(number=1, rules=document, author="admin", reason="test", created_at=START)


class SimDesk:
    """The pipeline on a simulated cluster of six nodes; the test moves the clock."""

    def __init__(self, folder: Path, *, now: datetime = START, partitions: tuple[PartitionSpec, ...] = ()) -> None:
        self.now = now
        self.world = SimulatedCluster(folder, clock=lambda: self.now)
        self.client: SlurmClient = SimulatorClient(folder, clock=lambda: self.now)
        if not Cluster.objects.exists():
            self.world.create(ClusterSpec(seed=7, nodes=make_nodes(6), partitions=partitions))
            Cluster.objects.create(name="sim", backend="simulator", poll_interval_s=2, next_look_at=self.now)

    def submit(self, *faults: Fault, **fields: object) -> str:
        spec = {"name": "llama-70b", "nodes": 2, "save_every": 20, "total_steps": 400, "faults": faults, **fields}
        return self.world.submit(JobSpec(**spec))  # type: ignore[arg-type]

    def run(self, seconds: float) -> None:
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.now += timedelta(seconds=2)
            self.world.advance()  # jobs go on whether or not anybody looks
            reconcile.tick(client_for=lambda cluster: self.client, clock=lambda: self.now)

    def run_until(self, done: Callable[[], bool], *, within: float = 240) -> None:
        end = self.now + timedelta(seconds=within)
        while not done():
            assert self.now < end, f"not seen within {within:g} s: {Incident.objects.values().first()}"
            self.run(2)

    @property
    def incident(self) -> Incident:
        return Incident.objects.latest("pk")

    @property
    def recommendation(self) -> Recommendation:
        return self.incident.recommendations.get(superseded_at=None)

    def in_state(self, state: IncidentState) -> Callable[[], bool]:
        return lambda: Incident.objects.filter(state=state).exists()

    def approve(self, user: User) -> None:
        row = self.recommendation
        decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(user), now=self.now)
