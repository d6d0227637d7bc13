"""Writing of events. Call it inside the transaction that makes the change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from recovery.access import Actor
from recovery.core.notices import KIND_OF_EVENT, SEVERITY
from recovery.models import Event, Incident, Notice
from recovery.models.incident import Action
from recovery.origin import current


def record(
    verb: str,
    *,
    actor: Actor,
    at: datetime,
    subject_kind: str,
    subject_id: object,
    incident_id: int | None = None,
    old: str = "",
    new: str = "",
    reason: str = "",
    **data: Any,
) -> Event:
    """Append one event. Refuses outside a transaction: an event without its change, or the reverse, would be a lie."""
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError(f"{verb} was to be recorded outside a transaction.")
    cluster = int(str(subject_id)) if subject_kind == "cluster" else None
    _tell(verb, at=at, incident_id=incident_id, cluster_id=cluster, reason=reason, channels=data.get("to", ()))
    return Event.objects.create(
        at=at,
        actor_kind=actor.kind,
        actor_name=actor.name,
        request_id=current().request_id,
        origin=current().place,
        subject_kind=subject_kind,
        subject_id=str(subject_id),
        incident_id=incident_id,
        verb=verb,
        old=old,
        new=new,
        reason=reason[:500],
        data=data,
    )


def _tell(
    verb: str, *, at: datetime, incident_id: int | None, cluster_id: int | None, reason: str, channels: Sequence[str]
) -> None:
    """Write a notice with a change that people may have to be told of: it is lost with it, or kept with it."""
    kind = KIND_OF_EVENT.get(verb)
    if kind is not None:
        Notice.objects.create(
            at=at, kind=kind, severity=SEVERITY[kind], incident_id=incident_id, cluster_id=cluster_id,
            subject=reason[:300], channels=list(channels),
        )  # fmt: skip


def record_all(
    verb: str, subjects: Sequence[tuple[object, str]], *, actor: Actor, at: datetime, subject_kind: str
) -> None:
    """Append one event for each (subject id, reason), in one query. Refuses outside a transaction, as `record` does."""
    if not subjects:
        return
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError(f"{verb} was to be recorded outside a transaction.")
    Event.objects.bulk_create(
        Event(
            at=at, actor_kind=actor.kind, actor_name=actor.name, request_id=current().request_id,
            origin=current().place, subject_kind=subject_kind, subject_id=str(subject_id), verb=verb,
            reason=reason[:500],
        )
        for subject_id, reason in subjects
    )  # fmt: skip


def record_incident(
    incident: Incident,
    verb: str,
    *,
    actor: Actor,
    at: datetime,
    old: str = "",
    new: str = "",
    reason: str = "",
    **data: Any,
) -> Event:
    return record(
        verb,
        actor=actor,
        at=at,
        subject_kind="incident",
        subject_id=incident.pk,
        incident_id=incident.pk,
        old=old,
        new=new,
        reason=reason,
        **data,
    )


def record_action(
    action: Action,
    verb: str,
    *,
    actor: Actor,
    at: datetime,
    old: str = "",
    new: str = "",
    reason: str = "",
    **data: Any,
) -> Event:
    return record(
        verb,
        actor=actor,
        at=at,
        subject_kind="action",
        subject_id=action.pk,
        incident_id=action.incident_id,
        old=old,
        new=new,
        reason=reason,
        **data,
    )
