"""Outbreaks, suspects, and what is remembered of one node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, QuerySet

from recovery.models import Incident, Node, NodeEvent, NodeStrike, Outbreak, Suspect
from recovery.selectors.base import NotFound, get
from recovery.selectors.cluster_reads import node_events
from recovery.selectors.incident_reads import incidents

STRIKES, EVENTS, PAST = 100, 60, 20  # of one node, the newest


def outbreaks() -> QuerySet[Outbreak]:
    """Open ones first, then the newest."""
    rows = Outbreak.objects.select_related("cluster")
    return rows.order_by(F("closed_at").desc(nulls_first=True), "-began_at", "-pk")


@dataclass(frozen=True, kw_only=True, slots=True)
class OutbreakDetail:
    outbreak: Outbreak
    incidents: tuple[Incident, ...]  # newest first


def outbreak_detail(*, outbreak_id: int) -> OutbreakDetail:
    """Raises NotFound."""
    outbreak = get(outbreaks(), noun="outbreak", pk=outbreak_id)
    return OutbreakDetail(outbreak=outbreak, incidents=tuple(incidents().filter(outbreak=outbreak)))


def suspects(*, now: datetime) -> QuerySet[Suspect]:
    """Those that are suspects now: what persons put there first, then the worst."""
    rows = Suspect.objects.select_related("cluster").filter(ended_at=None, until__gt=now)
    return rows.order_by("cluster__name", F("score").desc(nulls_first=True), "node")


def strikes() -> QuerySet[NodeStrike]:
    """Newest first, each with its incident and run."""
    return NodeStrike.objects.select_related("cluster", "incident__run").order_by("-at", "-pk")


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeDetail:
    """One node with all that is remembered of it."""

    node: Node
    suspicion: Suspect | None  # the one that holds
    past: tuple[Suspect, ...]  # newest first
    strikes: tuple[NodeStrike, ...]  # newest first
    events: tuple[NodeEvent, ...]  # newest first


def node_detail(*, node_id: int, now: datetime) -> NodeDetail:
    """In five queries. Raises NotFound."""
    node = Node.objects.select_related("cluster").filter(pk=node_id).first()
    if node is None:
        raise NotFound(f"There is no node {node_id}.")
    listed = list(Suspect.objects.filter(cluster=node.cluster_id, node=node.name).order_by("-since")[:PAST])
    held = next((row for row in listed if row.ended_at is None and row.until > now), None)
    of_it = strikes().filter(cluster=node.cluster_id, node=node.name)
    events = node_events(cluster_id=node.cluster_id).filter(node=node.name)
    return NodeDetail(
        node=node,
        suspicion=held,
        past=tuple(row for row in listed if row is not held),
        strikes=tuple(of_it[:STRIKES]),
        events=tuple(events[:EVENTS]),
    )
