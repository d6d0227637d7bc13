"""What was done in a case that is closed can still be undone: in a small case of its own on the same run.

It has no fault and interrupts nothing. It is decided, carried out, audited and vetoed like any other, and ends with its
action, or when nobody wants it.
"""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction

from recovery import audit
from recovery.access import Actor
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import Finding, FindingKind, Outcome
from recovery.models import Incident
from recovery.pipeline.beside import store_finding
from recovery.pipeline.decide import OutOfDate, close
from recovery.pipeline.subject import newest_execution


def case_for_undo(closed: Incident, *, reason: str, actor: Actor, now: datetime) -> Incident:
    """The run's open case, or a new one after `closed`. In a transaction; OutOfDate where one just opened."""
    known = Incident.objects.filter(run=closed.run_id).exclude(state=IncidentState.CLOSED).first()
    if known is not None:
        return known
    attempt = newest_execution(closed)
    try:
        with transaction.atomic():
            incident = Incident.objects.create(
                run=closed.run, attempt=attempt, previous=closed, state=IncidentState.WATCHING,
                kind=FindingKind.UNDOING, headline=f"{closed.run.name}: what was done is to be undone"[:300],
                reason=reason[:500], failed_at=now, detected_at=now, failed_step=attempt.last_step, next_look_at=now,
            )  # fmt: skip
            finding = Finding(kind=FindingKind.UNDOING, since=now, reason=reason, confidence=1.0)
            store_finding(incident, finding, now=now)
            audit.record_incident(
                incident, "incident.detected", actor=actor, at=now, new=IncidentState.WATCHING, reason=reason
            )
    except IntegrityError as error:
        raise OutOfDate("A case on this run opened in this moment; look at it, then propose again.") from error
    return incident


def end_undoing(incident: Incident, *, now: datetime) -> None:
    """Its action has converged, or nobody wants it (any more), or it could not be done."""
    last = incident.actions.order_by("pk").last()
    if last is not None and last.state == ActionState.CONVERGED:
        close(incident, Outcome.UNDONE, why=last.detail, now=now)
        return
    why = last.detail if last is not None else "It was not decided so."
    close(incident, Outcome.GAVE_UP, why=f"What was done stays as it is. {why}", now=now)
