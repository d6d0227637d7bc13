"""Runs, their jobs and attempts, and what was read of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from django.db.models import F, OuterRef, QuerySet, Subquery

from recovery.core.lifecycle import IncidentState
from recovery.core.types import TERMINAL_STATES, CheckpointState, JobState
from recovery.models import (
    Attempt,
    Checkpoint,
    Incident,
    Job,
    Run,
    Signal,
)
from recovery.selectors.base import get

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations


SHOWN = 200  # attempts or checkpoints of one run that are read for a page
EXECUTING = (JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED)


class RunFacts(TypedDict):
    """What `runs` adds to each run; None where nothing is known."""

    state: str | None  # of its newest attempt
    phase: str | None
    blind_reason: str | None  # "": it can be observed
    last_step: int | None
    checkpoint_step: int | None  # newest complete checkpoint
    open_incident_id: int | None
    finding: str | None  # of the open incident, where it is on the newest attempt: that one's phase is not the truth


def runs() -> QuerySet[WithAnnotations[Run, RunFacts]]:
    """Every run with where it stands, newest first."""
    newest = Attempt.objects.filter(job__run=OuterRef("pk")).order_by("-submitted_at", "-number")
    complete = Checkpoint.objects.filter(run=OuterRef("pk"), state=CheckpointState.COMPLETE).order_by("-step")
    opened = Incident.objects.filter(run=OuterRef("pk")).exclude(state=IncidentState.CLOSED)
    rows = Run.objects.select_related("cluster", "outlook").order_by("-created_at", "-pk")
    return rows.annotate(
        state=Subquery(newest.values("state")[:1]),
        phase=Subquery(newest.values("phase")[:1]),
        blind_reason=Subquery(newest.values("blind_reason")[:1]),
        last_step=Subquery(newest.values("last_step")[:1]),
        checkpoint_step=Subquery(complete.values("step")[:1]),
        open_incident_id=Subquery(opened.values("pk")[:1]),
        newest_attempt_id=Subquery(newest.values("pk")[:1]),
    ).annotate(finding=Subquery(opened.filter(attempt=OuterRef("newest_attempt_id")).values("kind")[:1]))


def jobs() -> QuerySet[Job]:
    """Every job, newest submission first."""
    return Job.objects.select_related("cluster", "run").order_by("-first_submitted_at", "-pk")


def attempts() -> QuerySet[Attempt]:
    """Every attempt, newest first."""
    return Attempt.objects.select_related("job__run", "job__cluster").order_by("-submitted_at", "-pk")


def running_attempts() -> QuerySet[Attempt]:
    """What is executing now, the longest running first."""
    return attempts().filter(closed_at=None, state__in=EXECUTING).order_by("started_at", "pk")


def jobs_on_node(name: str, *, cluster_id: int, besides: str) -> list[str]:
    """Ids of the jobs that the last picture shows on a node, without the one that is named."""
    rows = running_attempts().filter(job__cluster=cluster_id).exclude(job__job_id=besides)
    return [job_id for job_id, nodes in rows.values_list("job__job_id", "nodes") if name in nodes]


def blind_attempts() -> QuerySet[Attempt]:
    """What can't be observed, each with its reason and remedy. Blind is neither healthy nor hung."""
    return (
        attempts()
        .filter(closed_at=None)
        .exclude(state__in=TERMINAL_STATES)
        .exclude(blind_reason="")
        .order_by("started_at", "pk")
    )


def warned_runs() -> QuerySet[Run]:
    """Runs of which a save is about to fail, or the last complete checkpoint to be removed; the soonest first."""
    rows = Run.objects.select_related("cluster", "outlook").filter(outlook__isnull=False)
    rows = rows.exclude(outlook__space_warning="", outlook__rotation_warning="")
    return rows.order_by(F("outlook__next_at").asc(nulls_last=True), "pk")


def run(*, run_id: int) -> Run:
    """Raises NotFound."""
    return get(Run.objects.select_related("cluster", "outlook"), noun="run", pk=run_id)


def attempt(*, attempt_id: int) -> Attempt:
    """Raises NotFound."""
    return get(attempts(), noun="attempt", pk=attempt_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDetail:
    """`attempts` and `checkpoints` are the newest SHOWN."""

    run: Run
    attempts: tuple[Attempt, ...]  # oldest first, each with its job
    checkpoints: tuple[Checkpoint, ...]  # by step
    restorable: Checkpoint | None  # what a restart would restore: the newest complete one

    @property
    def newest(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None


def run_detail(*, run_id: int) -> RunDetail:
    """A run over all its jobs. Raises NotFound."""
    saved = checkpoints(run_id=run_id)
    newest = attempts().filter(job__run=run_id).order_by("-submitted_at", "-number")[:SHOWN]
    return RunDetail(
        run=run(run_id=run_id),
        attempts=tuple(reversed(newest)),
        checkpoints=tuple(reversed(saved.reverse()[:SHOWN])),
        restorable=saved.filter(state=CheckpointState.COMPLETE).last(),
    )


def job_detail(*, job_pk: int) -> Job:
    """A job with its attempts prefetched, oldest first. Raises NotFound."""
    return get(jobs().prefetch_related("attempts"), noun="job", pk=job_pk)


def attempt_detail(*, attempt_id: int) -> Attempt:
    """An attempt with its log files prefetched. Raises NotFound."""
    return get(attempts().prefetch_related("logs"), noun="attempt", pk=attempt_id)


def checkpoints(*, run_id: int | None = None) -> QuerySet[Checkpoint]:
    """By step; of one run where one is given."""
    rows = Checkpoint.objects.select_related("run", "attempt").order_by("step", "pk")
    return rows if run_id is None else rows.filter(run_id=run_id)


def signals(*, attempt_id: int) -> QuerySet[Signal]:
    return Signal.objects.filter(attempt_id=attempt_id)
