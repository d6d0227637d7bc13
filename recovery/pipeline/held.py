"""Which nodes our own exclusions and drains keep out of service: what the caps of the breaker count."""

from __future__ import annotations

from datetime import datetime, timedelta

from recovery.core.types import ActionKind
from recovery.models import Action, Cluster

COUNTED = timedelta(days=1)


def nodes_held(cluster: Cluster, *, now: datetime) -> set[str]:
    """Those of the last day's actions; a drain that we undid counts no more."""
    held: set[str] = set()
    rows = Action.objects.filter(incident__run__cluster=cluster, called_at__gte=now - COUNTED).order_by("called_at")
    for kind, nodes, parameters in rows.values_list("kind", "exclude_nodes", "parameters"):
        held.update(nodes)
        if kind == ActionKind.DRAIN:
            held.add(parameters["node"])
        elif kind == ActionKind.RESUME:
            held.discard(parameters["node"])
    return held
