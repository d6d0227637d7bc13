"""The simulator under the contract suite that every back end keeps (tests/slurm/test_contract.py)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from recovery.slurm.base import SlurmClient
from recovery.slurm.simulator import Fault, FaultKind, JobSpec, Reservation, make_nodes
from recovery.slurm.simulator.placement import partition_name
from recovery.slurm.simulator.scripts import script_of
from tests.slurm.harness import JobTruth, NodeTruth
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
        return self._submit(
            seconds, name=name, nodes=nodes, requeueable=requeue, comment=comment, stdout=stdout, faults=faults
        )

    def _submit(self, seconds: float, **fields: Any) -> str:
        spec = JobSpec(
            **{
                "name": "train",
                "user": USER,
                "comment": "",
                "stdout": "",
                "total_steps": 1,
                "step_time_s": seconds,
                "save_every": 0,
                "startup_s": 0,
                "load_s": 0,
                "warm_up_s": 0,
                **fields,
            }
        )
        return self._sim.cluster.submit(spec)

    def submit_array(self, *, tasks: int, seconds: float) -> list[str]:
        array = self._submit(seconds, array=tuple(range(tasks)))
        self.advance(2)  # before they start, they are one record
        return [f"{array}_{task}" for task in range(tasks)]

    def submit_het(self, *, components: int, seconds: float) -> list[str]:
        """The simulator has no heterogeneous jobs."""
        return []

    def cancel(self, job_id: str) -> None:
        self._sim.cluster.cancel(job_id, by=USER)

    def user_hold(self, job_id: str) -> None:
        with self._sim.cluster.world() as world:
            world.hold(job_id, by_admin=False)

    def admin_hold(self, job_id: str) -> None:
        self._sim.cluster.admin_hold(job_id)

    def admin_release(self, job_id: str) -> None:
        with self._sim.cluster.world() as world:
            world.release(job_id)

    def admin_requeue(self, job_id: str) -> None:
        self._sim.cluster.admin_requeue(job_id)

    def admin_drain(self, name: str, reason: str) -> None:
        self._sim.cluster.drain_node(name, reason=reason)

    def admin_resume(self, name: str) -> None:
        with self._sim.cluster.world() as world:
            world.resume_node(name)

    def reserve(self, name: str, nodes: tuple[str, ...], *, maintenance: bool) -> None:
        now = self.now().timestamp()
        self._sim.cluster.reserve(
            Reservation(
                name=name, nodes=nodes, starts_at=now, ends_at=now + 3600, users=(USER,), maintenance=maintenance
            )
        )

    def job_truth(self, job_id: str) -> JobTruth | None:
        with self._sim.cluster.world() as world:
            job = world.state.jobs.get(job_id)
            if job is None:
                return None
            return JobTruth(
                state=job.state.upper(),
                held=job.held,
                restart_count=job.restart_count,
                time_limit_s=job.time_limit_s,
                name=job.spec.name,
                user=job.spec.user,
                account=job.spec.account,
                partition=partition_name(world, job),
                comment=world.comment(job),
                admin_comment=job.admin_comment,
                work_dir=job.spec.work_dir or str(world.root),
                excluded_nodes=job.excluded,
            )

    def node_truth(self, name: str) -> NodeTruth:
        with self._sim.cluster.world() as world:
            node = world.node(name)
            return NodeTruth(drained=node.drained, down=node.down, reason=node.reason)

    def switch_of(self, name: str) -> str:
        with self._sim.cluster.world() as world:
            return world.node(name).rack

    def script_of(self, job_id: str) -> str:
        with self._sim.cluster.world() as world:
            return script_of(world.job(job_id, tried="script").spec)

    def environment_of(self, job_id: str) -> Mapping[str, str]:
        with self._sim.cluster.world() as world:
            return world.job(job_id, tried="environment").spec.environment

    def fail_node(self, name: str) -> None:
        self._sim.cluster.fail_node(name)

    def advance(self, seconds: float) -> None:
        self._sim.run(seconds)

    def now(self) -> datetime:
        return self._sim.clock.now

    def close(self) -> None:
        """Nothing was started."""


def make_harness(tmp_path: Path) -> SimulatorHarness:
    return SimulatorHarness(make_sim(tmp_path / "simulator", nodes=make_nodes(4, per_rack=2), requeue_delay_s=6))
