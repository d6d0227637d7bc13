"""Other jobs of a case's run, as values: by our picture, or read fresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q

from recovery.core.others import SOMEWHERE, OtherJob, chained, said_of, took_up
from recovery.core.types import ActionKind, FindingKind, JobState
from recovery.models import Action, Attempt, Incident, Job, Recommendation
from recovery.pipeline.job_rows import new_job
from recovery.pipeline.same_run import of_run
from recovery.pipeline.store_runs import run_key
from recovery.pipeline.subject import MARK, subject_of
from recovery.slurm.base import ENDED_ELSEWHERE, JobRecord


def in_picture(incident: Incident, job: Job) -> list[OtherJob]:
    """Those of the run beside `job` that have not ended, by what is stored: two queries at most.

    In a federation also those of the run by the same key on its other clusters.
    """
    rows = Job.objects.filter(of_run(job), vanished_at=None, state__in=SOMEWHERE).exclude(pk=job.pk)
    jobs = list(rows.order_by("first_submitted_at", "pk"))
    if not jobs:
        return []
    beside = _ran_beside(incident)
    now = Attempt.objects.filter(job__in=jobs, number=F("job__restart_count"))
    started = {attempt.job_id: _started_at(attempt) for attempt in now}
    return [
        OtherJob(
            job_id=each.job_id, state=JobState(each.state), state_reason=each.state_reason, held=each.held,
            started_at=started.get(each.pk), ran_beside=each.pk in beside,
        )
        for each in jobs
        if not _is_over(each)
    ]  # fmt: skip


def _started_at(attempt: Attempt) -> datetime | None:
    """Of what another cluster took: by when it was gone from here, as it starts there."""
    return attempt.ended_at if attempt.state == JobState.REVOKED else attempt.started_at


def _is_over(job: Job) -> bool:
    """Of one that another cluster of the federation had: the record of it goes with it."""
    return job.state == JobState.REVOKED and (job.state_reason == ENDED_ELSEWHERE or not job.listed)


def in_records(action: Action, job: Job, records: Iterable[JobRecord]) -> list[OtherJob]:
    """Those of the run beside `job` in a fresh list of all jobs; not the one that this action itself submitted."""
    incident = action.incident
    beside = set(Job.objects.filter(pk__in=_ran_beside(incident)).values_list("job_id", flat=True))
    taken = Attempt.objects.filter(job__cluster=job.cluster_id, job__run=incident.run_id, state=JobState.REVOKED)
    left = {(each.job.job_id, each.number): _started_at(each) for each in taken.select_related("job")}
    return [
        OtherJob(
            job_id=each.job_id, state=each.state, state_reason=each.state_reason, held=each.held,
            started_at=_began(each, left),
            ran_beside=each.job_id in beside,
        )
        for each in records
        if each.state in SOMEWHERE
        and each.state_reason != ENDED_ELSEWHERE
        and each.user == job.user
        and each.job_id != job.job_id
        and f"{MARK}{action.key}" not in each.admin_comment
        and run_key(new_job(job.cluster, each, now=each.submitted_at)) == incident.run.key
    ]  # fmt: skip


def _began(record: JobRecord, left: Mapping[tuple[str, int], datetime | None]) -> datetime | None:
    if record.state is JobState.REVOKED:
        return left.get((record.job_id, record.restart_count))
    return record.started_at if record.state is not JobState.PENDING else None


@dataclass(frozen=True, kw_only=True, slots=True)
class InTheWay:
    """Why a run must not be started anew by an action of ours, as a clause, and because of which job."""

    job_id: str
    why: str

    @property
    def sentence(self) -> str:
        return f"{self.why[:1].upper()}{self.why[1:]}: two must never write to one checkpoint folder."


def in_the_way(kind: ActionKind, job: Job, others: list[OtherJob], incident: Incident) -> InTheWay | None:
    """What speaks against starting the run anew by `kind` on `job`; None where nothing does."""
    if not kind.restarts:
        return None
    if other := took_up(job.job_id, others, failed_at=incident.failed_at):
        return InTheWay(job_id=other.job_id, why=said_of(other))
    if kind is ActionKind.RESUBMIT and (other := chained(job.job_id, others)):
        why = f"job {other.job_id} of this run waits for another one, and may start beside a new job"
        return InTheWay(job_id=other.job_id, why=why)
    return None


def why_anew(incident: Incident, recommendation: Recommendation) -> str:
    """Why what was recommended, and not decided, no longer fits the run's jobs; "" where it does."""
    kind, was = ActionKind(recommendation.action), recommendation.parameters.get("taken_up")
    if hasattr(recommendation, "decision") or not (kind.restarts or was):
        return ""
    job = subject_of(incident, recommendation.parameters).job
    if job.ended_and_forgotten and incident.kind != FindingKind.UNDOING and not _outlives(recommendation):
        if job.origin:
            return f"Slurm no longer lists job {job.job_id} here: another cluster of the federation may have it."
        return f"Slurm no longer lists job {job.job_id}, which has ended: it can only be submitted again."
    others = in_picture(incident, job)
    if was:
        return "" if any(other.job_id == was for other in others) else f"Job {was} of this run is no longer there."
    found = in_the_way(kind, job, others, incident)
    return found.sentence if found is not None else ""


def _outlives(recommendation: Recommendation) -> bool:
    """Whether it can be done without a job that Slurm knows."""
    return "forgotten" in recommendation.parameters or recommendation.action == ActionKind.NOTHING


def _ran_beside(incident: Incident) -> set[int]:
    """Jobs of the run that ran at the same time as the failed execution, before the fault."""
    failed = incident.attempt
    began = failed.started_at or failed.submitted_at
    before = Q(started_at__lt=incident.failed_at) | Q(started_at__lte=began)  # what hangs may do so from its start
    rows = Attempt.objects.filter(before, job__run=incident.run_id)
    overlap = Q(ended_at=None) | Q(ended_at__gt=began)
    return set(rows.filter(overlap).exclude(job=failed.job_id).values_list("job_id", flat=True))
