"""Nodes: state, reason and since when, those with a trouble first."""

from __future__ import annotations

from collections import Counter

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from dashboard.page import DeskRequest, chosen_cluster, page, respond
from dashboard.reads import fleet as reads
from dashboard.reads.runs import nodes as read_nodes
from recovery.core.types import NodeState
from recovery.selectors import node_events
from recovery.selectors.scope import visible_to

CHANGES = 30  # the newest; the API and the table keep 90 days


@require_GET
@page()
def nodes(request: DeskRequest) -> HttpResponse:
    state, name = request.GET.get("state", ""), request.GET.get("name", "").strip()[:100]
    cluster = chosen_cluster(request)
    rows = read_nodes(cluster, actor=request.actor, name=name)
    counts = Counter(row.node.state for row in rows)
    chosen = state if state in list(NodeState) else ""
    suspects = reads.suspects(cluster, actor=request.actor, now=request.now)
    context = {
        "suspects": suspects,
        "suspected": {row.node for row in suspects},
        "rows": [row for row in rows if not chosen or row.node.state == chosen],
        "state": chosen,
        "name": name,
        "total": len(rows),
        "states": [(value.value, counts[value.value]) for value in NodeState if counts[value.value]],
        "changes": visible_to(
            node_events(cluster_id=cluster.pk if cluster else None, name_contains=name), request.actor
        )[:CHANGES],
        "changes_most": CHANGES,
        "place": "nodes",
    }
    return respond(request, "nodes", ("rows", "suspects", "changes"), context)
