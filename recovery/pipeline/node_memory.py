"""Beside the path: strikes of nodes, from the verdicts on jobs and from how their runs went on.

A strike is written with the verdict, taken back where the verdict changes or the case turns out to be part of an
outbreak, and corrected when it was seen how the run went on. What they come to is decided in suspects.py.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from recovery.core.node_memory import Place, places
from recovery.core.types import Outcome
from recovery.models import Incident, NodeStrike
from recovery.pipeline.fleet import NO_FAILURES, STOPS
from recovery.pipeline.recommend import stored_diagnosis
from recovery.pipeline.suspects import reconsider

WENT_ON = (Outcome.RECOVERED, Outcome.RESTORED_OLDER)


def remember(incident: Incident, *, now: datetime) -> None:
    """Bring the strikes of a case to what its verdict and its end say, and its nodes on or off the list."""
    wanted = {place.node: place for place in _places(incident)}
    stored = {strike.node: strike for strike in NodeStrike.objects.filter(incident=incident)}
    if not wanted and not stored:
        return
    changed = set(stored) - set(wanted)
    with transaction.atomic():
        NodeStrike.objects.filter(incident=incident).exclude(node__in=wanted).delete()
        for node, place in wanted.items():
            row = stored.get(node) or NodeStrike(incident=incident, node=node, cluster_id=incident.run.cluster_id)
            if _fill(row, incident, place):
                row.save()
                changed.add(node)
        reconsider(incident.run.cluster_id, changed, now=now)


def _places(incident: Incident) -> tuple[Place, ...]:
    """Of an outbreak's cases none: what fails for many at once is no node's own."""
    told = incident.kind in STOPS and incident.diagnosis and incident.outcome not in NO_FAILURES
    return places(stored_diagnosis(incident)) if told and incident.outbreak_id is None else ()


def _fill(row: NodeStrike, incident: Incident, place: Place) -> bool:
    """Whether it says something new."""
    elsewhere = None
    if incident.outcome in WENT_ON and incident.new_attempt is not None and incident.new_attempt.nodes:
        elsewhere = place.node not in incident.new_attempt.nodes
    new = (incident.failed_at, incident.failure_class, place.proven, place.told_by.value, incident.reason, elsewhere)
    old = (row.at, row.failure_class, row.proven, row.told_by, row.reason, row.elsewhere) if row.pk else None
    row.at, row.failure_class, row.proven, row.told_by, row.reason, row.elsewhere = new
    return new != old
