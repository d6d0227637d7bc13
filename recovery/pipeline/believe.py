"""Part of poll: answers that look whole and may be half. What is doubted is asked again in another way."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from recovery.core.types import JobState
from recovery.models import Cluster, Node
from recovery.pipeline.job_rows import record_key
from recovery.pipeline.unlisted import Listed
from recovery.slurm.base import JobNotFound, JobRecord, NodeRecord, SlurmClient, SlurmUnreachable

ENDED_OR_PUT_BACK = "CancelledOrPutBack"  # the reason of a job of a federation until the next picture tells which
CONFIRMATIONS = 5  # so many jobs are asked for one by one before it is believed that many are gone


def believe_nodes(cluster: Cluster, nodes: Sequence[NodeRecord]) -> None:
    """Raises SlurmUnreachable for an empty list where there were nodes: a cluster without any can't run Slurm."""
    if nodes:
        return
    count = Node.objects.filter(cluster=cluster).count()
    if count:
        raise SlurmUnreachable(f"an empty node list where there were {count} nodes", tried="list of nodes")


def believed_of_federation(
    jobs: Mapping[str, JobRecord], known: Mapping[str, Listed]
) -> tuple[dict[str, JobRecord], bool]:
    """The jobs that are this cluster's, and whether all is sure; else the next picture must be taken whole.

    What only waits here beside the cluster where it was submitted is that one's job, unless it has run here. A job that
    was submitted elsewhere reads CANCELLED for a moment when it is put back (seen on 22.05), so that is only believed
    where two pictures say so.
    """
    found, sure = {}, True
    for job_id, record in jobs.items():
        row = known.get(job_id)
        if record.copy and row is None:
            continue
        found[job_id] = _doubted(record, row) if record.origin and record.state is JobState.CANCELLED else record
        sure = sure and found[job_id] is record
    return found, sure


def _doubted(record: JobRecord, row: Listed | None) -> JobRecord:
    """The record itself where it was said before, or was never seen otherwise."""
    doubted = dataclasses.replace(record, state=JobState.COMPLETING, state_reason=ENDED_OR_PUT_BACK)
    said = row is None or row.state == JobState.CANCELLED or row.key in (record_key(record), record_key(doubted))
    return record if said else doubted


def believe_jobs(listed: Collection[str], known: Mapping[str, Listed], *, client: SlurmClient) -> None:
    """Raises SlurmUnreachable where the list lacks jobs that the controller still knows when asked for them by id.

    That is asked where the list is empty, or lacks more than half of the running jobs at once: ended jobs stay in it
    for a while (MinJobAge), so that many ends are seldom missed together.
    """
    missing = [row for job_id, row in known.items() if job_id not in listed and row.is_open]
    if not missing:
        return
    running = sum(row.is_running for row in known.values())
    lost = sum(row.is_running for row in missing)
    if listed and 2 * lost <= running:
        return
    doubtful = sorted(missing, key=lambda row: not row.is_running)[:CONFIRMATIONS]
    for row in doubtful:
        try:
            client.job(row.job_id)
        except JobNotFound:
            continue
        what = f"a job list without {lost} of {running} running jobs" if listed else "an empty job list"
        raise SlurmUnreachable(f"{what}, although job {row.job_id} exists", tried="list of jobs")
