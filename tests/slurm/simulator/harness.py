"""The simulator under the contract suite that every back end keeps (tests/slurm/test_contract.py)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from recovery.slurm.base import SlurmClient
from recovery.slurm.simulator import Fault, FaultKind, JobSpec
from tests.slurm.simulator.virtual import Sim, make_sim

USER = "ada"


class SimulatorHarness:
    """Four nodes; its time is virtual, so `advance` costs nothing."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim

    @property
    def client(self) -> SlurmClient:
        return self._sim.client

    @property
    def user(self) -> str:
        return USER

    def submit(
        self,
        *,
        seconds: float,
        nodes: int = 1,
        exit_code: int = 0,
        requeue: bool = True,
        name: str = "train",
        comment: str = "",
        stdout: str = "",
    ) -> str:
        """A job that takes one long step, and so ends after `seconds` (within 4 %)."""
        faults = (Fault(kind=FaultKind.EXIT, exit_code=exit_code, repeat=True),) if exit_code else ()
        return self._sim.cluster.submit(
            JobSpec(
                name=name,
                user=USER,
                nodes=nodes,
                requeueable=requeue,
                comment=comment,
                stdout=stdout or "slurm-%j.out",
                total_steps=1,
                step_time_s=seconds,
                save_every=0,
                startup_s=0,
                load_s=0,
                warm_up_s=0,
                faults=faults,
            )
        )

    def cancel(self, job_id: str) -> None:
        self._sim.cluster.cancel(job_id, by=USER)

    def fail_node(self, name: str) -> None:
        self._sim.cluster.fail_node(name)

    def advance(self, seconds: float) -> None:
        self._sim.run(seconds)

    def now(self) -> datetime:
        return self._sim.clock.now

    def close(self) -> None:
        """Nothing was started."""


def make_harness(tmp_path: Path) -> SimulatorHarness:
    return SimulatorHarness(make_sim(tmp_path / "simulator", requeue_delay_s=6))
