"""What pages and API read. Keyword-only functions; however many rows they give, the number of queries is the same.

Lists come as querysets, so that a caller filters, counts and pages them; one thing with all that belongs to it comes
as a frozen dataclass. Nothing here writes, and nothing asks who is asking: that is recovery/access.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Count, F, Model, OuterRef, Prefetch, Q, QuerySet, Subquery, Window
from django.db.models.functions import RowNumber

from recovery.core.lifecycle import PERSON_STATES, IncidentState
from recovery.core.types import TERMINAL_STATES, CheckpointState, JobState, NodeState
from recovery.models import (
    Action,
    Attempt,
    Checkpoint,
    Cluster,
    Decision,
    Event,
    Finding,
    Incident,
    Job,
    Node,
    PolicyVersion,
    Recommendation,
    Run,
    Sample,
    Signal,
)

if TYPE_CHECKING:
    from typing import TypeVar

    from django_stubs_ext import WithAnnotations

    M = TypeVar("M", bound=Model)

EXECUTING = (JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED)
MAX_POINTS = 1400  # as many as a wide chart has pixels


class NotFound(Exception):
    """There is no such row; the message names what was looked for."""


def _get(rows: QuerySet[M], *, noun: str, pk: int) -> M:
    try:
        return rows.get(pk=pk)
    except ObjectDoesNotExist as error:
        raise NotFound(f"There is no {noun} {pk}.") from error


# --- clusters --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterPicture:
    """One cluster as we see it, and how old that picture is."""

    cluster: Cluster
    age_s: float | None  # None: it was never seen
    stale: bool  # nothing acts on a stale picture
    running_jobs: int
    pending_jobs: int
    blind_attempts: int
    nodes: dict[NodeState, int]  # every state, also those without a node


def clusters() -> QuerySet[Cluster]:
    return Cluster.objects.order_by("name")


def cluster_pictures(*, now: datetime) -> list[ClusterPicture]:
    """Every enabled cluster, by name."""
    return pictures_of(clusters().filter(enabled=True), now=now)


def cluster_picture(*, cluster_id: int, now: datetime) -> ClusterPicture:
    """One cluster, also a disabled one. Raises NotFound."""
    return pictures_of([_get(clusters(), noun="cluster", pk=cluster_id)], now=now)[0]


def pictures_of(rows: Iterable[Cluster], *, now: datetime) -> list[ClusterPicture]:
    """The pictures of these clusters, in three queries more."""
    found = list(rows)
    ids = [cluster.pk for cluster in found]
    jobs = _counts(Job.objects.filter(cluster__in=ids).values_list("cluster", "state").annotate(Count("pk")))
    nodes = _counts(Node.objects.filter(cluster__in=ids).values_list("cluster", "state").annotate(Count("pk")))
    blind = dict(
        blind_attempts().filter(job__cluster__in=ids).order_by().values_list("job__cluster").annotate(Count("pk"))
    )
    return [
        ClusterPicture(
            cluster=cluster,
            age_s=None if cluster.seen_at is None else (now - cluster.seen_at).total_seconds(),
            stale=cluster.is_stale(now),
            running_jobs=sum(jobs.get((cluster.pk, state), 0) for state in EXECUTING),
            pending_jobs=jobs.get((cluster.pk, JobState.PENDING), 0),
            blind_attempts=blind.get(cluster.pk, 0),
            nodes={state: nodes.get((cluster.pk, state), 0) for state in NodeState},
        )
        for cluster in found
    ]


def _counts(rows: Iterable[tuple[int, str, int]]) -> dict[tuple[int, str], int]:
    return {(cluster, state): count for cluster, state, count in rows}


def waiting_since(*, now: datetime) -> datetime | None:
    """Since when the most overdue cluster, attempt or incident waits for a worker; None where nothing is overdue."""
    overdue = (
        Cluster.due(now).filter(enabled=True),
        Attempt.due(now).filter(closed_at=None),
        Incident.due(now).exclude(state=IncidentState.CLOSED),
    )
    first = [rows.values_list("next_look_at", flat=True).first() for rows in overdue]
    return min((moment for moment in first if moment is not None), default=None)


def nodes(*, cluster_id: int | None = None) -> QuerySet[Node]:
    rows = Node.objects.select_related("cluster")
    return rows if cluster_id is None else rows.filter(cluster_id=cluster_id)


# --- runs, jobs, attempts --------------------------------------------------------------------------------------------


class RunFacts(TypedDict):
    """What `runs` adds to each run; None where nothing is known."""

    state: str | None  # of its newest attempt
    phase: str | None
    last_step: int | None
    checkpoint_step: int | None  # newest complete checkpoint
    open_incident_id: int | None


def runs() -> QuerySet[WithAnnotations[Run, RunFacts]]:
    """Every run with where it stands, newest first."""
    newest = Attempt.objects.filter(job__run=OuterRef("pk")).order_by("-submitted_at", "-number")
    complete = Checkpoint.objects.filter(run=OuterRef("pk"), state=CheckpointState.COMPLETE).order_by("-step")
    opened = Incident.objects.filter(run=OuterRef("pk")).exclude(state=IncidentState.CLOSED)
    return Run.objects.select_related("cluster").annotate(
        state=Subquery(newest.values("state")[:1]),
        phase=Subquery(newest.values("phase")[:1]),
        last_step=Subquery(newest.values("last_step")[:1]),
        checkpoint_step=Subquery(complete.values("step")[:1]),
        open_incident_id=Subquery(opened.values("pk")[:1]),
    )


def jobs() -> QuerySet[Job]:
    return Job.objects.select_related("cluster", "run")


def attempts() -> QuerySet[Attempt]:
    return Attempt.objects.select_related("job__run", "job__cluster")


def running_attempts() -> QuerySet[Attempt]:
    """What is executing now, the longest running first."""
    return attempts().filter(closed_at=None, state__in=EXECUTING).order_by("started_at", "pk")


def blind_attempts() -> QuerySet[Attempt]:
    """What can't be observed, each with its reason and remedy. Blind is neither healthy nor hung."""
    return (
        attempts()
        .filter(closed_at=None)
        .exclude(state__in=TERMINAL_STATES)
        .exclude(blind_reason="")
        .order_by("started_at", "pk")
    )


def run(*, run_id: int) -> Run:
    """Raises NotFound."""
    return _get(Run.objects.select_related("cluster"), noun="run", pk=run_id)


def attempt(*, attempt_id: int) -> Attempt:
    """Raises NotFound."""
    return _get(attempts(), noun="attempt", pk=attempt_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDetail:
    run: Run
    attempts: tuple[Attempt, ...]  # oldest first, each with its job
    checkpoints: tuple[Checkpoint, ...]  # by step
    incidents: tuple[Incident, ...]  # newest first, each with its recommendations

    @property
    def newest(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def open_incident(self) -> Incident | None:
        return next((case for case in self.incidents if case.state != IncidentState.CLOSED), None)

    @property
    def restorable(self) -> Checkpoint | None:
        """The checkpoint that a restart would restore: the newest complete one."""
        complete = [look for look in self.checkpoints if look.state == CheckpointState.COMPLETE]
        return complete[-1] if complete else None


def run_detail(*, run_id: int) -> RunDetail:
    """A run over all its jobs. Raises NotFound."""
    return RunDetail(
        run=run(run_id=run_id),
        attempts=tuple(attempts().filter(job__run=run_id).order_by("submitted_at", "number")),
        checkpoints=tuple(checkpoints(run_id=run_id)),
        incidents=tuple(incidents().filter(run=run_id)),
    )


def job_detail(*, job_pk: int) -> Job:
    """A job with its attempts prefetched, oldest first. Raises NotFound."""
    return _get(jobs().prefetch_related("attempts"), noun="job", pk=job_pk)


def attempt_detail(*, attempt_id: int) -> Attempt:
    """An attempt with its log files prefetched. Raises NotFound."""
    return _get(attempts().prefetch_related("logs"), noun="attempt", pk=attempt_id)


def checkpoints(*, run_id: int | None = None) -> QuerySet[Checkpoint]:
    rows = Checkpoint.objects.select_related("run", "attempt")
    return rows if run_id is None else rows.filter(run_id=run_id)


def signals(*, attempt_id: int) -> QuerySet[Signal]:
    return Signal.objects.filter(attempt_id=attempt_id)


def samples_for(
    *,
    attempt_id: int | None = None,
    run_id: int | None = None,
    max_points: int = MAX_POINTS,
    since: datetime | None = None,
    until: datetime | None = None,
    rank: int | None = None,
) -> list[Sample]:
    """The progress of one attempt, or of a run over all its attempts, as at most `max_points` samples by time.

    Where there are more, every n-th is taken, and the first and the last of each attempt, so that neither a restore
    nor where an attempt stopped is smoothed away. Without a `rank`, each attempt is told by its lowest rank that
    reports: rank -1 (the trainer reports for all together) where there is one.
    """
    if (attempt_id is None) == (run_id is None):
        raise ValueError("Give either attempt_id or run_id.")
    mine = Q(attempt=attempt_id) if run_id is None else Q(attempt__job__run=run_id)
    if rank is None:
        lowest = Sample.objects.filter(attempt=OuterRef("attempt")).order_by("rank").values("rank")[:1]
        mine &= Q(rank=Subquery(lowest))
    else:
        mine &= Q(rank=rank)
    if since:
        mine &= Q(at__gte=since)
    if until:
        mine &= Q(at__lte=until)
    rows = _thinned(Sample.objects.filter(mine), max_points=max_points)
    return list(rows.order_by("at", "step", "attempt"))


def _thinned(rows: QuerySet[Sample], *, max_points: int) -> QuerySet[Sample]:
    size = rows.aggregate(samples=Count("step"), attempts=Count("attempt", distinct=True))
    if size["samples"] <= max_points:
        return rows
    by_time = [F("at").asc(), F("step").asc()]
    room = max_points - 2 * size["attempts"]  # each attempt may round up, and keeps its last
    if room < 1:  # more attempts than points: the run as one row of samples
        return rows.annotate(
            skip=(Window(RowNumber(), order_by=by_time) - 1) % _ceiling(size["samples"], max_points)
        ).filter(skip=0)
    return rows.annotate(
        place=Window(RowNumber(), partition_by=F("attempt"), order_by=by_time),
        places=Window(Count("step"), partition_by=F("attempt")),
        skip=(F("place") - 1) % _ceiling(size["samples"], room),
    ).filter(Q(skip=0) | Q(place=F("places")))


def _ceiling(count: int, parts: int) -> int:
    return -(-count // parts)


# --- incidents -------------------------------------------------------------------------------------------------------


def incidents() -> QuerySet[Incident]:
    """Every incident with its run, job, cluster, recommendations and decisions, newest first."""
    return Incident.objects.select_related("run__cluster", "attempt__job", "new_attempt__job").prefetch_related(
        Prefetch("recommendations", queryset=Recommendation.objects.select_related("decision", "policy"))
    )


def open_incidents() -> QuerySet[Incident]:
    return incidents().exclude(state=IncidentState.CLOSED)


def needs_person() -> QuerySet[Incident]:
    """What a person has to look at now, the longest waiting first."""
    return incidents().filter(state__in=PERSON_STATES).order_by("detected_at", "pk")


def recommendations() -> QuerySet[Recommendation]:
    """Every recommendation with its incident, decision and policy, newest first."""
    return Recommendation.objects.select_related(
        "incident__run__cluster", "incident__attempt__job", "decision", "policy"
    )


def recommendation_detail(*, recommendation_id: int) -> Recommendation:
    """Raises NotFound."""
    return _get(recommendations(), noun="recommendation", pk=recommendation_id)


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

    @property
    def decision(self) -> Decision | None:
        return decision_on(self.recommendation) if self.recommendation else None


def incident_detail(*, incident_id: int) -> IncidentDetail:
    """Raises NotFound."""
    incident = _get(incidents().prefetch_related("findings", "actions"), noun="incident", pk=incident_id)
    return IncidentDetail(
        incident=incident,
        recommendation=current_recommendation(incident),
        superseded=tuple(each for each in incident.recommendations.all() if each.superseded_at is not None),
        findings=tuple(incident.findings.all()),
        actions=tuple(incident.actions.all()),
        events=tuple(events(incident_id=incident_id)),
    )


def events(*, incident_id: int | None = None, after_id: int = 0) -> QuerySet[Event]:
    """The audit trail, oldest first; of one incident, its actions and decisions where one is given."""
    rows = Event.objects.filter(pk__gt=after_id)
    return rows if incident_id is None else rows.filter(incident_id=incident_id)


# --- policies --------------------------------------------------------------------------------------------------------


def policies() -> QuerySet[PolicyVersion]:
    """Every version, newest first."""
    return PolicyVersion.objects.all()


def current_policy() -> PolicyVersion | None:
    """The version that holds; None before the first was saved: then the product observes."""
    return policies().first()
