"""Part of poll: answers that look whole and may be half. What is doubted is asked again in another way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from recovery.models import Cluster, Node
from recovery.pipeline.unlisted import Listed
from recovery.slurm.base import JobNotFound, NodeRecord, SlurmClient, SlurmUnreachable

CONFIRMATIONS = 5  # so many jobs are asked for one by one before it is believed that many are gone


def believe_nodes(cluster: Cluster, nodes: Sequence[NodeRecord]) -> None:
    """Raises SlurmUnreachable for an empty list where there were nodes: a cluster without any can't run Slurm."""
    if nodes:
        return
    count = Node.objects.filter(cluster=cluster).count()
    if count:
        raise SlurmUnreachable(f"an empty node list where there were {count} nodes", tried="list of nodes")


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
