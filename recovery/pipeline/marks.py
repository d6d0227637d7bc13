"""Our key on jobs: left in the admin comment, where Slurm lets us, beside whatever others wrote there.

It takes an administrator's right. Where Slurm refuses, that is remembered for a day and not tried again; the action
goes on without, since what was begun stands in the database.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from recovery.models import Cluster
from recovery.pipeline.calls import Target, marked
from recovery.pipeline.subject import MARK
from recovery.slurm.base import Operation, SlurmClient

TRY_AGAIN = timedelta(days=1)


def mark_for(target: Target, client: SlurmClient, *, now: datetime) -> str:
    """What is to be found in the job's admin comment; "" where it can't or needn't be left."""
    key = target.parameters.get("key", "")
    if not key or not may_mark(target.job.cluster, client, now=now) or not marked(target.comment, key):
        return ""
    return f"{MARK}{key}"


def may_mark(cluster: Cluster, client: SlurmClient, *, now: datetime) -> bool:
    refused = cluster.unmarked_at is not None and now - cluster.unmarked_at < TRY_AGAIN
    return bool(client.can(Operation.SET_ADMIN_COMMENT)) and not refused


def note_refusal(target: Target, reason: str, *, now: datetime) -> None:
    Cluster.objects.filter(pk=target.job.cluster_id).update(unmarked_reason=reason[:300], unmarked_at=now)
