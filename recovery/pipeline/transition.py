"""The only writer of the state of incidents and actions.

Each change is one guarded update (one changed row wins) plus one append-only event in the same transaction.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from recovery import audit
from recovery.access import SYSTEM, Actor
from recovery.core.lifecycle import ACTION_TRANSITIONS, TRANSITIONS, ActionState, IncidentState
from recovery.models import Action, Incident


class LostRace(Exception):
    """Somebody else changed the row first: the caller must look at it anew."""


def advance(
    incident: Incident, new: IncidentState, *, now: datetime, why: str, actor: Actor = SYSTEM, **fields: Any
) -> Incident:
    """Move `incident` from the state that the caller has read to `new`, together with `fields`.

    `why` goes into the event.

    Raises ValueError for an illegal change and LostRace where the row is no longer in the state that was read.
    """
    old = IncidentState(incident.state)
    if new not in TRANSITIONS[old]:
        raise ValueError(f"An incident can't go from {old} to {new}.")
    if new is IncidentState.CLOSED:
        fields |= {"danger_at": None, "danger_step": None, "danger": ""}  # nothing that is over is urgent
    with transaction.atomic():
        won = Incident.objects.filter(pk=incident.pk, state=old).update(state=new, **fields)
        if won != 1:
            raise LostRace(f"Incident {incident.pk} is no longer {old}.")
        audit.record_incident(incident, f"incident.{new}", actor=actor, at=now, old=old, new=new, reason=why)
    incident.refresh_from_db()
    return incident


def advance_action(
    action: Action, new: ActionState, *, now: datetime, why: str, actor: Actor = SYSTEM, **fields: Any
) -> Action:
    """The same for an action."""
    old = ActionState(action.state)
    if new not in ACTION_TRANSITIONS[old]:
        raise ValueError(f"An action can't go from {old} to {new}.")
    with transaction.atomic():
        won = Action.objects.filter(pk=action.pk, state=old).update(state=new, **fields)
        if won != 1:
            raise LostRace(f"Action {action.pk} is no longer {old}.")
        audit.record_action(action, f"action.{new}", actor=actor, at=now, old=old, new=new, reason=why)
    action.refresh_from_db()
    return action
