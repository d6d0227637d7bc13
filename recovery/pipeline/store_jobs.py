"""Part of poll: job records become rows of runs, jobs and attempts; only differences are written."""

from __future__ import annotations

from datetime import datetime

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.comment import CommentOptions, parse_comment
from recovery.core.identity import Fingerprint, Identity, identify
from recovery.core.types import JobState, Phase
from recovery.models import Attempt, Cluster, Job, Run
from recovery.slurm.base import JobRecord

JOB_FIELDS = (
    "name", "user", "account", "partition", "comment", "options", "comment_error", "work_dir", "stdout", "stderr",
    "requeueable", "node_count", "gpus", "time_limit_s", "state", "state_reason", "held", "eligible_at",
    "excluded_nodes", "restart_count", "submitted_at", "vanished_at",
)  # fmt: skip
ATTEMPT_FIELDS = ("state", "state_reason", "started_at", "ended_at", "exit_code", "exit_signal", "nodes")


def store_jobs(cluster: Cluster, records: list[JobRecord], *, now: datetime) -> None:
    """Bring the tables to what `records` say, with a number of queries that does not grow with unchanged jobs."""
    known = _newest_jobs(cluster, [record.job_id for record in records])
    attempts = _newest_attempts(known)
    changed: list[Job] = []
    for record in records:
        job = known.get(record.job_id)
        completing = record.state is JobState.COMPLETING
        verdict = identify(_fingerprint(job) if job else None, _seen(record), completing=completing)
        if verdict is Identity.OLD_NEWS:
            continue
        if verdict is Identity.NEW_JOB or job is None:
            job = _create_job(cluster, record, now=now)
            _create_attempt(job, record, now=now)
            continue
        if verdict is Identity.REQUEUING:
            _note_completing(job, attempts.get(job.pk), now=now)
            continue
        before = _row(job, JOB_FIELDS)
        _fill(job, record)
        if _row(job, JOB_FIELDS) != before:
            job.seen_at = now
            changed.append(job)
        attempt = attempts.get(job.pk)
        if verdict is Identity.NEW_ATTEMPT or attempt is None:
            _end_older_attempts(job, record, now=now)
            _create_attempt(job, record, now=now)
        else:
            _update_attempt(attempt, record, now=now)
    Job.objects.bulk_update(changed, [*JOB_FIELDS, "seen_at"], batch_size=100)
    _mark_vanished(cluster, {record.job_id for record in records}, now=now)


def _newest_jobs(cluster: Cluster, job_ids: list[str]) -> dict[str, Job]:
    newest: dict[str, Job] = {}
    for start in range(0, len(job_ids), 500):
        chunk = Job.objects.filter(cluster=cluster, job_id__in=job_ids[start : start + 500])
        for job in chunk.select_related("run").order_by("first_submitted_at"):
            newest[job.job_id] = job
    return newest


def _newest_attempts(jobs: dict[str, Job]) -> dict[int, Attempt]:
    keys = [job.pk for job in jobs.values()]
    newest: dict[int, Attempt] = {}
    for start in range(0, len(keys), 500):
        for attempt in Attempt.objects.filter(job_id__in=keys[start : start + 500]).order_by("number"):
            newest[attempt.job_id] = attempt
    return newest


def _fingerprint(job: Job) -> Fingerprint:
    return Fingerprint(submitted_at=job.submitted_at, restart_count=job.restart_count, user=job.user, name=job.name)


def _seen(record: JobRecord) -> Fingerprint:
    return Fingerprint(
        submitted_at=record.submitted_at,
        restart_count=record.restart_count,
        user=record.user[:100],
        name=record.name[:300],
    )


def _row(row: Job | Attempt, fields: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(getattr(row, field) for field in fields)


def _fill(job: Job, record: JobRecord) -> None:
    if job.comment != record.comment or job._state.adding:
        options = parse_comment(record.comment)
        job.comment, job.comment_error = record.comment, options.error[:300]
        job.options = options_row(options)
    # Slurm takes longer texts (4096 for a path) than the tables hold, and one job must not spoil the whole picture.
    job.name, job.user = record.name[:300], record.user[:100]
    job.account, job.partition = record.account[:100], record.partition[:100]
    job.work_dir, job.stdout, job.stderr = record.work_dir[:1000], record.stdout[:1000], record.stderr[:1000]
    job.requeueable, job.node_count, job.gpus = record.requeueable, record.node_count, record.gpus
    job.time_limit_s = record.time_limit_s
    job.state, job.state_reason, job.held = record.state, record.state_reason[:100], record.held
    job.eligible_at = record.eligible_at
    job.excluded_nodes = list(record.excluded_nodes)
    job.restart_count, job.submitted_at = record.restart_count, record.submitted_at
    job.vanished_at = None


def options_row(options: CommentOptions) -> dict[str, object]:
    """What the comment asks for, without what it leaves open."""
    row: dict[str, object] = {
        "mode": options.mode,
        "max_restarts": options.max_restarts,
        "run": options.run,
        "checkpoint_dir": options.checkpoint_dir,
        "log": options.log,
    }
    return {name: value for name, value in row.items() if value not in (None, "")}


def _create_job(cluster: Cluster, record: JobRecord, *, now: datetime) -> Job:
    job = Job(cluster=cluster, job_id=record.job_id, first_submitted_at=record.submitted_at, seen_at=now)
    _fill(job, record)
    job.run = _run_of(cluster, job, now=now)
    job.save()
    return job


def _run_of(cluster: Cluster, job: Job, *, now: datetime) -> Run:
    """The run that a job belongs to. The user is part of every key: nobody can join somebody else's run."""
    folder = str(job.options.get("checkpoint_dir", ""))
    name = str(job.options.get("run", "")) or job.name or f"job {job.job_id}"
    if job.options.get("run"):
        key = f"{job.user}/run:{name}"
    elif folder:
        key = f"{job.user}/{job.name}/{folder}"
    else:  # nothing joins it to any other job
        key = f"{job.user}/{job.name}/job:{job.job_id}@{job.first_submitted_at.isoformat()}"
    run, _ = Run.objects.get_or_create(
        cluster=cluster,
        key=key[:500],
        defaults={"name": name[:200], "user": job.user, "checkpoint_dir": folder, "created_at": now},
    )
    if folder and run.checkpoint_dir != folder:
        run.checkpoint_dir = folder
        run.save(update_fields=["checkpoint_dir"])
    return run


def _create_attempt(job: Job, record: JobRecord, *, now: datetime) -> Attempt:
    attempt = Attempt(job=job, number=record.restart_count, submitted_at=record.submitted_at, seen_at=now)
    attempt.phase, attempt.phase_since = Phase.QUEUED, record.submitted_at
    _fill_attempt(attempt, record)
    if _is_old_news(job.cluster, attempt):
        attempt.closed_at = now  # history: shown, never judged and never acted on
    else:
        attempt.next_look_at = now
    attempt.save()
    return attempt


def _is_old_news(cluster: Cluster, attempt: Attempt) -> bool:
    """True where it had ended before the last picture that we had of the cluster (or before our first one)."""
    if not JobState(attempt.state).is_terminal or attempt.ended_at is None:
        return False
    return cluster.seen_at is None or attempt.ended_at <= cluster.seen_at


def _update_attempt(attempt: Attempt, record: JobRecord, *, now: datetime) -> None:
    if JobState(attempt.state).is_terminal and attempt.state != record.state and not record.state.is_terminal:
        return  # an ended attempt does not live again: the next attempt will say so with its own restart count
    before = _row(attempt, ATTEMPT_FIELDS)
    _fill_attempt(attempt, record)
    if _row(attempt, ATTEMPT_FIELDS) == before:
        return
    attempt.seen_at = now
    attempt.save(update_fields=[*ATTEMPT_FIELDS, "seen_at"])
    if attempt.closed_at is None:
        Attempt.objects.filter(pk=attempt.pk).update(next_look_at=now)
    elif not record.state.is_terminal:  # it was given up as vanished, and is back
        Attempt.objects.filter(pk=attempt.pk).update(closed_at=None, next_look_at=now)


def _note_completing(job: Job, attempt: Attempt | None, *, now: datetime) -> None:
    """The old execution still frees its nodes: the next attempt begins when that is over."""
    Job.objects.filter(pk=job.pk).exclude(state=JobState.COMPLETING).update(state=JobState.COMPLETING, seen_at=now)
    if attempt is not None and not JobState(attempt.state).is_terminal and attempt.state != JobState.COMPLETING:
        attempt.state, attempt.seen_at = JobState.COMPLETING, now
        attempt.save(update_fields=["state", "seen_at"])


def _fill_attempt(attempt: Attempt, record: JobRecord) -> None:
    pending = record.state is JobState.PENDING
    attempt.state, attempt.state_reason = record.state, record.state_reason[:100]
    # A requeued job keeps the start, end, exit code and nodes of its last attempt while it waits.
    attempt.started_at = None if pending else record.started_at
    attempt.ended_at = record.ended_at if record.state.is_terminal else None
    attempt.exit_code = record.exit_code if record.state.is_terminal else None
    attempt.exit_signal = record.exit_signal if record.state.is_terminal else None
    if record.nodes and not pending:
        attempt.nodes = list(record.nodes)


def _end_older_attempts(job: Job, record: JobRecord, *, now: datetime) -> None:
    """A newer attempt exists: what was open before it has ended, how is for accounting to say."""
    open_ones = Attempt.objects.filter(job=job, number__lt=record.restart_count)
    for attempt in open_ones.exclude(state__in=[s.value for s in JobState if s.is_terminal]):
        attempt.state, attempt.seen_at, attempt.next_look_at = JobState.REQUEUED, now, now
        attempt.ended_at = min(now, record.submitted_at) if attempt.started_at else now
        attempt.save(update_fields=["state", "seen_at", "next_look_at", "ended_at"])
        audit.record(
            "attempt.requeued", actor=SYSTEM, at=now, subject_kind="attempt", subject_id=attempt.pk,
            reason=f"Slurm shows attempt {record.restart_count} of job {job.job_id}.",
        )  # fmt: skip


def _mark_vanished(cluster: Cluster, seen: set[str], *, now: datetime) -> None:
    """A job that had not ended and that the controller no longer lists: its state is unknown since now."""
    open_jobs = Job.objects.filter(cluster=cluster, vanished_at=None)
    for job in open_jobs.exclude(state__in=[s.value for s in JobState if s.is_terminal]):
        if job.job_id in seen:
            continue
        job.vanished_at, job.state = now, JobState.UNKNOWN
        job.save(update_fields=["vanished_at", "state"])
        Attempt.objects.filter(job=job, closed_at=None, number=job.restart_count).update(
            state=JobState.UNKNOWN, seen_at=now, next_look_at=now
        )
        audit.record(
            "job.vanished", actor=SYSTEM, at=now, subject_kind="job", subject_id=job.pk,
            reason=f"Slurm no longer lists job {job.job_id}; how it ended is unknown.",
        )  # fmt: skip
