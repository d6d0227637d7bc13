"""Outbreaks, strikes and suspects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from recovery.models import Cluster, Incident, NodeStrike, Outbreak, Suspect
from tests.factories.base import ago
from tests.factories.incidents import make_incident
from tests.factories.jobs import make_cluster

SHARED = {
    "kind": "switch", "what": "leaf-3", "runs": 3,
    "sentence": "all 3 had nodes on switch leaf-3 that failed with it.",
}  # fmt: skip


def make_outbreak(
    *, cluster: Cluster | None = None, incidents: Sequence[Incident] = (), **fields: Any
) -> Outbreak:  # fmt: skip
    """Of `incidents`, which join it."""
    defaults = {
        "headline": "3 runs failed within 20 s: all 3 had nodes on switch leaf-3 that failed with it.",
        "shared": [SHARED], "runs": 3, "began_at": ago(480), "last_failed_at": ago(460), "opened_at": ago(450),
        "restart_from": ago(450),
    }  # fmt: skip
    held_in = cluster or (incidents[0].run.cluster if incidents else make_cluster())
    outbreak = Outbreak.objects.create(cluster=held_in, **{**defaults, **fields})
    Incident.objects.filter(pk__in=[incident.pk for incident in incidents]).update(outbreak=outbreak)
    return outbreak


def make_strike(*, incident: Incident | None = None, node: str = "gpu-02", **fields: Any) -> NodeStrike:
    incident = incident or make_incident()
    defaults = {
        "at": incident.failed_at, "failure_class": "gpu_hardware", "proven": True, "told_by": "kernel",
        "reason": "A GPU fell off the bus (gpu-02).",
    }  # fmt: skip
    return NodeStrike.objects.create(
        incident=incident, node=node, cluster=incident.run.cluster, **{**defaults, **fields}
    )


def make_suspect(*, cluster: Cluster | None = None, node: str = "gpu-02", **fields: Any) -> Suspect:
    defaults = {
        "since": ago(3600), "until": ago(0) + timedelta(days=10), "score": 2.5,
        "reason": "3 failures of 3 runs began on it (gpu hardware); 2 runs went on elsewhere.",
    }  # fmt: skip
    return Suspect.objects.create(cluster=cluster or make_cluster(), node=node, **{**defaults, **fields})
