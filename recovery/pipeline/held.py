"""Which nodes our own exclusions and drains keep out of service: what the caps of the breaker count."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Q

from recovery.core.lifecycle import ActionState
from recovery.core.types import ActionKind
from recovery.models import Action, Cluster

COUNTED = timedelta(days=1)


def begun_since(moment: datetime) -> Q:
    """Of actions: those whose first call was made since, or is still to come: what is decided counts already."""
    return Q(called_at__gte=moment) | Q(state=ActionState.INTENDED)


def nodes_held(cluster: Cluster, *, now: datetime) -> set[str]:
    """Those of the last day's actions; a drain that we undid counts no more."""
    held: set[str] = set()
    rows = Action.objects.filter(begun_since(now - COUNTED), incident__run__cluster=cluster).order_by(
        F("called_at").asc(nulls_last=True), "pk"
    )
    for kind, nodes, parameters, state in rows.values_list("kind", "exclude_nodes", "parameters", "state"):
        held.update(nodes)
        if kind == ActionKind.DRAIN:
            held.add(parameters["node"])
        elif kind == ActionKind.RESUME and state != ActionState.INTENDED:
            held.discard(parameters["node"])
    return held
