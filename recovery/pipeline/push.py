"""What jobs push: taken in over the API, kept in an inbox, read by ingest like a log.

1. `accept`: checks whose it is, whether there is room, and each row; stores the good rows as one batch. A batch that
   comes again changes nothing.
2. `read_pushed`: hands the unread batches of one attempt to ingest, and marks them as read in its transaction.
3. `forget`: batches that were read are kept for a day, so that a late repetition is still known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from recovery.core.pushed import LINES_PER_ROW, Wrong, read_row, signals_of
from recovery.core.speech import duration
from recovery.core.types import JobState, Phase, Signal, SignalKind
from recovery.models import Attempt, PushBatch, PushSender, PushToken
from recovery.pipeline.source_read import MOST_SIGNALS, GoOn, SourceRead, always, within_life

MOST_ROWS = 1000  # in one batch
MOST_UNREAD_OF_ATTEMPT = 100  # batches that wait for ingest
MOST_UNREAD = 5000  # of all attempts: more than workers read in a look means that they can't keep up
BATCHES_PER_LOOK = 20
HEARD_FOR = timedelta(minutes=2)  # a client speaks every 30 s, also with nothing to tell
HEARD_PRECISION = timedelta(seconds=5)
LAST_ROWS = timedelta(minutes=1)  # for so long an attempt stays open that ended with rows unread
KEPT = timedelta(days=1)
LONGEST_ID = 64
SOON_S, LATER_S = 10, 30


class Refused(Exception):
    """Nothing of the batch was taken. `code` is for programs; after `retry_after_s` it may be sent again as it is."""

    def __init__(self, code: str, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """`again`: this batch was here before, and nothing changed. `refused` names the rows that were not taken."""

    accepted: int
    again: bool = False
    refused: tuple[Wrong, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What was sent, of checked shape; the rows are not checked yet."""

    batch_id: str
    job_id: str
    restart: int | None
    rows: Sequence[Any]
    dropped: int = 0


def accept(token: PushToken, batch: Batch, *, now: datetime) -> Accepted:
    """Take one batch in. Raises Refused."""
    attempt = _attempt(token, batch)
    _check_room(attempt)
    read = [read_row(row, index=index, received_at=now) for index, row in enumerate(batch.rows)]
    good = [row for row in read if not isinstance(row, Wrong)]
    wrong = tuple(row for row in read if isinstance(row, Wrong))
    again = bool(good) and not _store(attempt, batch, good, now=now)
    _heard(attempt, batch, good, now=now)
    return Accepted(accepted=len(good), again=again, refused=wrong)


def _attempt(token: PushToken, batch: Batch) -> Attempt:
    """The attempt that is meant: of the newest submission with this id, unless the token is for a certain one."""
    found = Attempt.objects.filter(job__cluster_id=token.cluster_id, job__job_id=batch.job_id).select_related("job")
    if token.job is not None:
        if batch.job_id != token.job.job_id:
            raise Refused("wrong_job", f"This token pushes for {token.reach} and for no other.")
        found = found.filter(job=token.job)
    newest = found.order_by("-job__first_submitted_at", "-number").first()
    if newest is None:
        message = (
            f"No job {batch.job_id[:40]!r} was seen on {token.cluster} yet. Right after its start wait for the next "
            "look at the cluster and send again; else correct the id (SLURM_JOB_ID, of an array task ARRAY_TASK)."
        )
        raise Refused("unknown_job", message, retry_after_s=SOON_S)
    if token.user and newest.job.user != token.user:
        raise Refused("wrong_job", f"This token pushes for {token.reach} and for no other.")
    attempt = newest if batch.restart in (None, newest.number) else _of_number(newest, batch.restart or 0)
    followed = newest.number > attempt.number and newest.started_at is not None
    if attempt.closed_at is not None or followed:
        message = f"Attempt {attempt.number} of job {attempt.job.job_id} is over and judged; no more is taken for it."
        raise Refused("attempt_over", message)
    return attempt


def _of_number(newest: Attempt, number: int) -> Attempt:
    attempt = Attempt.objects.filter(job_id=newest.job_id, number=number).select_related("job").first()
    if attempt is None:
        message = (
            f"Attempt {number} of job {newest.job.job_id} was not seen yet. Right after a requeue wait for the next "
            "look at the cluster and send again; else correct `restart` (SLURM_RESTART_COUNT)."
        )
        raise Refused("unknown_attempt", message, retry_after_s=SOON_S)
    return attempt


def _check_room(attempt: Attempt) -> None:
    """Back-pressure: what workers have not read yet is what the database can't take any faster."""
    own = PushBatch.objects.filter(attempt=attempt, read_at=None).count()
    if own >= MOST_UNREAD_OF_ATTEMPT:
        message = f"{own} batches of this attempt wait to be read. Send fewer, larger batches."
        raise Refused("too_many", message, retry_after_s=SOON_S)
    if waiting()[:MOST_UNREAD].count() >= MOST_UNREAD:
        raise Refused("too_many", "Workers can't keep up with what is pushed.", retry_after_s=LATER_S)


def _store(attempt: Attempt, batch: Batch, rows: list[dict[str, Any]], *, now: datetime) -> bool:
    """Keep the rows until ingest reads them; False where this batch is here already."""
    if PushBatch.objects.filter(attempt=attempt, batch_id=batch.batch_id).exists():
        return False
    try:
        with transaction.atomic():
            # The row is held, so that nobody closes the attempt between this look at it and the batch.
            held = Attempt.objects.select_for_update(of=("self",)).filter(pk=attempt.pk, closed_at=None)
            if not held.values_list("pk", flat=True):
                message = f"Attempt {attempt.number} of job {attempt.job.job_id} is over and judged meanwhile."
                raise Refused("attempt_over", message)
            PushBatch.objects.create(
                attempt=attempt, batch_id=batch.batch_id, received_at=now, rows=rows, count=len(rows)
            )
    except IntegrityError:  # the same batch, at the same moment
        return False
    return True


def _heard(attempt: Attempt, batch: Batch, rows: Sequence[Mapping[str, Any]], *, now: datetime) -> None:
    progressed = any(row["kind"] == SignalKind.PROGRESS for row in rows)
    sender = PushSender.objects.filter(attempt=attempt).first()
    if sender is None:
        first = PushSender(
            attempt=attempt, heard_at=now, progressed_at=now if progressed else None, dropped=batch.dropped
        )
        PushSender.objects.bulk_create([first], ignore_conflicts=True)
        return
    first_step = progressed and sender.progressed_at is None
    if first_step or now - sender.heard_at >= HEARD_PRECISION or batch.dropped != sender.dropped:
        fields = {"heard_at": now, "dropped": batch.dropped} | ({"progressed_at": now} if progressed else {})
        PushSender.objects.filter(pk=sender.pk).update(**fields)


# --- the source of ingest ---------------------------------------------------------------------------------------------


def unread(attempt: Attempt) -> QuerySet[PushBatch]:
    return PushBatch.objects.filter(attempt=attempt, read_at=None).order_by("pk")


def waiting() -> QuerySet[PushBatch]:
    """What somebody will read yet: what an attempt left behind that is closed, nobody does."""
    return PushBatch.objects.filter(read_at=None, attempt__closed_at=None)


def read_pushed(attempt: Attempt, *, now: datetime, go_on: GoOn = always) -> SourceRead:
    """What the attempt pushed since the last look; what there is no time for waits for the next."""
    sender = PushSender.objects.filter(attempt=attempt).first()
    if sender is None:
        return SourceRead()
    found: list[Signal] = []
    keys: list[int] = []
    batches = list(unread(attempt)[: BATCHES_PER_LOOK + 1])
    for batch in batches[:BATCHES_PER_LOOK]:
        if keys and (len(found) > MOST_SIGNALS or not go_on()):
            break
        keys.append(batch.pk)
        found += _said_in(batch)
    signals, more = tuple(within_life(found, attempt, now)), len(keys) < len(batches)

    def done() -> None:
        if keys:
            PushBatch.objects.filter(pk__in=keys).update(read_at=now, rows=[])

    silent = now - sender.heard_at
    sees = sender.progressed_at is not None and silent <= HEARD_FOR
    trouble = remedy = ""
    # Where its log tells of steps, that a client fell silent matters to nobody.
    log_tells = bool(attempt.parser_memory.get("format"))
    finished = Phase(attempt.phase) is Phase.FINISHING  # as it said itself: it has nothing more to tell
    running = JobState(attempt.state) is JobState.RUNNING and not finished
    if sender.progressed_at is not None and not sees and running and not log_tells:
        trouble = f"It pushed its progress, and was last heard {duration(silent.total_seconds())} ago."
        remedy = "Check that its nodes reach the desk's address, and that its push token is still good (docs/push.md)."
    return SourceRead(signals=signals, sees=sees, trouble=trouble, remedy=remedy, more=more, done=done)


def _said_in(batch: PushBatch) -> list[Signal]:
    first = batch.pk * MOST_ROWS
    return [
        signal
        for index, row in enumerate(batch.rows)
        for signal in signals_of(row, line=(first + index) * LINES_PER_ROW)
    ]


def forget(*, now: datetime) -> None:
    """Drop what was read long ago, and what nobody will read any more."""
    old = PushBatch.objects.filter(received_at__lt=now - KEPT)
    old.exclude(read_at=None).delete()
    old.exclude(attempt__closed_at=None).delete()
