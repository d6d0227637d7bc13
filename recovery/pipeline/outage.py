"""Part of poll: jobs that were submitted, ended and forgotten by Slurm while nobody looked, out of accounting.

1. With a picture that comes after a gap, the gap is noted (outage_fields): a worker that is killed loses nothing.
2. From then on each poll asks accounting about a slice of it (repair_outage), the oldest first, until all is told.
   Where accounting gives no word the same slice is asked again later; where there is none, that is written down.

A job that is found so becomes rows of a run, a job and its attempts as every other one. It had ended: its last attempt
is read and judged, and a failure is a person's case, as nobody watched it (Attempt.ended_unwatched).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Job
from recovery.pipeline import job_rows
from recovery.pipeline.bulk import CHUNK, chunks, write_changes
from recovery.pipeline.repair import is_silent, note_silence
from recovery.pipeline.store_runs import give_runs
from recovery.slurm.base import Can, Health, JobRecord, Operation, SlurmClient, SlurmError

log = logging.getLogger(__name__)

SLICE = timedelta(hours=6)  # of a gap, in one question
LONGEST = timedelta(days=7)  # so much of a gap is asked about, its last part
MOST = 1000  # executions of one slice that are taken over, the last to end first
SECOND = timedelta(seconds=1)  # Slurm tells whole ones
REUSED_AFTER = timedelta(days=1)  # Slurm counts up to millions before it gives an id again

GAP = ("outage_from", "outage_until")
NO_ACCOUNTING = Can(yes=False, reason="There is no accounting that could tell.")
LATER_FIELDS = ("state", "state_reason", "restart_count", "submitted_at", "unknown_reason", "seen_at")


def outage_fields(cluster: Cluster, *, same: bool, health: Health | None, now: datetime) -> dict[str, object]:
    """The columns of `cluster` that note a gap before the picture of `now`. `same`: it is of the controller as before.

    As long as Slurm remembers ended jobs (MinJobAge) the picture itself has them.
    """
    if cluster.seen_at is None or not same:
        return {"outage_from": None, "outage_until": None}  # a first picture: what went before is nobody's business
    remembered_s = health.min_job_age_s if health is not None else None
    if (now - cluster.seen_at).total_seconds() <= max(settings.STALE_AFTER_S, remembered_s or 0):
        return {}
    return {"outage_from": cluster.outage_from or cluster.seen_at, "outage_until": now}


def repair_outage(cluster: Cluster, *, client: SlurmClient, now: datetime) -> int:
    """Ask accounting what ended unseen in the oldest slice of the gap. Returns how many executions were new."""
    start, end = cluster.outage_from, cluster.outage_until
    if start is None or end is None or is_silent(cluster, now):
        return 0
    can = client.can(Operation.ENDED_BETWEEN) if cluster.accounting else NO_ACCOUNTING
    if not can:
        return _go_on(cluster, end, why=can.reason, now=now)
    begin = max(start, end - LONGEST)
    if begin > start:
        return _go_on(cluster, begin, why="It is too long ago.", now=now)
    upto = min(end, begin + SLICE)
    try:
        found = client.ended_between(begin - job_rows.SKEW, upto)
    except SlurmError as error:
        if error.permanent:
            return _go_on(cluster, end, why=str(error), now=now)
        log.info("Accounting of %s does not answer: %s", cluster, error)
        note_silence(cluster, error, now=now)
        return 0
    return _go_on(cluster, upto, found, now=now)


def _go_on(
    cluster: Cluster, upto: datetime, found: Sequence[JobRecord] | None = None, *, now: datetime, why: str = ""
) -> int:
    """Take over what was `found` (None: nobody could be asked, `why`) up to there: all of it, and once, or nothing."""
    start, end = cluster.outage_from, cluster.outage_until
    left = {"outage_from": upto, "outage_until": end} if end and upto < end else dict.fromkeys(GAP)
    with transaction.atomic():
        if not Cluster.objects.filter(pk=cluster.pk, outage_from=start, outage_until=end).update(**left):
            return 0  # somebody else did
        span = f"between {_written(start)} and {_written(upto)}, while nobody looked"
        if found is None:
            reason = f"What ended and was forgotten by Slurm {span}, was never seen. {why}"
            _record(cluster, "cluster.outage_not_repaired", reason, now=now)
            count = 0
        else:
            count = _take_over(cluster, found, span, now=now)
    cluster.outage_from, cluster.outage_until = left["outage_from"], left["outage_until"]
    return count


def _take_over(cluster: Cluster, found: Sequence[JobRecord], span: str, *, now: datetime) -> int:
    changes = _Found(cluster=cluster, now=now, last=_known(cluster, found))
    unseen = [record for record in sorted(found, key=_order) if changes.is_new(record)]
    taken = sorted(unseen, key=_end)[-MOST:]
    for record in sorted(taken, key=_order):
        changes.take(record)
    changes.write()
    if taken:
        more = f" {len(unseen) - len(taken)} more, which ended earlier, were left out." if unseen[MOST:] else ""
        reason = f"{len(taken)} executions that ended {span}, were taken from accounting.{more}"
        _record(cluster, "cluster.outage_repaired", reason, now=now)
    return len(taken)


def _order(record: JobRecord) -> tuple[datetime, datetime]:
    return record.submitted_at, record.started_at or record.submitted_at


def _end(record: JobRecord) -> datetime:
    return record.ended_at or record.submitted_at


def _record(cluster: Cluster, verb: str, reason: str, *, now: datetime) -> None:
    audit.record(verb, actor=SYSTEM, at=now, subject_kind="cluster", subject_id=cluster.pk, reason=reason)


def _written(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at is not None else "?"


# --- what is known, and what is new ----------------------------------------------------------------------------------


def _known(cluster: Cluster, records: Iterable[JobRecord]) -> dict[str, Attempt]:
    """By job id, the newest attempt of the newest job that we know under it."""
    newest: dict[str, Attempt] = {}
    for ids in chunks(sorted({record.job_id for record in records})):
        rows = Attempt.objects.filter(job__cluster=cluster, job__job_id__in=ids).select_related("job")
        newest.update((row.job.job_id, row) for row in rows.order_by("job__first_submitted_at", "number"))
    return newest


@dataclass(slots=True)
class _Found:
    """What is to be written. `last`: by job id, the newest execution that is known, or was taken over already."""

    cluster: Cluster
    now: datetime
    last: dict[str, Attempt]
    new_jobs: list[Job] = field(default_factory=list)
    changed_jobs: dict[int, Job] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)

    def is_new(self, record: JobRecord) -> bool:
        """A job that is listed tells of its past by its restart count (store_jobs.py). That another cluster of the
        federation has a job is told of those that were known here: theirs are not to be started again.
        """
        last = self.last.get(record.job_id)
        if last is None:
            return record.state is not JobState.REVOKED
        return not last.job.listed and _is_later(record, last)

    def take(self, record: JobRecord) -> None:
        last = self.last.get(record.job_id)
        if last is None or record.submitted_at - (last.ended_at or last.seen_at) > REUSED_AFTER:
            job, number = self._add_job(record), record.restart_count
        else:
            number = max(last.number + 1, record.restart_count)
            job = self._go_on_with(last, record, number)
        attempt = job_rows.new_attempt(
            job, replace(record, restart_count=number), now=self.now, previous=record.submitted_at, after_gap=True
        )
        if attempt.state == JobState.REQUEUED:
            _close(attempt, now=self.now)
        self.attempts.append(attempt)
        self.last[record.job_id] = attempt

    def _add_job(self, record: JobRecord) -> Job:
        job = job_rows.new_job(self.cluster, record, now=self.now)
        job.listed, job.record_key = False, ""
        self.new_jobs.append(job)
        return job

    def _go_on_with(self, last: Attempt, record: JobRecord, number: int) -> Job:
        """A later execution of a job that is known: what came before it is history."""
        job = last.job
        job.state, job.state_reason, job.unknown_reason = record.state, "", ""
        job.restart_count, job.submitted_at, job.seen_at = number, record.submitted_at, self.now
        if last._state.adding:
            _close(last, now=self.now)
        if not job._state.adding:
            self.changed_jobs[job.pk] = job
        return job

    def write(self) -> None:
        if self.new_jobs:
            give_runs(self.cluster, self.new_jobs, now=self.now)
            Job.objects.bulk_create(self.new_jobs, batch_size=CHUNK)
        write_changes(list(self.changed_jobs.values()), LATER_FIELDS)
        Attempt.objects.bulk_create(self.attempts, batch_size=CHUNK)


def _is_later(record: JobRecord, last: Attempt) -> bool:
    """Slurm leaves the submit time where it was when a job is put back because its node died: there the start tells."""
    if abs(record.submitted_at - last.submitted_at) >= SECOND:
        return record.submitted_at > last.submitted_at
    if record.started_at is None or last.started_at is None:
        return False
    return record.started_at - last.started_at >= SECOND


def _close(attempt: Attempt, *, now: datetime) -> None:
    """History: shown, never judged."""
    attempt.closed_at, attempt.next_look_at = now, None
