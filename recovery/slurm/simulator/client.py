"""The simulated cluster as a SlurmClient: what the product sees of it, and all that it can do to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from recovery.slurm.base import (
    AttemptRecord,
    Health,
    JobRecord,
    NodeRecord,
    Operation,
    SlurmClient,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
)
from recovery.slurm.simulator.records import attempt_records, job_record, node_record
from recovery.slurm.simulator.state import Trouble, TroubleKind
from recovery.slurm.simulator.store import Store
from recovery.slurm.simulator.world import World

T = TypeVar("T")

_NO_ANSWER = {
    TroubleKind.HALF_ANSWER: "the answer ends in the middle and can't be parsed",
    TroubleKind.LOST_ANSWER: "Socket timed out on send/recv operation",
}


class SimulatorClient(SlurmClient):
    """A client on the world in `state_dir`; every call first lets the world go on to `clock()`.

    Any number of clients, in any number of processes, may use one world. The world is made by
    `recovery.slurm.simulator.cluster.SimulatedCluster`; without one every call raises SlurmUnreachable.
    """

    def __init__(self, state_dir: Path, *, clock: Callable[[], datetime]) -> None:
        self._store = Store(state_dir)
        self._clock = clock

    def health(self) -> Health:
        started = time.perf_counter()
        spec = self._call("health", lambda world: world.spec)
        return Health(
            release=spec.release,
            accounting=spec.accounting,
            requeue_delay_s=spec.requeue_delay_s,
            latency_s=time.perf_counter() - started,
        )

    def jobs(self) -> list[JobRecord]:
        def read(world: World) -> list[JobRecord]:
            if _trouble(world, "jobs", TroubleKind.EMPTY_LIST):
                return []
            return [job_record(world, job) for job in world.state.jobs.values()]

        return self._call("jobs", read)

    def job(self, job_id: str) -> JobRecord:
        return self._call("job", lambda world: job_record(world, world.job(job_id, tried=f"show job {job_id}")))

    def attempts(self, job_ids: Sequence[str], *, since: datetime) -> dict[str, list[AttemptRecord]]:
        tried = f"accounting of job {', '.join(job_ids)[:100]}"

        def read(world: World) -> dict[str, list[AttemptRecord]]:
            if not world.spec.accounting:
                raise SlurmRefused("Slurm accounting storage is disabled", tried=tried, permanent=True)
            if _trouble(world, "attempts", TroubleKind.NO_ACCOUNTING):
                raise SlurmUnreachable("Connection refused by slurmdbd", tried=tried)
            found = {job_id: attempt_records(world, job_id, since=since) for job_id in job_ids}
            return {job_id: attempts for job_id, attempts in found.items() if attempts}

        return self._call("attempts", read)

    def nodes(self) -> list[NodeRecord]:
        return self._call("nodes", lambda world: [node_record(world, node) for node in world.state.nodes.values()])

    def requeue(self, job_id: str, *, hold: bool) -> None:
        self._call("requeue", lambda world: world.requeue(job_id, hold=hold))

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        self._call("set_excluded_nodes", lambda world: world.set_excluded_nodes(job_id, nodes))

    def release(self, job_id: str) -> None:
        self._call("release", lambda world: world.release(job_id))

    def preview(self, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> str:
        """The command that would do the same on a real cluster. Raises KeyError for an unknown operation."""
        commands = {
            "requeue": f"scontrol requeue {subject}",
            "requeue_hold": f"scontrol requeuehold {subject}",
            "set_excluded_nodes": f"scontrol update JobId={subject} ExcNodeList={','.join(nodes)}",
            "release": f"scontrol release {subject}",
        }
        return commands[operation]

    def _call(self, operation: str, act: Callable[[World], T]) -> T:
        """One exchange with the scheduler, with whatever trouble it is in."""
        with self._store.open(lambda: self._clock().timestamp()) as world:
            if _trouble(world, operation, TroubleKind.UNREACHABLE):
                raise SlurmUnreachable("Unable to contact slurm controller (connect failure)", tried=operation)
            unheard = next((text for kind, text in _NO_ANSWER.items() if _trouble(world, operation, kind)), "")
            try:
                answer = act(world)
            except SlurmError as error:
                if unheard:
                    raise SlurmUnreachable(unheard, tried=operation) from error
                raise
        if unheard:
            raise SlurmUnreachable(unheard, tried=operation)
        return answer


def _trouble(world: World, operation: str, kind: TroubleKind) -> Trouble | None:
    """The trouble of that kind, where the operation is in it now."""
    trouble = world.state.trouble
    if trouble is None or trouble.kind is not kind or world.state.now >= trouble.until:
        return None
    return trouble if not trouble.operations or operation in trouble.operations else None
