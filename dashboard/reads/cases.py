"""Incidents with what was proposed, decided and done: for lists, the queue and the incident page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from dashboard.reads.checks import CheckRow, checks_of
from dashboard.reads.evidence import EvidenceLine, lines_of
from dashboard.timeline import Case, Stage, build
from recovery import selectors
from recovery.access import Actor
from recovery.core.lifecycle import OPEN_STATES, PERSON_STATES, ActionState, IncidentState
from recovery.core.types import PUT_BACK, ActionKind, Exclude
from recovery.models import Action, Checkpoint, Cluster, Event, Finding, Incident, Recommendation, SecondOpinion
from recovery.pipeline.subject import subject_of
from recovery.selectors import current_recommendation, decision_on
from recovery.selectors.incident_reads import awake
from recovery.selectors.scope import visible_to

FILTERS = {
    "person": "Needs a person",
    "open": "Open",
    "closed": "Closed",
    "all": "All",
}
HISTORY = 8
EVENTS = 200
NODE_MEMORY = timedelta(days=30)
NEED_THE_JOB = PUT_BACK - {ActionKind.RESUBMIT}


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One incident of a list."""

    case: Case
    stages: tuple[Stage, ...]

    @property
    def incident(self) -> Incident:
        return self.case.incident

    @property
    def danger_is_now(self) -> bool:
        return is_now(self.incident)


def is_now(incident: Incident) -> bool:
    """Whether what threatens the good checkpoint may happen at any moment: when can't be told, or the time has come."""
    return incident.danger_at is not None and incident.danger_at <= timezone.now()


def incidents(cluster: Cluster | None, *, actor: Actor, show: str = "all") -> QuerySet[Incident]:
    found = visible_to(selectors.incidents(), actor).prefetch_related("actions")
    if cluster is not None:
        found = found.filter(run__cluster=cluster)
    match show:
        case "person":
            return awake(found.filter(state__in=PERSON_STATES), now=timezone.now())
        case "open":
            return found.filter(state__in=OPEN_STATES)
        case "closed":
            return found.exclude(state__in=OPEN_STATES)
        case _:
            return found


def case_of(incident: Incident) -> Case:
    """From a row that `incidents` has read: asks nothing more."""
    recommendation = current_recommendation(incident)
    return Case(
        incident=incident,
        recommendation=recommendation,
        decision=decision_on(recommendation) if recommendation else None,
        action=_action(incident.actions.all(), recommendation),
        refused=_refused(incident.actions.all(), recommendation),
    )


def _action(actions: Iterable[Action], recommendation: Recommendation | None) -> Action | None:
    """The one of the recommendation that holds; else the last that was tried."""
    tried = list(actions)
    of_this = [row for row in tried if recommendation is not None and row.recommendation_id == recommendation.pk]
    return next(iter(of_this), None) or (tried[-1] if tried and recommendation is None else None)


def _refused(actions: Iterable[Action], recommendation: Recommendation | None) -> Action | None:
    """The last one tried, where nothing came of it and another recommendation holds since."""
    last = next(reversed(list(actions)), None)
    if last is None or recommendation is None or last.recommendation_id == recommendation.pk:
        return None
    return last if last.state in (ActionState.REFUSED, ActionState.FAILED) else None


def rows(found: Iterable[Incident]) -> list[Row]:
    cases = [case_of(incident) for incident in found]
    return [Row(case=case, stages=build(case)) for case in cases]


def needing_person(cluster: Cluster | None, *, actor: Actor) -> list[Row]:
    """What a person must look at now; what was snoozed is not among it."""
    return _dearest_first(rows(incidents(cluster, actor=actor, show="person")))


def _dearest_first(found: Iterable[Row]) -> list[Row]:
    """A checkpoint in danger, then the most expensive wait, then the longest."""
    return sorted(found, key=lambda row: (*_urgency(row.incident), -row.case.idle, row.incident.detected_at))


def _urgency(incident: Incident) -> tuple[bool, float]:
    """The soonest danger first, then all without one."""
    danger = incident.danger_at
    return danger is None, danger.timestamp() if danger else 0.0


def in_danger(found: Iterable[Row]) -> list[Row]:
    """Those whose good checkpoint is about to be destroyed, the soonest first."""
    urgent = (row for row in found if row.incident.danger_at is not None)
    return sorted(urgent, key=lambda row: _urgency(row.incident))


def being_followed(cluster: Cluster | None, *, actor: Actor) -> list[Row]:
    """Open cases that need nobody now, those that were snoozed too, the newest first."""
    later = Q(snoozed_until__gt=timezone.now())
    return rows(incidents(cluster, actor=actor, show="open").filter(~Q(state__in=PERSON_STATES) | later))


def to_decide(cluster: Cluster | None, *, actor: Actor) -> list[Row]:
    """The approvals queue with what was snoozed in it, the most expensive wait first."""
    asked = incidents(cluster, actor=actor).filter(state=IncidentState.AWAITING_DECISION)
    return _dearest_first(rows(asked))


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentPage:
    """All that the incident page and its parts show."""

    case: Case
    stages: tuple[Stage, ...]
    findings: tuple[Finding, ...]
    checkpoint: Checkpoint | None  # the one that would be restored, as it is now
    superseded: tuple[Recommendation, ...]
    events: tuple[Event, ...]  # newest first
    earlier: tuple[Row, ...]  # other incidents of the run, newest first
    opinion: SecondOpinion | None  # of an external diagnostic service
    provider: selectors.ProviderStatus
    on_nodes: tuple[Incident, ...]  # incidents of other runs that named the same nodes
    forgotten_at: datetime | None  # when about Slurm drops the job that is to be put back
    on_the_node: tuple[str, ...]  # jobs of others on the node that is to be drained: until they end it isn't

    @property
    def incident(self) -> Incident:
        return self.case.incident

    @property
    def danger_is_now(self) -> bool:
        return is_now(self.incident)

    @property
    def checks(self) -> list[CheckRow]:
        return checks_of(self.incident)

    @property
    def evidence(self) -> tuple[EvidenceLine, ...]:
        return lines_of(self.incident)

    @property
    def coverage(self) -> dict[str, str]:
        """Kind of fact → what was looked for, and found or not."""
        return dict(self.incident.diagnosis.get("coverage") or {})

    @property
    def checkpoint_changed(self) -> bool:
        """The checkpoint that the recommendation counts on can't be restored any more."""
        return self.checkpoint is not None and self.checkpoint.state != "complete"


def incident_page(pk: int, *, actor: Actor, now: datetime) -> IncidentPage:
    """Everything about one incident, in a fixed number of queries. Raises selectors.NotFound."""
    detail = selectors.incident_detail(incident_id=pk)
    incident = detail.incident
    case = case_of(incident)
    return IncidentPage(
        case=case,
        stages=build(case),
        findings=detail.findings,
        checkpoint=_checkpoint(case),
        superseded=detail.superseded,
        events=tuple(reversed(detail.events[-EVENTS:])),
        earlier=tuple(rows(incidents(None, actor=actor).filter(run_id=incident.run_id).exclude(pk=pk)[:HISTORY])),
        opinion=detail.second_opinion,
        provider=selectors.provider_status(now=now),
        on_nodes=_on_nodes(incident, actor=actor, now=now),
        forgotten_at=_forgotten_at(case),
        on_the_node=_on_the_node(case),
    )


def _checkpoint(case: Case) -> Checkpoint | None:
    if case.recommendation is None or case.recommendation.restore_step is None:
        return None
    found = selectors.checkpoints(run_id=case.incident.run_id).filter(step=case.recommendation.restore_step)
    return found.order_by("-checked_at").first()


def _forgotten_at(case: Case) -> datetime | None:
    """Where what is proposed needs a job that Slurm knows, and is not begun."""
    proposed, action = case.recommendation, case.action
    if proposed is None or ActionKind(proposed.action) not in NEED_THE_JOB or (action and action.calls):
        return None
    return subject_of(case.incident, proposed.parameters).forgotten_at


def _on_the_node(case: Case) -> tuple[str, ...]:
    """By the last picture, and where nothing is decided yet."""
    proposed = case.recommendation
    if proposed is None or proposed.action != ActionKind.DRAIN or case.action is not None:
        return ()
    job, node = subject_of(case.incident, proposed.parameters).job, proposed.parameters["node"]
    return tuple(selectors.jobs_on_node(node, cluster_id=case.incident.run.cluster_id, besides=job.job_id))


def _on_nodes(incident: Incident, *, actor: Actor, now: datetime) -> tuple[Incident, ...]:
    """Nodes are kept in JSON, which SQLite can't search: the last weeks' few exclusions are compared here."""
    nodes = set(_named(incident))
    recent = Incident.objects.filter(
        run__cluster_id=incident.run.cluster_id, exclude=Exclude.NODES, detected_at__gte=now - NODE_MEMORY
    ).exclude(run_id=incident.run_id)
    found = visible_to(recent, actor).only("headline", "detected_at", "diagnosis", "state")[:200]
    return tuple(other for other in found if nodes & set(_named(other)))[:HISTORY]


def _named(incident: Incident) -> Sequence[str]:
    return incident.diagnosis.get("nodes") or ()
