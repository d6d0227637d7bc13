"""Part of poll: what accounting knows of attempts that no picture showed, and of how attempts ended.

Silence of accounting means unknown, never gone: it is asked again until it answers, for a bounded time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Job
from recovery.pipeline.bulk import write_changes
from recovery.slurm.base import AttemptRecord, SlurmClient, SlurmError

log = logging.getLogger(__name__)

ASK_EVERY = timedelta(seconds=15)  # slurmdbd is a moment behind the controller; a busy one is minutes behind
ASK_FOR = timedelta(hours=1)  # so long accounting is asked how an attempt ended that the controller forgot
MOST = 500  # attempts in one question
BEFORE = timedelta(minutes=1)  # accounting's clock and ours

REPAIRED = ("state", "started_at", "ended_at", "exit_code", "exit_signal", "step_exit_codes", "cancelled_by", "nodes",
            "submitted_at", "seen_at", "next_look_at")  # fmt: skip


def repair_unknown(cluster: Cluster, *, client: SlurmClient, now: datetime) -> int:
    """Ask accounting, in one question, about the attempts whose state is unknown. Returns how many it told of."""
    asked = cluster.asked_accounting_at
    if not cluster.accounting or is_silent(cluster, now) or _is_within(asked, ASK_EVERY, now):
        return 0
    unknown = Attempt.objects.filter(job__cluster=cluster, state=JobState.UNKNOWN, seen_at__gt=now - ASK_FOR)
    rows = list(unknown.select_related("job").order_by("seen_at")[:MOST])
    if not rows:
        return 0
    Cluster.objects.filter(pk=cluster.pk).update(asked_accounting_at=now)
    here = [min(row.submitted_at, row.job.first_submitted_at) for row in rows]
    since = min(*here, *_first_elsewhere(cluster, rows), now) - BEFORE
    try:
        found = client.attempts(sorted({row.job.job_id for row in rows}), since=since)
    except SlurmError as error:
        log.info("Accounting of %s does not answer: %s", cluster, error)
        note_silence(cluster, error, now=now)
        return 0
    with transaction.atomic():
        return _store(rows, found, now=now)


def _first_elsewhere(cluster: Cluster, rows: Sequence[Attempt]) -> list[datetime]:
    """When those that came from another cluster of the federation were first submitted, as far as that one is ours."""
    moved = {row.job.job_id for row in rows if row.job.origin}
    if not moved or not cluster.federation:
        return []
    there = Job.objects.filter(job_id__in=moved, cluster__federation=cluster.federation)
    return list(there.values_list("first_submitted_at", flat=True))


def is_silent(cluster: Cluster, now: datetime) -> bool:
    """Whether accounting gave no answer a moment ago. Each question to one that hangs costs a worker its time-out."""
    return _is_within(cluster.accounting_silent_at, ASK_EVERY + timedelta(seconds=settings.SLURM_TIMEOUT_S), now)


def _is_within(at: datetime | None, patience: timedelta, now: datetime) -> bool:
    return at is not None and timedelta(0) <= now - at < patience  # a time to come is of a clock that was put back


def note_silence(cluster: Cluster, error: SlurmError, *, now: datetime) -> None:
    """`now` is when the question was asked: the time-out comes on top. A refusal is an answer, and costs no time."""
    if not error.permanent:
        Cluster.objects.filter(pk=cluster.pk).update(accounting_silent_at=now)


def _store(rows: Sequence[Attempt], found: dict[str, list[AttemptRecord]], *, now: datetime) -> int:
    seen: dict[int, dict[int, datetime]] = {}  # submit times of the attempts that we saw, by job and number
    for attempt in Attempt.objects.filter(job_id__in={row.job_id for row in rows}).exclude(state_reason="NotSeen"):
        seen.setdefault(attempt.job_id, {})[attempt.number] = attempt.submitted_at
    told: list[Attempt] = []
    for row in rows:
        record = _record_of(row, found.get(row.job.job_id, ()), seen.get(row.job_id, {}))
        if record is not None and record.state.is_terminal:
            _take(row, record, now=now)
            told.append(row)
    write_changes(told, REPAIRED)
    ended = [row for row in told if row.number == row.job.restart_count]
    for row in ended:
        row.job.state, row.job.unknown_reason, row.job.seen_at = row.state, "", now
    write_changes([row.job for row in ended], ["state", "unknown_reason", "seen_at"])
    return len(told)


def _record_of(attempt: Attempt, records: Sequence[AttemptRecord], seen: dict[int, datetime]) -> AttemptRecord | None:
    """Accounting's row of an attempt: by its submit time, or by its number where we never saw that time.

    Accounting counts by submit time among the rows it has: its numbers hold where the attempts that we did see have
    the numbers that Slurm's restart count gave them.
    """
    if attempt.number in seen:
        return next((record for record in records if _is_of(record, attempt.submitted_at)), None)
    closest = {number: min(records, key=lambda record: _apart(record, at)) for number, at in seen.items() if records}
    agreed = [record.number == number for number, record in closest.items() if _is_of(record, seen[number])]
    if not agreed or not all(agreed):
        return None
    return next((record for record in records if record.number == attempt.number), None)


def _is_of(record: AttemptRecord, submitted_at: datetime) -> bool:
    return _apart(record, submitted_at) < 1


def _apart(record: AttemptRecord, submitted_at: datetime) -> float:
    return abs((record.submitted_at - submitted_at).total_seconds())


def _take(attempt: Attempt, record: AttemptRecord, *, now: datetime) -> None:
    attempt.state = record.state
    attempt.submitted_at = record.submitted_at
    attempt.started_at = attempt.started_at or record.started_at
    attempt.ended_at = record.ended_at or attempt.ended_at or now
    attempt.exit_code, attempt.exit_signal = record.exit_code, record.exit_signal
    attempt.step_exit_codes, attempt.cancelled_by = list(record.step_exit_codes), record.cancelled_by
    attempt.nodes = list(record.nodes) or attempt.nodes
    attempt.seen_at = now
    if attempt.closed_at is None:
        attempt.next_look_at = now


def enrich_attempt(attempt: Attempt, *, client: SlurmClient, now: datetime) -> None:
    """Ask accounting how an ended attempt really ended."""
    job = attempt.job
    if not job.cluster.accounting or is_silent(job.cluster, now):
        return
    try:
        found = client.attempts([job.job_id], since=job.first_submitted_at - BEFORE)
    except SlurmError as error:
        note_silence(job.cluster, error, now=now)
        return  # asked again at a later look, as long as the attempt is open
    records = found.get(job.job_id, ())
    record = next((record for record in records if _is_of(record, attempt.submitted_at)), None)
    if record is None or not record.state.is_terminal:
        return
    attempt.step_exit_codes = list(record.step_exit_codes)
    attempt.cancelled_by = record.cancelled_by or attempt.cancelled_by
    attempt.ended_at = attempt.ended_at or record.ended_at or now
    if not JobState(attempt.state).is_terminal or attempt.state == JobState.REQUEUED:
        attempt.state = record.state
    # Debian's 22.05 keeps a requeued attempt's true exit code here, while the queue shows the new attempt's.
    if attempt.exit_code is None:
        attempt.exit_code, attempt.exit_signal = record.exit_code, record.exit_signal
    if not attempt.nodes:
        attempt.nodes = list(record.nodes)
    attempt.save(
        update_fields=["step_exit_codes", "cancelled_by", "ended_at", "state", "exit_code", "exit_signal", "nodes"]
    )
