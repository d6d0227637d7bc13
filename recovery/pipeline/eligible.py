"""The nodes that a job could start on, by what was last read of nodes, partitions and reservations."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta
from typing import Any

from recovery.core.eligible import Eligible, Needs, NodeOffer, PartitionOffer, ReservationOffer, eligible
from recovery.core.types import NodeState
from recovery.models import Cluster, Job, Node, NodeEvent

LAYOUT_HOLDS = timedelta(minutes=5)  # partitions and reservations are read every minute
SILENT = (NodeState.DOWN, NodeState.UNKNOWN)
AT_ONCE, REMEMBERED = timedelta(minutes=2), timedelta(hours=1)
FEWEST = 3  # two silent nodes of four may well be two faults


def eligible_nodes(job: Job, *, now: datetime) -> Eligible:
    """Not known where partitions were not read lately, or where half of the nodes went silent at once."""
    cluster = job.cluster
    if cluster.partitions_at is None or now - cluster.partitions_at > LAYOUT_HOLDS:
        why = cluster.partitions_error or "They were not read lately."
        return Eligible(nodes=None, reason=f"Slurm's partitions and reservations are not known. {why}")
    rows = list(Node.objects.filter(cluster=cluster))
    if silent := _silent_at_once(cluster, rows, now):
        reason = f"{silent} of {len(rows)} nodes went silent at once: that is no fault of single nodes."
        return Eligible(nodes=None, reason=reason)
    offers = [NodeOffer(name=row.name, state=NodeState(row.state), features=tuple(row.features)) for row in rows]
    return eligible(_needs(job), offers, _partitions(cluster), _reservations(cluster), now)


def _silent_at_once(cluster: Cluster, nodes: list[Node], now: datetime) -> int:
    """How many nodes went down together and are down still, where they are half of the cluster or more; else 0."""
    down = {node.name for node in nodes if node.state in SILENT}
    if 2 * len(down) < len(nodes) or len(down) < FEWEST:
        return 0
    events = NodeEvent.objects.filter(cluster=cluster, node__in=down, new__in=SILENT, seen_at__gt=now - REMEMBERED)
    times = sorted(events.exclude(old="").values_list("seen_at", flat=True))
    together = max((bisect_right(times, at + AT_ONCE) - place for place, at in enumerate(times)), default=0)
    return together if together >= FEWEST and 2 * together >= len(nodes) else 0


def _needs(job: Job) -> Needs:
    return Needs(
        partition=job.partition, features=job.features, reservation=job.reservation,
        required_nodes=tuple(job.required_nodes), excluded_nodes=tuple(job.excluded_nodes),
        time_limit_s=job.time_limit_s,
    )  # fmt: skip


def _partitions(cluster: Cluster) -> list[PartitionOffer]:
    return [
        PartitionOffer(name=row["name"], up=row["up"], nodes=tuple(row["nodes"]), default=row["default"])
        for row in cluster.partitions
    ]


def _reservations(cluster: Cluster) -> list[ReservationOffer]:
    return [
        ReservationOffer(
            name=row["name"],
            nodes=tuple(row["nodes"]),
            starts_at=_time(row["starts_at"]),
            ends_at=_time(row["ends_at"]),
        )
        for row in cluster.reservations
    ]


def _time(value: Any) -> datetime:
    return datetime.fromisoformat(value)
