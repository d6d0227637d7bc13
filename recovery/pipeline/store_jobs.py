"""Part of poll: job records become rows of runs, jobs and attempts. Only differences are written, in bulk.

The number of queries depends neither on how many jobs there are nor on how many have changed, but for chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.identity import Identity, identify
from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Job
from recovery.pipeline import job_rows
from recovery.pipeline.bulk import CHUNK, Snapshot, chunks
from recovery.pipeline.store_runs import give_runs
from recovery.pipeline.unlisted import Listed, store_unlisted
from recovery.slurm.base import JobRecord

# Besides what a record says, a change brings a look at the attempt, also at one that was given up as vanished.
ATTEMPT_CHANGES = (*job_rows.ATTEMPT_FIELDS, "seen_at", "next_look_at", "closed_at")

MOST_MISSED = 200  # attempts of a job that no picture showed: of more than that the oldest are not even named


def store_jobs(
    cluster: Cluster,
    records: Mapping[str, JobRecord],
    known: Mapping[str, Listed],
    *,
    previous: datetime | None,
    now: datetime,
) -> None:
    """Bring the tables to what `records` say. `known`: the jobs of the picture before. Both by job id.

    `previous`: the time of that picture; None where there was none of this controller.
    """
    keys = {job_id: row.key for job_id, row in known.items()}
    differing = [record for job_id, record in records.items() if keys.get(job_id) != job_rows.record_key(record)]
    jobs = _newest_jobs(cluster, differing, known)
    attempts = _attempts_of(jobs.values())
    changes = _Changes(
        cluster=cluster,
        previous=previous,
        now=now,
        jobs=Snapshot(jobs.values(), job_rows.JOB_FIELDS),
        attempts=Snapshot((one for some in attempts.values() for one in some), ATTEMPT_CHANGES),
    )
    for record in differing:
        job = jobs.get(record.job_id)
        changes.take(record, job, attempts.get(job.pk, []) if job else [])
    changes.write()
    gone = [row for job_id, row in known.items() if job_id not in records or row.pk in changes.replaced]
    if gone:
        store_unlisted(gone, records, accounting=cluster.accounting, now=now)


def _newest_jobs(cluster: Cluster, records: Sequence[JobRecord], known: Mapping[str, Listed]) -> dict[str, Job]:
    """The stored row of each record: by key where it was in the last picture, else the newest under its job id."""
    newest: dict[str, Job] = {}
    for some in chunks([known[r.job_id].pk for r in records if r.job_id in known]):
        newest.update((job.job_id, job) for job in Job.objects.filter(pk__in=some))
    for ids in chunks([r.job_id for r in records if r.job_id not in known]):
        rows = Job.objects.filter(cluster=cluster, job_id__in=ids)
        newest.update((job.job_id, job) for job in rows.order_by("first_submitted_at"))
    return newest


def _attempts_of(jobs: Iterable[Job]) -> dict[int, list[Attempt]]:
    """All attempts of each job, oldest first."""
    found: dict[int, list[Attempt]] = {}
    for some in chunks([job.pk for job in jobs]):
        for attempt in Attempt.objects.filter(job_id__in=some).order_by("number"):
            found.setdefault(attempt.job_id, []).append(attempt)
    return found


@dataclass(slots=True)
class _Changes:
    """What is to be written, collected record by record."""

    cluster: Cluster
    previous: datetime | None
    now: datetime
    jobs: Snapshot[Job]
    attempts: Snapshot[Attempt]
    new_jobs: list[Job] = field(default_factory=list)
    changed_jobs: list[Job] = field(default_factory=list)
    new_attempts: list[Attempt] = field(default_factory=list)
    changed_attempts: list[Attempt] = field(default_factory=list)
    ended: list[tuple[Attempt, str]] = field(default_factory=list)  # by a requeue, with the words for the event
    replaced: set[int] = field(default_factory=set)  # keys of jobs whose id now belongs to another submission

    def take(self, record: JobRecord, job: Job | None, attempts: Sequence[Attempt]) -> None:
        """`job` is the newest known under the record's id, with its `attempts`."""
        completing = record.state is JobState.COMPLETING
        before = job_rows.fingerprint_of(job) if job else None
        verdict = identify(before, job_rows.fingerprint_in(record), completing=completing)
        if verdict is Identity.OLD_NEWS:
            if job is not None and (job.user, job.name) != (record.user[:100], record.name[:300]):
                self.replaced.add(job.pk)  # the cluster's options lead to another controller now, with ids of its own
            return
        if job is None or verdict is Identity.NEW_JOB:
            if job is not None:
                self.replaced.add(job.pk)
            self._add_job(record)
        elif verdict is Identity.REQUEUING:
            self._note_completing(job, attempts[-1] if attempts else None)
        else:
            self._update_job(record, job, attempts)

    def _add_job(self, record: JobRecord) -> None:
        job = job_rows.new_job(self.cluster, record, now=self.now)
        self.new_jobs.append(job)
        if self.previous is not None:  # on a first picture, what went before is nobody's business
            self._add_missed(job, range(record.restart_count), since=self.previous)
        self._add_attempt(record, job)

    def _update_job(self, record: JobRecord, job: Job, attempts: Sequence[Attempt]) -> None:
        job_rows.fill_job(job, record, now=self.now)
        self.changed_jobs.append(job)
        newest = attempts[-1] if attempts else None
        if newest is not None and newest.number >= record.restart_count:
            self._update_attempt(record, newest)
            return
        self._end(attempts, record, job)
        first = newest.number + 1 if newest else 0
        since = newest.submitted_at if newest else job.first_submitted_at
        self._add_missed(job, range(first, record.restart_count), since=since)
        self._add_attempt(record, job)

    def _add_attempt(self, record: JobRecord, job: Job) -> None:
        previous, now = self.previous, self.now
        gap = previous is not None and (now - previous).total_seconds() > settings.STALE_AFTER_S
        self.new_attempts.append(job_rows.new_attempt(job, record, now=now, previous=previous, after_gap=gap))

    def _add_missed(self, job: Job, numbers: range, *, since: datetime) -> None:
        self.new_attempts += job_rows.missed_attempts(job, numbers[-MOST_MISSED:], since=since, now=self.now)

    def _end(self, attempts: Sequence[Attempt], record: JobRecord, job: Job) -> None:
        """A newer attempt exists: what was open before it has ended, how is for accounting to say."""
        for attempt in attempts:
            if JobState(attempt.state).is_terminal or attempt.state == JobState.UNKNOWN:
                continue
            attempt.state, attempt.seen_at, attempt.next_look_at = JobState.REQUEUED, self.now, self.now
            attempt.ended_at = min(self.now, record.submitted_at) if attempt.started_at else self.now
            self.changed_attempts.append(attempt)
            self.ended.append((attempt, f"Slurm shows attempt {record.restart_count} of job {job.job_id}."))

    def _update_attempt(self, record: JobRecord, attempt: Attempt) -> None:
        was = JobState(attempt.state)
        ended = was.is_terminal and was is not JobState.REVOKED  # what another cluster had may come back
        if ended and was is not record.state and (record.state is JobState.REVOKED or not record.state.is_terminal):
            return  # an ended attempt does not live again: the next attempt will say so with its own restart count
        before = job_rows.attempt_row(attempt)
        job_rows.fill_attempt(attempt, record, now=self.now)
        if job_rows.attempt_row(attempt) == before:
            return
        attempt.seen_at = self.now
        if attempt.closed_at is None:
            attempt.next_look_at = self.now
        elif not record.state.is_terminal:  # it was given up as vanished, and is back
            attempt.closed_at, attempt.next_look_at = None, self.now
        self.changed_attempts.append(attempt)

    def _note_completing(self, job: Job, attempt: Attempt | None) -> None:
        """The old execution still frees its nodes: the next attempt begins when that is over."""
        if job.state != JobState.COMPLETING:
            job.state, job.seen_at = JobState.COMPLETING, self.now
            self.changed_jobs.append(job)
        if attempt is None or JobState(attempt.state).is_terminal or attempt.state == JobState.COMPLETING:
            return
        attempt.state, attempt.seen_at = JobState.COMPLETING, self.now
        self.changed_attempts.append(attempt)

    def write(self) -> None:
        if self.new_jobs:
            give_runs(self.cluster, self.new_jobs, now=self.now)
            Job.objects.bulk_create(self.new_jobs, batch_size=CHUNK)
        self.jobs.write(self.changed_jobs)
        Attempt.objects.bulk_create(self.new_attempts, batch_size=CHUNK)
        self.attempts.write(self.changed_attempts)
        audit.record_all(
            "attempt.requeued", [(attempt.pk, why) for attempt, why in self.ended],
            actor=SYSTEM, at=self.now, subject_kind="attempt",
        )  # fmt: skip
