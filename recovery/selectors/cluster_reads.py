"""Clusters, their nodes, and whether the product keeps up with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Count, QuerySet

from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState, NodeState
from recovery.models import (
    Attempt,
    Cluster,
    Incident,
    Job,
    Node,
    NodeEvent,
)
from recovery.selectors.base import get
from recovery.selectors.run_reads import EXECUTING, blind_attempts


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterPicture:
    """One cluster as we see it, and how old that picture is."""

    cluster: Cluster
    age_s: float | None  # None: it was never seen
    stale: bool  # nothing acts on a stale picture
    running_jobs: int
    pending_jobs: int
    blind_attempts: int
    nodes: dict[NodeState, int]  # every state, also those without a node


def clusters() -> QuerySet[Cluster]:
    return Cluster.objects.order_by("name")


def cluster_pictures(*, now: datetime) -> list[ClusterPicture]:
    """Every enabled cluster, by name."""
    return pictures_of(clusters().filter(enabled=True), now=now)


def cluster_picture(*, cluster_id: int, now: datetime) -> ClusterPicture:
    """One cluster, also a disabled one. Raises NotFound."""
    return pictures_of([get(clusters(), noun="cluster", pk=cluster_id)], now=now)[0]


def pictures_of(rows: Iterable[Cluster], *, now: datetime) -> list[ClusterPicture]:
    """The pictures of these clusters, in three queries more."""
    found = list(rows)
    ids = [cluster.pk for cluster in found]
    jobs = _counts(Job.objects.filter(cluster__in=ids).values_list("cluster", "state").annotate(Count("pk")))
    nodes = _counts(Node.objects.filter(cluster__in=ids).values_list("cluster", "state").annotate(Count("pk")))
    blind = dict(
        blind_attempts().filter(job__cluster__in=ids).order_by().values_list("job__cluster").annotate(Count("pk"))
    )
    return [
        ClusterPicture(
            cluster=cluster,
            age_s=None if cluster.seen_at is None else (now - cluster.seen_at).total_seconds(),
            stale=cluster.is_stale(now),
            running_jobs=sum(jobs.get((cluster.pk, state), 0) for state in EXECUTING),
            pending_jobs=jobs.get((cluster.pk, JobState.PENDING), 0),
            blind_attempts=blind.get(cluster.pk, 0),
            nodes={state: nodes.get((cluster.pk, state), 0) for state in NodeState},
        )
        for cluster in found
    ]


def _counts(rows: Iterable[tuple[int, str, int]]) -> dict[tuple[int, str], int]:
    return {(cluster, state): count for cluster, state, count in rows}


def waiting_since(*, now: datetime) -> datetime | None:
    """Since when the most overdue cluster, attempt or incident waits for a worker; None where nothing is overdue."""
    overdue = (
        Cluster.due(now).filter(enabled=True),
        Attempt.due(now),
        Incident.due(now).exclude(state=IncidentState.CLOSED),
    )
    first = [rows.values_list("next_look_at", flat=True).first() for rows in overdue]
    return min((moment for moment in first if moment is not None), default=None)


def overdue_s(*, now: datetime) -> float:
    """For how long the most overdue work waits for a worker, in seconds."""
    since = waiting_since(now=now)
    return (now - since).total_seconds() if since else 0.0


def overdue_limit_s() -> float:
    """From here on work counts as forgotten, not as late: a killed worker's lease may have to run out first."""
    return max(3 * settings.TICK_S, settings.LEASE_S)


def nodes(*, cluster_id: int | None = None) -> QuerySet[Node]:
    rows = Node.objects.select_related("cluster")
    return rows if cluster_id is None else rows.filter(cluster_id=cluster_id)


def node_events(*, cluster_id: int | None = None, name_contains: str = "") -> QuerySet[NodeEvent]:
    """What happened to the nodes of a cluster (or of all), newest first."""
    rows = NodeEvent.objects.select_related("cluster")
    rows = rows if cluster_id is None else rows.filter(cluster_id=cluster_id)
    return rows.filter(node__icontains=name_contains) if name_contains else rows
