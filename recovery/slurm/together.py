"""One cluster through two back ends: slurmrestd reads, the commands act and give what slurmrestd can't.

Both must speak of the same cluster, or what was read of one would be done to another: that is looked at with every
health report and before the first write, and where it can't be told nothing is done. Before each change of a job both
must know the same one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from recovery.slurm.base import (
    YES,
    AttemptRecord,
    Can,
    Health,
    JobRecord,
    JobsPicture,
    NodeRecord,
    NotSupported,
    Operation,
    PartitionRecord,
    ReservationRecord,
    Rights,
    SlurmClient,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Half:
    name: str  # "slurmrestd", "the commands": in every error of it
    client: SlurmClient


class TogetherClient(SlurmClient):
    """`reads` is asked first for what is read, `acts` for what is done; the other one does what the first can't."""

    def __init__(self, *, reads: Half, acts: Half) -> None:
        self._reads = reads
        self._acts = acts
        self._same = False  # looked at, and the same

    def can(self, operation: Operation) -> Can:
        first, second = self._order(operation)
        one, other = first.client.can(operation), second.client.can(operation)
        if one or other:
            return YES
        return Can(
            yes=False,
            reason=f"{first.name}: {one.reason} {second.name}: {other.reason}",
            remedy=" ".join(filter(None, (one.remedy, other.remedy))),
        )

    def health(self) -> Health:
        """Latency, release and clock as read; what the acting half knows better (accounting, delays) from there."""
        with _named(self._reads):
            read = self._reads.client.health()
        with _named(self._acts):
            act = self._acts.client.health()
        self._compare(read, act)
        return dataclasses.replace(
            read,
            accounting=read.accounting or act.accounting,
            requeue_delay_s=act.requeue_delay_s,
            min_job_age_s=read.min_job_age_s if act.min_job_age_s is None else act.min_job_age_s,
            store_flags=act.store_flags or read.store_flags,
            cluster_name=read.cluster_name or act.cluster_name,
            federation=read.federation or act.federation,
            siblings=read.siblings or act.siblings,
            unsynced=read.unsynced or act.unsynced,
        )

    def rights(self) -> Rights:
        with _named(self._acts):
            return self._acts.client.rights()

    def jobs(self) -> list[JobRecord]:
        with self._for(Operation.JOBS) as client:
            return client.jobs()

    def jobs_since(self, mark: str) -> JobsPicture:
        with self._for(Operation.JOBS) as client:
            return client.jobs_since(mark)

    def job(self, job_id: str) -> JobRecord:
        with self._for(Operation.JOB) as client:
            return client.job(job_id)

    def attempts(self, job_ids: Sequence[str], *, since: datetime) -> dict[str, list[AttemptRecord]]:
        with self._for(Operation.ATTEMPTS) as client:
            return client.attempts(job_ids, since=since)

    def ended_between(self, start: datetime, end: datetime) -> list[JobRecord]:
        with self._for(Operation.ENDED_BETWEEN) as client:
            return client.ended_between(start, end)

    def nodes(self) -> list[NodeRecord]:
        with self._for(Operation.NODES) as client:
            return client.nodes()

    def partitions(self) -> list[PartitionRecord]:
        with self._for(Operation.PARTITIONS) as client:
            return client.partitions()

    def reservations(self) -> list[ReservationRecord]:
        with self._for(Operation.RESERVATIONS) as client:
            return client.reservations()

    def topology(self) -> dict[str, str]:
        with self._for(Operation.TOPOLOGY) as client:
            return client.topology()

    def batch_script(self, job_id: str) -> str:
        with self._for(Operation.BATCH_SCRIPT) as client:
            return client.batch_script(job_id)

    def requeue(self, job_id: str, *, hold: bool) -> None:
        with self._for(Operation.REQUEUE_HOLD if hold else Operation.REQUEUE, job_id) as client:
            client.requeue(job_id, hold=hold)

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        with self._for(Operation.SET_EXCLUDED_NODES, job_id) as client:
            client.set_excluded_nodes(job_id, nodes)

    def release(self, job_id: str) -> None:
        with self._for(Operation.RELEASE, job_id) as client:
            client.release(job_id)

    def hold(self, job_id: str) -> None:
        with self._for(Operation.HOLD, job_id) as client:
            client.hold(job_id)

    def cancel(self, job_id: str) -> None:
        with self._for(Operation.CANCEL, job_id) as client:
            client.cancel(job_id)

    def set_time_limit(self, job_id: str, seconds: float) -> None:
        with self._for(Operation.SET_TIME_LIMIT, job_id) as client:
            client.set_time_limit(job_id, seconds)

    def set_admin_comment(self, job_id: str, text: str) -> None:
        with self._for(Operation.SET_ADMIN_COMMENT, job_id) as client:
            client.set_admin_comment(job_id, text)

    def drain_node(self, name: str, reason: str) -> None:
        with self._for(Operation.DRAIN_NODE) as client:
            client.drain_node(name, reason)

    def resume_node(self, name: str) -> None:
        with self._for(Operation.RESUME_NODE) as client:
            client.resume_node(name)

    def submit(self, submission: Submission) -> str:
        with self._for(Operation.SUBMIT) as client:
            return client.submit(submission)

    def preview(self, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> str:
        with _named(self._half(operation)):
            return self._half(operation).client.preview(operation, subject, nodes=nodes, value=value)

    # --- which half --------------------------------------------------------------------------------------------------

    def _order(self, operation: Operation) -> tuple[Half, Half]:
        return (self._acts, self._reads) if operation.is_write else (self._reads, self._acts)

    def _half(self, operation: Operation) -> Half:
        first, second = self._order(operation)
        if first.client.can(operation):
            return first
        if second.client.can(operation):
            return second
        able = self.can(operation)
        raise NotSupported(f"{able.reason} {able.remedy}", tried=operation.value, permanent=True)

    @contextmanager
    def _for(self, operation: Operation, changed_job: str = "") -> Iterator[SlurmClient]:
        """The half for it. What it does or gives beside the reading half is only used of the same cluster."""
        half = self._half(operation)
        if half is self._acts:
            self._check_same()
            if changed_job:
                self._check_same_job(changed_job)
        with _named(half):
            yield half.client

    def _check_same(self) -> None:
        if not self._same:
            self.health()

    def _check_same_job(self, job_id: str) -> None:
        """Two clusters may be of one release, with nodes of the same names; the same job they don't have.

        Raises SlurmRefused: nothing was done. So it does where the job is put back between the two looks.
        """
        with _named(self._reads):
            read = self._reads.client.job(job_id)
        with _named(self._acts):
            act = self._acts.client.job(job_id)
        if (read.submitted_at, read.restart_count) != (act.submitted_at, act.restart_count):
            message = f"{self._reads.name} and {self._acts.name} know different jobs {job_id}: nothing was done"
            raise SlurmRefused(message, tried="compare both back ends")

    def _compare(self, read: Health, act: Health) -> None:
        """By release, by name where both tell it, and by the nodes: 22.05's slurmrestd names no cluster."""
        self._same = False
        for what, one, other in (
            ("release", read.release, act.release),
            ("cluster name", read.cluster_name or act.cluster_name, act.cluster_name or read.cluster_name),
            ("set of nodes", self._nodes_of(self._reads), self._nodes_of(self._acts)),
        ):
            if one != other:
                halves = f"{self._reads.name} and {self._acts.name}"
                message = f"{halves} speak of different clusters (the {what} differs): correct this cluster's options"
                raise SlurmUnreachable(message, tried="compare both back ends", permanent=True)
        self._same = True

    def _nodes_of(self, half: Half) -> tuple[str, ...]:
        with _named(half):
            return tuple(sorted(node.name for node in half.client.nodes()))


@contextmanager
def _named(half: Half) -> Iterator[None]:
    """Errors say which half they are of; their kind stays."""
    try:
        yield
    except SlurmError as error:
        raise type(error)(error.message, tried=f"{half.name}: {error.tried}", permanent=error.permanent) from error
