"""The audit trail as people search it, and the state of its chain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from recovery.models import AuditChain, Event


@dataclass(frozen=True, kw_only=True, slots=True)
class EventQuery:
    """What is asked of the trail; whatever is left out does not narrow it."""

    actor: str = ""  # part of a name
    verb: str = ""  # its beginning, such as "policy" or "account.log_in_failed"
    subject: str = ""  # a kind, or kind and id as "cluster 3"
    incident: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str = ""  # part of the reason, of old or new, or a whole request id or origin

    @property
    def asks(self) -> bool:
        return self != EventQuery()


def find_events(query: EventQuery) -> QuerySet[Event]:
    """The newest first."""
    kind, _, subject_id = query.subject.partition(" ")
    found = Q()
    if query.actor:
        found &= Q(actor_name__icontains=query.actor)
    if query.verb:
        found &= Q(verb__startswith=query.verb)
    if kind:
        found &= Q(subject_kind=kind)
    if subject_id:
        found &= Q(subject_id=subject_id)
    if query.incident is not None:
        found &= Q(incident_id=query.incident)
    if query.since is not None:
        found &= Q(at__gte=query.since)
    if query.until is not None:
        found &= Q(at__lt=query.until)
    if text := query.text:
        within = Q(reason__icontains=text) | Q(old__icontains=text) | Q(new__icontains=text)
        found &= within | Q(request_id=text) | Q(origin=text)
    return Event.objects.filter(found).order_by("-id")


def audit_chain() -> AuditChain:
    """How far events are sealed and verified, and the first bad row; empty before the first tick."""
    return AuditChain.objects.filter(name="events").first() or AuditChain()
