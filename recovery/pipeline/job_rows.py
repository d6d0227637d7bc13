"""Part of poll: one record of the scheduler becomes the columns of a job and of an attempt. Nothing is written here."""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter

from recovery.core.comment import CommentOptions, parse_comment
from recovery.core.identity import Fingerprint
from recovery.core.types import JobState, Phase
from recovery.models import Attempt, Cluster, Job
from recovery.slurm.base import JobRecord

# The columns that poll writes; other stages write the others of the same rows, at the same time perhaps.
JOB_FIELDS = (
    "name", "user", "raw_id", "account", "partition", "comment", "options", "comment_error", "work_dir", "stdout",
    "stderr", "requeueable", "node_count", "gpus", "time_limit_s", "state", "state_reason", "held", "eligible_at",
    "excluded_nodes", "required_nodes", "features", "reservation", "qos", "unique_id", "origin", "restart_count",
    "submitted_at", "seen_at", "vanished_at", "unknown_reason", "listed", "record_key",
)  # fmt: skip
ATTEMPT_FIELDS = ("state", "state_reason", "started_at", "ended_at", "exit_code", "exit_signal", "nodes", "gpus")

SKEW = timedelta(seconds=90)  # the controller's clock and ours, and Slurm tells whole seconds

_NOT_STORED = frozenset({"admin_comment", "batch_host"})
_TIMES = ("submitted_at", "eligible_at", "started_at", "ended_at")
_stored = attrgetter(*(one.name for one in fields(JobRecord) if one.name not in {*_NOT_STORED, *_TIMES, "state"}))


def record_key(record: JobRecord) -> str:
    """Digest of what is stored of a record: while it is the same there is nothing to compare and nothing to write.

    Start and end of a job that waits are estimates: they move with every pass of the scheduler, and aren't stored.
    marshal's second version writes equal values alike (later ones write what is shared once), in a third of the time
    that their text takes. Another Python may write them otherwise: then each job is compared once.
    """
    start, end = (None, None) if record.state is JobState.PENDING else (record.started_at, record.ended_at)
    times = (_seconds(record.submitted_at), _seconds(record.eligible_at), _seconds(start), _seconds(end))
    written = marshal.dumps((record.state.value, times, _stored(record)), 2)
    return blake2b(written, digest_size=16).hexdigest()


@lru_cache(maxsize=65_536)  # of 10,000 jobs, as long as they are the same
def _seconds(at: datetime | None) -> float | None:
    return at.timestamp() if at else None


def fingerprint_of(job: Job) -> Fingerprint:
    return Fingerprint(
        submitted_at=job.submitted_at, restart_count=job.restart_count, user=job.user, name=job.name,
        unique_id=job.unique_id,
    )  # fmt: skip


def fingerprint_in(record: JobRecord) -> Fingerprint:
    return Fingerprint(
        submitted_at=record.submitted_at,
        restart_count=record.restart_count,
        user=record.user[:100],
        name=record.name[:300],
        unique_id=record.unique_id[:40],
    )


def new_job(cluster: Cluster, record: JobRecord, *, now: datetime) -> Job:
    """A row that is not stored yet, and has no run yet."""
    job = Job(cluster=cluster, job_id=record.job_id, first_submitted_at=record.submitted_at)
    fill_job(job, record, now=now)
    return job


def fill_job(job: Job, record: JobRecord, *, now: datetime) -> None:
    if job.comment != record.comment or job._state.adding:
        options = parse_comment(record.comment)
        job.comment, job.comment_error = record.comment, options.error[:300]
        job.options = options_row(options)
    # Slurm takes longer texts (4096 for a path) than the tables hold, and one job must not spoil the whole picture.
    job.name, job.user, job.raw_id = record.name[:300], record.user[:100], record.raw_id[:20]
    job.account, job.partition, job.qos = record.account[:100], record.partition[:100], record.qos[:100]
    job.work_dir, job.stdout, job.stderr = record.work_dir[:1000], record.stdout[:1000], record.stderr[:1000]
    job.requeueable, job.node_count, job.gpus = record.requeueable, record.node_count, record.gpus
    job.time_limit_s = record.time_limit_s
    job.state, job.state_reason, job.held = record.state, record.state_reason[:100], record.held
    job.eligible_at = record.eligible_at
    job.excluded_nodes, job.required_nodes = list(record.excluded_nodes), list(record.required_nodes)
    job.features, job.reservation = record.features[:300], record.reservation[:200]
    job.restart_count, job.submitted_at = record.restart_count, record.submitted_at
    job.unique_id, job.origin = record.unique_id[:40], record.origin[:100]
    job.seen_at, job.listed, job.record_key = now, True, record_key(record)
    job.vanished_at, job.unknown_reason = None, ""


def options_row(options: CommentOptions) -> dict[str, object]:
    """What the comment asks for, without what it leaves open."""
    row: dict[str, object] = {
        "mode": options.mode,
        "max_restarts": options.max_restarts,
        "run": options.run,
        "checkpoint_dir": options.checkpoint_dir,
        "log": options.log[0] if len(options.log) == 1 else list(options.log),
        "format": options.format,
        "labels": dict(options.labels),
        "metrics": options.metrics,
        "nvrx_iteration_file": options.nvrx_iteration_file,
        "nvrx_cycle_dir": options.nvrx_cycle_dir,
    }
    return {name: value for name, value in row.items() if value not in (None, "", [], {})}


def new_attempt(job: Job, record: JobRecord, *, now: datetime, previous: datetime | None, after_gap: bool) -> Attempt:
    """The execution that the record shows. `previous`: the time of the picture before; None: this is the first.

    `after_gap`: that picture was stale already when this one was taken.
    """
    attempt = Attempt(job=job, number=record.restart_count, submitted_at=record.submitted_at, seen_at=now)
    attempt.phase, attempt.phase_since = Phase.QUEUED, record.submitted_at
    fill_attempt(attempt, record, now=now)
    ended = JobState(attempt.state).is_terminal
    if ended and _is_old_news(attempt, previous):
        attempt.closed_at = now  # history: shown, never judged and never acted on
        return attempt
    attempt.next_look_at = now
    attempt.ended_unwatched = ended and after_gap
    return attempt


def _is_old_news(attempt: Attempt, previous: datetime | None) -> bool:
    """True where an ended attempt had ended before the last picture that we had of the cluster (or before our first).

    What a picture did not list and the next one does was submitted between the two, whatever the times say: ended jobs
    stay listed for a while (MinJobAge). Only what ended clearly before had been hidden from us.
    """
    if previous is None:
        return True
    return attempt.ended_at is not None and attempt.ended_at <= previous - SKEW


def missed_attempts(job: Job, numbers: Iterable[int], *, since: datetime, now: datetime) -> list[Attempt]:
    """Executions that the restart count tells of and no picture showed; accounting may still say how they went.

    They are history already: shown, never judged. `since` is the earliest that they can have been submitted.
    """
    return [
        Attempt(
            job=job, number=number, state=JobState.UNKNOWN, state_reason="NotSeen", submitted_at=since, seen_at=now,
            closed_at=now,
        )
        for number in numbers
    ]  # fmt: skip


def fill_attempt(attempt: Attempt, record: JobRecord, *, now: datetime) -> None:
    pending, revoked = record.state is JobState.PENDING, record.state is JobState.REVOKED
    left_at = attempt.ended_at if attempt.state == JobState.REVOKED else None
    attempt.state, attempt.state_reason = record.state, record.state_reason[:100]
    # A requeued job keeps the start, end, exit code and nodes of its last attempt while it waits.
    attempt.started_at = None if pending else record.started_at
    attempt.ended_at = record.ended_at if record.state.is_terminal else None
    if revoked:  # here it is over since another cluster of the federation has it
        attempt.ended_at = left_at or record.ended_at or now
    attempt.exit_code = record.exit_code if record.state.is_terminal else None
    attempt.exit_signal = record.exit_signal if record.state.is_terminal else None
    if not pending:
        attempt.gpus = record.gpus
        attempt.nodes = list(record.nodes) or attempt.nodes


def attempt_row(attempt: Attempt) -> tuple[object, ...]:
    return tuple(getattr(attempt, field) for field in ATTEMPT_FIELDS)
