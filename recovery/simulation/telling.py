"""What happened in a scenario: moments of the cluster and of the desk on one time line, and what stands at the end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from recovery.core.types import JobState
from recovery.models import Action, Attempt, Event, Incident, Outbreak, Suspect
from recovery.simulation.scenario import Scenario
from recovery.slurm.base import JobRecord
from recovery.slurm.simulator import SimulatedCluster
from recovery.slurm.simulator.records import job_record
from recovery.slurm.simulator.world import World


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """`who`: "people" and "event" by the script, "cluster", "desk", "operator"."""

    at_s: float
    who: str
    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentResult:
    run: str
    kind: str
    failure_class: str
    state: str
    outcome: str
    action: str
    excluded: tuple[str, ...]
    restore_step: int | None
    restored_step: int | None
    next_checkpoint_step: int | None
    actions: int
    decided: str
    alarm: str
    trouble: str
    danger: str
    by_others: bool
    reason: str
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OutbreakResult:
    headline: str
    runs: int
    incidents: int
    shared: str
    closed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class JobResult:
    """`shown` is what the desk says of its newest attempt, "" where it knows none; `known` whether Slurm still does."""

    name: str
    job_id: str
    state: str
    requeues: int
    nodes: tuple[str, ...]
    known: bool
    shown: str = ""
    blind: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Slurm did not take a job."""

    job: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    title: str
    moments: tuple[Moment, ...]
    incidents: tuple[IncidentResult, ...]
    jobs: tuple[JobResult, ...]
    refusals: tuple[Refusal, ...]
    outbreaks: tuple[OutbreakResult, ...]
    suspects: tuple[str, ...]  # nodes that are on the list at the end
    actions: int
    failures: tuple[str, ...]  # of the desk itself: looks that ended in an error
    virtual_s: float
    wall_s: float = field(compare=False)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Watcher:
    """Tells what becomes of the cluster's jobs from one look to the next."""

    def __init__(self, world: SimulatedCluster, start: datetime) -> None:
        self._world, self._start = world, start
        self._before: dict[str, JobRecord] = {}
        self._faults: dict[str, dict[str, int]] = {}

    def look(self, now: datetime) -> list[Moment]:
        at_s = (now - self._start).total_seconds()
        with self._world.world() as world:
            after = {job.job_id: job_record(world, job) for job in world.state.jobs.values()}
            faults = {job.job_id: dict(job.fired) for job in world.state.jobs.values()}
            words = [*self._struck(world, faults), *self._changed(after)]
        self._before, self._faults = after, faults
        return [Moment(at_s=at_s, who="cluster", what=what) for what in words]

    def _struck(self, world: World, faults: dict[str, dict[str, int]]) -> list[str]:
        words = []
        for job_id, fired in faults.items():
            spec = world.state.jobs[job_id].spec
            for number, attempt in fired.items():
                if self._faults.get(job_id, {}).get(number) != attempt:
                    fault = spec.faults[int(number)]
                    words.append(f"{fault.kind} strikes {spec.name} (job {job_id}) in step {fault.step}")
        return words

    def _changed(self, after: dict[str, JobRecord]) -> list[str]:
        words = []
        arrays = {job_id.partition("_")[0] for job_id in after if "_" in job_id}  # whose last waiting task has started
        for job_id, job in after.items():
            before = self._before.get(job_id)
            if before is None or _told(before) != _told(job):
                words.append(_describe(job))
        return words + [
            f"the controller forgets {job.name} (job {job_id})"
            for job_id, job in self._before.items()
            if job_id not in after and job_id not in arrays
        ]


def _told(job: JobRecord) -> tuple[object, ...]:
    state = job.state if job.state is not JobState.COMPLETING else JobState.RUNNING
    return state, job.restart_count, job.held, job.excluded_nodes, job.submitted_at if not job.restart_count else 0


def _describe(job: JobRecord) -> str:
    words = f"{job.name} (job {job.job_id}, attempt {job.restart_count}) is {job.state}"
    if job.state is JobState.RUNNING:
        words += f" on {', '.join(job.nodes)}"
    if job.state_reason:
        words += f": {job.state_reason}"
    return words + (f"; without {', '.join(job.excluded_nodes)}" if job.excluded_nodes else "")


# --- the desk ---------------------------------------------------------------------------------------------------------
def of_the_desk(first_event: int, start: datetime) -> list[Moment]:
    """Its events since the scenario began."""
    runs = {incident.pk: incident.run.name for incident in Incident.objects.select_related("run")}
    found = []
    for event in Event.objects.order_by("id")[first_event:]:
        run = runs.get(event.incident_id or 0, "")
        what = f"{event.verb}{f' of {run}' if run else ''}{f': {event.reason}' if event.reason else ''}"
        who = "desk" if event.actor_kind == "system" else "operator"
        found.append(Moment(at_s=(event.at - start).total_seconds(), who=who, what=what))
    return found


def result_of(
    scenario: Scenario, world: SimulatedCluster, *, moments: list[Moment], refusals: list[Refusal], wall_s: float
) -> Story:
    """All that stands at the end."""
    incidents = Incident.objects.select_related("run").order_by("detected_at", "pk")
    looks = Event.objects.filter(verb__endswith=".look_failed").values_list("reason", flat=True)
    return Story(
        title=scenario.title,
        moments=tuple(moments),
        incidents=tuple(_incident(incident) for incident in incidents),
        jobs=tuple(_jobs(world)),
        refusals=tuple(refusals),
        outbreaks=tuple(_outbreak(row) for row in Outbreak.objects.order_by("began_at", "pk")),
        suspects=tuple(Suspect.objects.filter(ended_at=None).order_by("node").values_list("node", flat=True)),
        actions=Action.objects.exclude(called_at=None).count(),
        failures=tuple(looks),
        virtual_s=scenario.for_s,
        wall_s=round(wall_s, 2),
    )


def _incident(incident: Incident) -> IncidentResult:
    question = incident.recommendations.order_by("created_at", "pk").last()
    decided = [r.decision.kind for r in incident.recommendations.order_by("pk") if hasattr(r, "decision")]
    return IncidentResult(
        run=incident.run.name,
        kind=incident.kind,
        failure_class=incident.failure_class,
        state=incident.state,
        outcome=incident.outcome,
        action=question.action if question else "",
        excluded=tuple(question.exclude_nodes) if question else (),
        restore_step=question.restore_step if question else None,
        restored_step=incident.restored_step,
        next_checkpoint_step=incident.next_checkpoint_step,
        actions=incident.actions.exclude(called_at=None).count(),
        decided=decided[-1] if decided else "",
        alarm=incident.alarm,
        trouble=incident.trouble,
        danger=incident.danger,
        by_others=incident.resolved_by_others,
        reason=incident.reason,
        error=incident.error,
    )


def _outbreak(row: Outbreak) -> OutbreakResult:
    return OutbreakResult(
        headline=row.headline, runs=row.runs, incidents=row.incidents.count(),
        shared=row.shared[0]["kind"] if row.shared else "", closed=row.closed_at is not None,
    )  # fmt: skip


def _jobs(world: SimulatedCluster) -> list[JobResult]:
    """Every job that there ever was, oldest first."""
    found: list[JobResult] = []
    with world.world() as state:
        for job_id, records in state.state.forgotten.items():
            found += [
                _job(job_id, r.name, r.attempts[-1].state, len(r.attempts) - 1, r.attempts[-1].nodes, known=False)
                for r in records
            ]
        for job in sorted(state.state.jobs.values(), key=lambda job: job.number):
            found.append(_job(job.job_id, job.spec.name, job.state, job.restart_count, job.nodes, known=True))
    return found


def _job(job_id: str, name: str, state: JobState, requeues: int, nodes: tuple[str, ...], *, known: bool) -> JobResult:
    attempts = Attempt.objects.filter(job__job_id=job_id, job__name=name)
    newest = attempts.order_by("job__first_submitted_at", "number").last()
    return JobResult(
        name=name,
        job_id=job_id,
        state=state,
        requeues=requeues,
        nodes=nodes,
        known=known,
        shown=newest.state if newest else "",
        blind=bool(newest and newest.blind_reason),
    )
