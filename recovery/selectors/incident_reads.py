"""Incidents with what belongs to them, the audit trail, and the policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Prefetch, QuerySet

from recovery.core.lifecycle import PERSON_STATES
from recovery.models import (
    Action,
    Decision,
    Event,
    Finding,
    Incident,
    PolicyVersion,
    Recommendation,
    SecondOpinion,
)
from recovery.selectors.base import get
from recovery.selectors.provider_reads import second_opinion


def incidents() -> QuerySet[Incident]:
    """Every incident with its run, job, cluster, recommendations and decisions.

    Where a good checkpoint is about to be destroyed, that one first, the soonest before; then the newest first.
    """
    return (
        Incident.objects.select_related("run__cluster", "attempt__job", "new_attempt__job")
        .prefetch_related(
            Prefetch("recommendations", queryset=Recommendation.objects.select_related("decision", "policy"))
        )
        .order_by(F("danger_at").asc(nulls_last=True), "-detected_at", "-pk")
    )


def needs_person() -> QuerySet[Incident]:
    """What a person has to look at now: a checkpoint in danger, then the longest waiting first."""
    found = incidents().filter(state__in=PERSON_STATES)
    return found.order_by(F("danger_at").asc(nulls_last=True), "detected_at", "pk")


def awake(rows: QuerySet[Incident], *, now: datetime) -> QuerySet[Incident]:
    """Without those that somebody has put off until later."""
    return rows.exclude(snoozed_until__gt=now)


def recommendations() -> QuerySet[Recommendation]:
    """Every recommendation with its incident, decision, policy and agreements, newest first."""
    return Recommendation.objects.select_related(
        "incident__run__cluster", "incident__attempt__job", "decision", "policy"
    ).prefetch_related("agreements__actor")


def current_recommendation(incident: Incident) -> Recommendation | None:
    """The one that holds; asks nothing of the database where `incident` came from here."""
    return next((each for each in incident.recommendations.all() if each.superseded_at is None), None)


def decision_on(recommendation: Recommendation) -> Decision | None:
    try:
        return recommendation.decision
    except Decision.DoesNotExist:
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentDetail:
    """One case with all that an incident page shows."""

    incident: Incident
    recommendation: Recommendation | None  # the one that holds
    superseded: tuple[Recommendation, ...]  # newest first
    findings: tuple[Finding, ...]
    actions: tuple[Action, ...]
    events: tuple[Event, ...]  # oldest first
    second_opinion: SecondOpinion | None  # of an external service; the row is there from the first question on

    @property
    def decision(self) -> Decision | None:
        return decision_on(self.recommendation) if self.recommendation else None


def incident_detail(*, incident_id: int) -> IncidentDetail:
    """Raises NotFound."""
    incident = get(
        incidents().prefetch_related("findings", "actions", "recommendations__agreements__actor"),
        noun="incident",
        pk=incident_id,
    )
    return IncidentDetail(
        incident=incident,
        recommendation=current_recommendation(incident),
        superseded=tuple(each for each in incident.recommendations.all() if each.superseded_at is not None),
        findings=tuple(incident.findings.all()),
        actions=tuple(incident.actions.all()),
        events=tuple(events(incident_id=incident_id)),
        second_opinion=second_opinion(incident),
    )


def events(*, incident_id: int | None = None, after_id: int = 0) -> QuerySet[Event]:
    """The audit trail, oldest first; of one incident, its actions and decisions where one is given."""
    rows = Event.objects.filter(pk__gt=after_id)
    return rows if incident_id is None else rows.filter(incident_id=incident_id)


def policies() -> QuerySet[PolicyVersion]:
    """Every version, newest first."""
    return PolicyVersion.objects.all()


def current_policy() -> PolicyVersion | None:
    """The version that holds; None before the first was saved: then the product observes."""
    return policies().first()
