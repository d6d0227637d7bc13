"""A scripted controller: every answer and every failure is the test's own, every write is written down."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import (
    HELD_BY_REQUEUE,
    YES,
    AttemptRecord,
    Can,
    Health,
    JobNotFound,
    JobRecord,
    JobsPicture,
    NodeRecord,
    NotSupported,
    Operation,
    PartitionRecord,
    ReservationRecord,
    Rights,
    RightsLevel,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)


class FakeSlurm:
    """Keeps the SlurmClient protocol. `calls` lists the writes that took effect, in order; `asked` every read.

    `denied` are operations that it has not; `marks` makes jobs_since tell where nothing has changed.
    """

    def __init__(self, clock: Callable[[], datetime], *, nodes: int = 4) -> None:
        self.clock = clock
        self.table: dict[str, JobRecord] = {}
        self.history: list[AttemptRecord] = []
        self.forgotten: list[JobRecord] = []  # what accounting alone knows
        self.node_table = {
            f"n{i}": NodeRecord(name=f"n{i}", state=NodeState.UP, partitions=("main",), raw_state="IDLE")
            for i in range(1, nodes + 1)
        }
        self.partition_table = [PartitionRecord(name="main", up=True, nodes=tuple(self.node_table), default=True)]
        self.reservation_table: list[ReservationRecord] = []
        self.switch_table: dict[str, str] = {}
        self.scripts: dict[str, str] = {}
        self.calls: list[str] = []
        self.asked: list[str] = []
        self.denied: set[Operation] = set()
        self.marks = False
        self.accounting = False
        self.silent: SlurmError | None = None  # raised by every read
        self.before_write: Callable[[str], None] | None = None  # may raise: the call was not carried out
        self.after_write: Callable[[str], None] | None = None  # may raise: carried out, but the answer is lost

    def can(self, operation: Operation) -> Can:
        if operation in self.denied:
            return Can(yes=False, reason=f"This controller has no {operation}.", remedy="Use another back end.")
        return YES

    # reads
    def health(self) -> Health:
        self._speak("health")
        return Health(
            release="22.05.8", accounting=self.accounting, requeue_delay_s=6, latency_s=0.01, min_job_age_s=300
        )

    def rights(self) -> Rights:
        self._speak("rights")
        return Rights(user="slurm", level=RightsLevel.FULL, how="It is scripted so.")

    def jobs(self) -> list[JobRecord]:
        self._speak("jobs")
        return list(self.table.values())

    def jobs_since(self, mark: str) -> JobsPicture:
        self._speak(f"jobs_since {mark}".rstrip())
        now = repr(sorted(self.table.items())) if self.marks else ""
        current = hashlib.sha256(now.encode()).hexdigest() if now else ""
        return JobsPicture(jobs=None if mark and mark == current else list(self.table.values()), mark=current)

    def job(self, job_id: str) -> JobRecord:
        self._speak(f"job {job_id}")
        if job_id not in self.table:
            raise JobNotFound("Invalid job id specified", tried=f"job {job_id}", permanent=True)
        return self.table[job_id]

    def attempts(self, job_ids: Sequence[str], *, since: datetime) -> dict[str, list[AttemptRecord]]:
        self._speak(f"attempts {' '.join(job_ids)}")
        if not self.accounting:
            raise SlurmRefused("no accounting", tried="attempts", permanent=True)
        found = {job_id: [record for record in self.history if record.job_id == job_id] for job_id in job_ids}
        return {job_id: records for job_id, records in found.items() if records}

    def ended_between(self, start: datetime, end: datetime) -> list[JobRecord]:
        self._speak("ended_between")
        if not self.accounting:
            raise SlurmRefused("no accounting", tried="ended_between", permanent=True)
        told = [*self.table.values(), *self.forgotten]
        return [record for record in told if record.ended_at is not None and start <= record.ended_at <= end]

    def nodes(self) -> list[NodeRecord]:
        self._speak("nodes")
        return list(self.node_table.values())

    def partitions(self) -> list[PartitionRecord]:
        self._speak("partitions")
        return list(self.partition_table)

    def reservations(self) -> list[ReservationRecord]:
        self._speak("reservations")
        return list(self.reservation_table)

    def topology(self) -> dict[str, str]:
        self._speak("topology")
        return dict(self.switch_table)

    def batch_script(self, job_id: str) -> str:
        self.job(job_id)
        if job_id not in self.scripts:
            raise SlurmRefused("The script is not kept", tried="batch_script", permanent=True)
        return self.scripts[job_id]

    def preview(self, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> str:
        if operation in self.denied:
            raise NotSupported(f"This controller has no {operation}.", tried=operation, permanent=True)
        return " ".join(("fake", operation, subject, *nodes))

    # writes
    def requeue(self, job_id: str, *, hold: bool) -> None:
        self._write("requeue_hold" if hold else "requeue", job_id, lambda: self._requeue(job_id, hold))

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        self._write("set_excluded_nodes", job_id, lambda: self.change(job_id, excluded_nodes=nodes))

    def release(self, job_id: str) -> None:
        self._write("release", job_id, lambda: self.change(job_id, held=False, state_reason="BeginTime"))

    def hold(self, job_id: str) -> None:
        self._write("hold", job_id, lambda: self.change(job_id, held=True, state_reason="JobHeldAdmin"))

    def cancel(self, job_id: str) -> None:
        self._write("cancel", job_id, lambda: self.end(job_id, JobState.CANCELLED, 0, ""))

    def set_time_limit(self, job_id: str, seconds: float) -> None:
        self._write("set_time_limit", job_id, lambda: self.change(job_id, time_limit_s=seconds))

    def set_admin_comment(self, job_id: str, text: str) -> None:
        self._write("set_admin_comment", job_id, lambda: self.change(job_id, admin_comment=text))

    def drain_node(self, name: str, reason: str) -> None:
        drained = {"state": NodeState.DRAINED, "raw_state": "IDLE+DRAIN", "reason": reason}
        self._write("drain_node", name, lambda: self.change_node(name, **drained))

    def resume_node(self, name: str) -> None:
        resumed = {"state": NodeState.UP, "raw_state": "IDLE", "reason": ""}
        self._write("resume_node", name, lambda: self.change_node(name, **resumed))

    def submit(self, submission: Submission) -> str:
        job_id = str(len(self.table) + 1)
        self._write("submit", job_id, lambda: self._accept(job_id, submission))
        return job_id

    # the test's own hand
    def enter(self, job_id: str = "1", **fields: object) -> JobRecord:
        """A job that its user has just submitted."""
        base = JobRecord(
            job_id=job_id, name="llama", user="ada", state=JobState.PENDING, submitted_at=self.clock(),
            partition="main", node_count=2,
        )  # fmt: skip
        self.table[job_id] = replace(base, **fields)  # type: ignore[arg-type]
        return self.table[job_id]

    def change(self, job_id: str, **fields: object) -> None:
        self.table[job_id] = replace(self.table[job_id], **fields)  # type: ignore[arg-type]

    def start(self, job_id: str = "1", nodes: tuple[str, ...] = ("n1", "n2")) -> None:
        self.change(job_id, state=JobState.RUNNING, state_reason="", started_at=self.clock(), ended_at=None,
                    nodes=nodes, exit_code=None)  # fmt: skip

    def end(
        self, job_id: str = "1", state: JobState = JobState.FAILED, exit_code: int = 1, reason: str = "NonZeroExitCode"
    ) -> None:
        self.change(job_id, state=state, state_reason=reason, ended_at=self.clock(), exit_code=exit_code, exit_signal=0)

    def change_node(self, name: str, **fields: object) -> None:
        self.node_table[name] = replace(self.node_table[name], **fields)  # type: ignore[arg-type]

    def lose_node(self, name: str) -> None:
        self.change_node(name, state=NodeState.DOWN, raw_state="DOWN", reason="Not responding", reason_at=self.clock())

    def _accept(self, job_id: str, submission: Submission) -> None:
        self.scripts[job_id] = submission.script
        self.enter(
            job_id, name=submission.name or "sbatch", user=submission.user, comment=submission.comment,
            excluded_nodes=submission.excluded_nodes, time_limit_s=submission.time_limit_s, held=submission.hold,
            state_reason="JobHeldUser" if submission.hold else "", admin_comment=submission.admin_comment,
        )  # fmt: skip

    def _requeue(self, job_id: str, hold: bool) -> None:
        job = self.job(job_id)
        if job.state is JobState.PENDING:
            raise SlurmRefused("Job is pending execution", tried="requeue", permanent=True)
        self.change(
            job_id, state=JobState.PENDING, state_reason=HELD_BY_REQUEUE if hold else "BeginTime", held=hold,
            restart_count=job.restart_count + 1, submitted_at=self.clock() + timedelta(seconds=1), nodes=(),
            started_at=None, ended_at=None, exit_code=None,
        )  # fmt: skip

    def _speak(self, question: str) -> None:
        self.asked.append(question)
        if self.silent is not None:
            raise self.silent

    def _write(self, operation: str, job_id: str, effect: Callable[[], None]) -> None:
        if operation in self.denied:
            raise NotSupported(f"This controller has no {operation}.", tried=operation, permanent=True)
        if self.before_write is not None:
            self.before_write(operation)
        effect()
        self.calls.append(operation)
        if self.after_write is not None:
            self.after_write(operation)


def no_answer() -> SlurmUnreachable:
    return SlurmUnreachable("timed out after 10 s", tried="scontrol")
