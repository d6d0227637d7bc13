"""What people change besides decisions: closing a case, pausing automation, saving a policy."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from recovery import audit
from recovery.access import EVERYTHING, Actor, Permission, Place, require
from recovery.core.lifecycle import IncidentState
from recovery.core.types import Outcome
from recovery.models import Cluster, Incident, PolicyVersion
from recovery.pipeline.decide import close
from recovery.pipeline.earned import review
from recovery.pipeline.invalid import Invalid as Invalid
from recovery.pipeline.node_memory import remember
from recovery.pipeline.policy_versions import add_version


def _needs_reason(reason: str) -> str:
    if not reason.strip():
        raise Invalid(["reason: give one, it stands in the audit trail."])
    return reason.strip()


def close_incident(incident_id: int, *, outcome: Outcome, reason: str, actor: Actor, now: datetime) -> Incident:
    """End a case by hand. Raises Forbidden, Invalid, LostRace or Incident.DoesNotExist."""
    incident = Incident.objects.select_related("attempt__job").get(pk=incident_id)
    require(actor, Permission.OPERATE, incident)
    reason = _needs_reason(reason)
    if outcome is Outcome.RECOVERED:
        raise Invalid(["outcome: recovered is only said when the next checkpoint was seen; choose another one."])
    if incident.closed_at is not None:
        raise Invalid(["The case is closed already."])
    if incident.state == IncidentState.ACTING:
        raise Invalid(["An action is under way: wait for its outcome, then close the case."])
    close(incident, outcome, why=reason, actor=actor, now=now)
    remember(incident, now=now)
    review(incident, now=now)
    return incident


def pause(cluster_id: int, *, reason: str, actor: Actor, now: datetime) -> None:
    """Stop automation on a cluster at once: automatic actions not yet begun go to approval."""
    require(actor, Permission.OPERATE, Place(cluster_id))
    reason = _needs_reason(reason)
    with transaction.atomic():
        changed = Cluster.objects.filter(pk=cluster_id, paused_at=None).update(
            paused_at=now, paused_by=actor.name, paused_reason=reason[:300]
        )
        if changed:
            audit.record(
                "cluster.paused", actor=actor, at=now, subject_kind="cluster", subject_id=cluster_id, reason=reason
            )


def arm(cluster_id: int, *, reason: str, actor: Actor, now: datetime) -> None:
    """Let policies decide again."""
    require(actor, Permission.POLICY_EDIT, Place(cluster_id))
    reason = _needs_reason(reason)
    with transaction.atomic():
        paused = Cluster.objects.filter(pk=cluster_id).exclude(paused_at=None)
        if paused.update(paused_at=None, paused_by="", paused_reason=""):
            audit.record(
                "cluster.armed", actor=actor, at=now, subject_kind="cluster", subject_id=cluster_id, reason=reason
            )


def save_policy(rules: Any, *, reason: str, actor: Actor, now: datetime) -> PolicyVersion:
    """Add a new version, which holds from now on. Raises Forbidden or Invalid."""
    require(actor, Permission.POLICY_EDIT, EVERYTHING)
    reason = _needs_reason(reason)
    return add_version(rules, reason=reason, actor=actor, now=now)
