"""Nodes: state, reason and since when, those with a trouble first."""

from __future__ import annotations

from collections import Counter

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from dashboard.page import DeskRequest, chosen_cluster, page, respond
from dashboard.reads.runs import nodes as read_nodes
from recovery.core.types import NodeState


@require_GET
@page()
def nodes(request: DeskRequest) -> HttpResponse:
    state, name = request.GET.get("state", ""), request.GET.get("name", "").strip()[:100]
    rows = read_nodes(chosen_cluster(request), name=name)
    counts = Counter(row.node.state for row in rows)
    chosen = state if state in list(NodeState) else ""
    context = {
        "rows": [row for row in rows if not chosen or row.node.state == chosen],
        "state": chosen,
        "name": name,
        "total": len(rows),
        "states": [(value.value, counts[value.value]) for value in NodeState if counts[value.value]],
        "place": "nodes",
    }
    return respond(request, "nodes", ("rows",), context)
