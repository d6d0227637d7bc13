"""What people change besides decisions (decide.py) and pauses (pauses.py): closing a case, saving a policy."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from recovery.access import EVERYTHING, Actor, Permission, require
from recovery.core.lifecycle import IncidentState
from recovery.core.types import Outcome
from recovery.models import Incident, PolicyVersion
from recovery.pipeline.decide import close
from recovery.pipeline.earned import review
from recovery.pipeline.invalid import Invalid, needs_reason
from recovery.pipeline.node_memory import remember
from recovery.pipeline.policy_versions import add_version


def close_incident(incident_id: int, *, outcome: Outcome, reason: str, actor: Actor, now: datetime) -> Incident:
    """End a case by hand. Raises Forbidden, Invalid, LostRace or Incident.DoesNotExist."""
    incident = Incident.objects.select_related("attempt__job").get(pk=incident_id)
    require(actor, Permission.OPERATE, incident)
    reason = needs_reason(reason)
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


def save_policy(rules: Any, *, base: int | None = None, reason: str, actor: Actor, now: datetime) -> PolicyVersion:
    """Add a new version, which holds from now on. `base` as `add_version` takes it. Raises Forbidden or Invalid."""
    require(actor, Permission.POLICY_EDIT, EVERYTHING)
    reason = needs_reason(reason)
    return add_version(rules, base=base, reason=reason, actor=actor, now=now)
