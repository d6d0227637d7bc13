"""The simulated cluster as a SlurmClient: what the product sees of it, and all that it can do to it."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from recovery.slurm.base import (
    YES,
    AttemptRecord,
    Can,
    Health,
    JobRecord,
    JobsPicture,
    NodeRecord,
    Operation,
    PartitionRecord,
    ReservationRecord,
    Rights,
    RightsLevel,
    SlurmClient,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)
from recovery.slurm.names import check_job_id, check_node_name, check_node_names
from recovery.slurm.simulator import records
from recovery.slurm.simulator.scripts import script_of, spec_of
from recovery.slurm.simulator.state import Trouble, TroubleKind
from recovery.slurm.simulator.store import Store, WorldStore
from recovery.slurm.simulator.world import World
from recovery.slurm.states import check_not_drained
from recovery.slurm.submissions import check_submission

T = TypeVar("T")
WRITES = frozenset(operation.value for operation in Operation if operation.is_write)

COMPLETED = "Job/step already completing or completed"
US = "root"  # as whom the product acts here: Slurm refuses root nothing

_NO_ANSWER = {
    TroubleKind.HALF_ANSWER: "the answer ends in the middle and can't be parsed",
    TroubleKind.LOST_ANSWER: "Socket timed out on send/recv operation",
}


class SimulatorClient(SlurmClient):
    """A client on the world in `state_dir`; every call first lets the world go on to `clock()`.

    Any number of clients, in any number of processes, may use one world. The world is made by
    `recovery.slurm.simulator.cluster.SimulatedCluster`; without one every call raises SlurmUnreachable. `store` is
    given where the world is kept elsewhere than in the folder's file.
    """

    def __init__(self, state_dir: Path, *, clock: Callable[[], datetime], store: WorldStore | None = None) -> None:
        self._store = store or Store(state_dir)
        self._clock = clock

    def can(self, operation: Operation) -> Can:
        return YES

    # --- reads -------------------------------------------------------------------------------------------------------
    def health(self) -> Health:
        started = time.perf_counter()
        now, spec = self._call("health", lambda world: (world.state.now, world.spec))
        return Health(
            release=spec.release,
            accounting=spec.accounting,
            requeue_delay_s=spec.requeue_delay_s,
            latency_s=time.perf_counter() - started,
            min_job_age_s=spec.min_job_age_s,
            store_flags=("job_comment", "job_script") if spec.accounting else (),
            controller_time=records.moment(now),
        )

    def rights(self) -> Rights:
        self._call("rights", lambda world: None)
        return Rights(user=US, level=RightsLevel.FULL, how="the simulated cluster refuses its client nothing")

    def jobs(self) -> list[JobRecord]:
        return self._call("jobs", _job_records)

    def jobs_since(self, mark: str) -> JobsPicture:
        def read(world: World) -> JobsPicture:
            if _trouble(world, "jobs", TroubleKind.EMPTY_LIST):
                return JobsPicture(jobs=[])
            new = str(world.state.changes)
            return JobsPicture(jobs=None if mark == new else _job_records(world), mark=new)

        return self._call("jobs", read)

    def job(self, job_id: str) -> JobRecord:
        tried = f"show job {job_id}"
        return self._call("job", lambda world: records.job_record(world, world.job(job_id, tried=tried)))

    def attempts(self, job_ids: Sequence[str], *, since: datetime) -> dict[str, list[AttemptRecord]]:
        tried = f"accounting of job {', '.join(job_ids)[:100]}"

        def read(world: World) -> dict[str, list[AttemptRecord]]:
            _check_accounting(world, "attempts", tried=tried)
            found = {job_id: records.attempt_records(world, job_id, since=since) for job_id in job_ids}
            return {job_id: attempts for job_id, attempts in found.items() if attempts}

        for job_id in job_ids:
            check_job_id(job_id)
        return self._call("attempts", read)

    def ended_between(self, start: datetime, end: datetime) -> list[JobRecord]:
        def read(world: World) -> list[JobRecord]:
            _check_accounting(world, "ended_between", tried="accounting of all jobs")
            return records.ended_records(world, start=start, end=end)

        return self._call("ended_between", read)

    def nodes(self) -> list[NodeRecord]:
        return self._call("nodes", records.node_records)

    def partitions(self) -> list[PartitionRecord]:
        return self._call("partitions", records.partition_records)

    def reservations(self) -> list[ReservationRecord]:
        return self._call("reservations", records.reservation_records)

    def topology(self) -> dict[str, str]:
        return {node.name: node.switch for node in self._call("topology", records.node_records) if node.switch}

    def batch_script(self, job_id: str) -> str:
        tried = f"scontrol write batch_script {job_id}"
        return self._call("batch_script", lambda world: script_of(world.job(job_id, tried=tried).spec))

    # --- writes ------------------------------------------------------------------------------------------------------
    def requeue(self, job_id: str, *, hold: bool) -> None:
        self._call("requeue", lambda world: world.requeue(job_id, hold=hold))

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        check_node_names(nodes, tried=f"exclude nodes of job {job_id}")
        self._call("set_excluded_nodes", lambda world: world.set_excluded_nodes(job_id, nodes))

    def release(self, job_id: str) -> None:
        self._call("release", lambda world: world.release(job_id))

    def hold(self, job_id: str) -> None:
        self._call("hold", lambda world: world.hold(job_id, by_admin=True))

    def cancel(self, job_id: str) -> None:
        check_job_id(job_id)
        if not self._call("cancel", lambda world: world.cancel(job_id, by=US)):
            raise SlurmRefused(COMPLETED, tried=f"scancel {job_id}", permanent=True)

    def set_time_limit(self, job_id: str, seconds: float) -> None:
        if not 0 < seconds < math.inf:
            tried = f"scontrol update JobId={job_id} TimeLimit=…"
            raise SlurmRefused("Requested time limit is invalid (missing or exceeds some limit)", tried=tried)
        self._call("set_time_limit", lambda world: world.set_time_limit(job_id, seconds))

    def set_admin_comment(self, job_id: str, text: str) -> None:
        self._call("set_admin_comment", lambda world: world.set_admin_comment(job_id, text))

    def drain_node(self, name: str, reason: str) -> None:
        tried = f"drain node {name}"
        check_node_name(name, tried=tried)
        if not reason.strip():
            raise SlurmRefused("You must specify a reason when DOWNING a node", tried=tried, permanent=True)
        check_not_drained(self.nodes(), name)
        self._call("drain_node", lambda world: world.drain_node(name, reason=reason, by=US))

    def resume_node(self, name: str) -> None:
        check_node_name(name, tried=f"resume node {name}")
        self._call("resume_node", lambda world: world.resume_node(name))

    def submit(self, submission: Submission) -> str:
        check_submission(submission, tried="sbatch")
        spec = spec_of(submission)
        return self._call("submit", lambda world: world.submit(spec).job_id)

    def preview(self, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> str:
        """The command that would do the same on a real cluster. Raises ValueError for a read."""
        update = ["scontrol", "update"]
        minutes = _minutes(value) if operation is Operation.SET_TIME_LIMIT else ""
        commands: dict[Operation, list[str]] = {
            Operation.REQUEUE: ["scontrol", "requeue", subject],
            Operation.REQUEUE_HOLD: ["scontrol", "requeuehold", subject],
            Operation.SET_EXCLUDED_NODES: [*update, f"JobId={subject}", f"ExcNodeList={','.join(nodes)}"],
            Operation.RELEASE: ["scontrol", "release", subject],
            Operation.HOLD: ["scontrol", "hold", subject],
            Operation.CANCEL: ["scancel", subject],
            Operation.SET_TIME_LIMIT: [*update, f"JobId={subject}", f"TimeLimit={minutes}"],
            Operation.SET_ADMIN_COMMENT: [*update, f"JobId={subject}", f"AdminComment={value}"],
            Operation.DRAIN_NODE: [*update, f"NodeName={subject}", "State=DRAIN", f"Reason={value}"],
            Operation.RESUME_NODE: [*update, f"NodeName={subject}", "State=RESUME"],
            Operation.SUBMIT: ["sbatch", "--parsable", subject],
        }
        if operation not in commands:
            raise ValueError(f"{operation} changes nothing: there is no command to be shown")
        return shlex.join(commands[operation])

    def _call(self, operation: str, act: Callable[[World], T]) -> T:
        """One exchange with the scheduler, with whatever trouble it is in."""
        with self._store.open(lambda: self._clock().timestamp(), reads=operation not in WRITES) as world:
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


def _job_records(world: World) -> list[JobRecord]:
    if _trouble(world, "jobs", TroubleKind.EMPTY_LIST):
        return []
    return [records.job_record(world, job) for job in world.state.jobs.values()]


def _check_accounting(world: World, operation: str, *, tried: str) -> None:
    if not world.spec.accounting:
        raise SlurmRefused("Slurm accounting storage is disabled", tried=tried, permanent=True)
    if _trouble(world, operation, TroubleKind.NO_ACCOUNTING):
        raise SlurmUnreachable("Connection refused by slurmdbd", tried=tried)


def _minutes(seconds: str) -> str:
    return str(math.ceil(float(seconds) / 60)) if seconds else ""


def _trouble(world: World, operation: str, kind: TroubleKind) -> Trouble | None:
    """The trouble of that kind, where the operation is in it now."""
    trouble = world.state.trouble
    if trouble is None or trouble.kind is not kind or world.state.now >= trouble.until:
        return None
    return trouble if not trouble.operations or operation in trouble.operations else None
