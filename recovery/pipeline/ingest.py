"""Stage 2, ingest: what an attempt's log and its run's checkpoint folder say, stored once.

What was read and how far it was read are stored in one transaction: a killed worker neither loses nor doubles a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction

from recovery.core.logs import LogParser
from recovery.core.phases import next_phase
from recovery.core.types import JobState, Phase, Signal, SignalKind
from recovery.models import Attempt, LogFile
from recovery.models import Sample as SampleRow
from recovery.models import Signal as SignalRow
from recovery.pipeline.log_files import log_files
from recovery.pipeline.samples import store_samples
from recovery.sources.job_logs import Cursor, LogRead, read_log

PASSES = 4  # reads per file and look: a long backlog is worked off over several looks, others are not kept waiting
LINES_BEFORE_BLIND = 2000  # so many lines without any progress line: the format is not one that we can read
UNKNOWN_FORMAT = "Print progress in a known format (docs/jobs.md lists them), for example “step 120”."
MOST_FAILURES = 5000  # failure lines of one attempt that are kept
LATE_LOG_S = 60  # a log that does not exist so long after the start is reported
LAST_WORDS = timedelta(seconds=2)  # after the end a line may still be on its way to the file
CLOCKS = timedelta(seconds=5)  # a line this much older than the start was written by an earlier attempt
SKEW = timedelta(seconds=90)  # a line's own time further in the future than this is not believed

# The columns that this stage writes; poll writes the others of the same row, at the same time perhaps.
OWN_FIELDS = (
    "phase", "phase_since", "blind_reason", "blind_remedy", "last_progress_at", "first_step", "first_step_at",
    "last_step", "places", "restored_step", "restored_at", "fresh_start", "parser_memory", "read_at",
)  # fmt: skip

ReadLog = Callable[..., LogRead]


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestOutcome:
    lines: int
    more: bool  # bytes are left for the next look


@dataclass(slots=True)
class _Reading:
    """What one look at all logs of an attempt found."""

    signals: list[Signal] = field(default_factory=list)
    rows: list[LogFile] = field(default_factory=list)
    before: dict[str, tuple[object, ...]] = field(default_factory=dict)  # where each stood, by path; none: a new row
    lines: int = 0
    more: bool = False
    trouble: str = ""
    remedy: str = ""


def ingest_attempt(attempt: Attempt, *, now: datetime, read: ReadLog = read_log) -> IngestOutcome:
    """Read on in the attempt's logs and store what they say."""
    if attempt.started_at is None or _successor_started(attempt):
        return IngestOutcome(lines=0, more=False)
    reading = _read_all(attempt, now=now, read=read)
    reading.signals = _dated(_own(reading.signals, attempt), attempt, now)
    with transaction.atomic():
        _store_progress(attempt, reading.signals, now=now)
        _store_signals(attempt, reading.signals, now=now)
        for row in reading.rows:
            if _position(row) != reading.before.get(row.path):
                row.save()
        _update_attempt(attempt, reading, now=now)
        attempt.save(update_fields=OWN_FIELDS)
    return IngestOutcome(lines=reading.lines, more=reading.more)


def _successor_started(attempt: Attempt) -> bool:
    """Whether a later attempt already writes: what the file holds from now on is not this attempt's."""
    if attempt.job.restart_count <= attempt.number:
        return False
    later = Attempt.objects.filter(job_id=attempt.job_id, number__gt=attempt.number)
    return later.exclude(started_at=None).exists()


def _read_all(attempt: Attempt, *, now: datetime, read: ReadLog) -> _Reading:
    reading = _Reading()
    offset = now.astimezone(ZoneInfo(settings.LOG_TIME_ZONE)).utcoffset() or timedelta(0)
    parser = LogParser(utc_offset=offset, nodes=attempt.nodes, memory=attempt.parser_memory)
    files = log_files(attempt)
    reading.trouble, reading.remedy = files.trouble, files.remedy
    for path in files.paths:
        row = _log_row(attempt, path)
        if row.pk is not None:
            reading.before[path] = _position(row)
        _read_file(attempt, row, parser, reading, now=now, read=read)
    attempt.parser_memory = parser.memory
    return reading


def _position(row: LogFile) -> tuple[object, ...]:
    return row.inode, row.offset, row.line, row.head, row.grew_at, row.error


def _log_row(attempt: Attempt, path: str) -> LogFile:
    """The stored position in `path`. A new attempt reads on where the attempt before it stopped."""
    row = LogFile.objects.filter(attempt=attempt, path=path).first()
    if row is not None:
        return row
    row = LogFile(attempt=attempt, path=path)
    before = LogFile.objects.filter(attempt__job_id=attempt.job_id, attempt__number__lt=attempt.number, path=path)
    last = before.order_by("-attempt__number").first()
    if last is not None:
        row.inode, row.offset, row.line, row.head = last.inode, last.offset, last.line, last.head
    return row


def _read_file(
    attempt: Attempt, row: LogFile, parser: LogParser, reading: _Reading, *, now: datetime, read: ReadLog
) -> None:
    ended = attempt.ended_at is not None and now > attempt.ended_at + LAST_WORDS
    reading.rows.append(row)
    more = False
    for _ in range(PASSES):
        cursor = Cursor(inode=row.inode, offset=row.offset, line=row.line, head=row.head)
        got = read(row.path, cursor, roots=settings.LOG_ROOTS, final=ended)
        row.error = got.error[:300]
        if got.error or got.missing:
            _note_trouble(attempt, row, got, reading, now=now)
            return
        for line in got.lines:
            reading.signals.extend(parser.feed(line))
        reading.lines += len(got.lines)
        if got.lines:
            row.grew_at = now
        row.inode, row.offset, row.line, row.head = (
            got.cursor.inode,
            got.cursor.offset,
            got.cursor.line,
            got.cursor.head,
        )
        more = got.more
        if not more:
            break
    reading.more = reading.more or more


def _note_trouble(attempt: Attempt, row: LogFile, got: LogRead, reading: _Reading, *, now: datetime) -> None:
    if got.error:
        reading.trouble, reading.remedy = got.error, got.remedy
        return
    running_for = (now - (attempt.started_at or now)).total_seconds()
    if running_for > LATE_LOG_S and not reading.trouble:
        reading.trouble = f"The log {row.path} does not exist, {int(running_for)} s after the start."
        reading.remedy = "Check the job's output path, and that this host mounts the file system that holds it."


def _own(signals: list[Signal], attempt: Attempt) -> list[Signal]:
    """Without what an earlier attempt wrote into the same file and nobody had read: its lines' times tell.

    Only at the first look: were the clocks or time zones apart, what follows would be lost too.
    """
    if attempt.number == 0 or attempt.read_at is not None or attempt.started_at is None:
        return signals
    own: list[Signal] = []
    earlier: dict[str, bool] = {}
    for signal in signals:
        if signal.at is not None:
            earlier[signal.file] = signal.at < attempt.started_at - CLOCKS
        if not earlier.get(signal.file, False):
            own.append(signal)
    return own


def _dated(signals: list[Signal], attempt: Attempt, now: datetime) -> list[Signal]:
    """Every signal with a time: its line's own where that can be true, else that of the dated line before it.

    A log can claim any time; a line without one was written after the last that has one, whenever it was read.
    """
    dated = []
    last = now
    for index, signal in enumerate(signals):
        if signal.at is not None and _can_be_true(signal.at, attempt, now):
            last = min(signal.at, now)
        elif index == 0 or signal.file != signals[index - 1].file:
            last = now
        dated.append(replace(signal, at=last))
    return dated


def _can_be_true(at: datetime, attempt: Attempt, now: datetime) -> bool:
    earliest = attempt.started_at - SKEW if attempt.started_at is not None else at
    return earliest <= at <= now + SKEW


def _store_progress(attempt: Attempt, signals: list[Signal], *, now: datetime) -> None:
    rows = [
        SampleRow(
            attempt_id=attempt.pk,
            rank=-1 if s.rank is None else s.rank,
            step=s.step or 0,
            at=s.at or now,
            loss=s.loss,
            throughput=s.throughput,
            step_time_s=s.step_time_s,
        )
        for s in signals
        if s.kind is SignalKind.PROGRESS
    ]
    store_samples(rows)


def _store_signals(attempt: Attempt, signals: list[Signal], *, now: datetime) -> None:
    rows = [
        SignalRow(
            attempt=attempt,
            kind=s.kind,
            rule=s.rule[:80],
            at=s.at or now,
            step=s.step,
            rank=s.rank,
            node=s.node[:100],
            file=s.file,
            line=s.line,
            offset=s.offset,
            path=s.path[:1000],
            text=s.text[:500],
        )
        for s in signals
        if s.kind is not SignalKind.PROGRESS
    ]
    # One job's flood of failure lines must not fill the tables; the cause is among the first.
    failures = sum(row.kind == SignalKind.FAILURE for row in rows)
    if failures and failures + attempt.signals.filter(kind=SignalKind.FAILURE).count() > MOST_FAILURES:
        room = max(0, MOST_FAILURES - attempt.signals.filter(kind=SignalKind.FAILURE).count())
        first = [row for row in rows if row.kind == SignalKind.FAILURE][:room]
        rows = [*first, *(row for row in rows if row.kind != SignalKind.FAILURE)]
    SignalRow.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)


def _update_attempt(attempt: Attempt, reading: _Reading, *, now: datetime) -> None:
    attempt.read_at = now
    phase = Phase(attempt.phase)
    if phase is Phase.QUEUED:
        phase = Phase.STARTING
        attempt.phase, attempt.phase_since = phase, attempt.started_at
    for signal in reading.signals:
        _apply(attempt, signal, now=now)
        following = next_phase(phase, signal)
        if following is not phase:
            phase = following
            attempt.phase, attempt.phase_since = phase, signal.at
    attempt.blind_reason, attempt.blind_remedy = _blindness(attempt, reading, now=now)


def _apply(attempt: Attempt, signal: Signal, *, now: datetime) -> None:
    if signal.kind is SignalKind.PROGRESS and signal.step is not None:
        if attempt.first_step is None:
            attempt.first_step, attempt.first_step_at = signal.step, signal.at
            attempt.places["first_step"] = {"file": signal.file, "line": signal.line}
        if attempt.last_step is None or signal.step > attempt.last_step:
            # When we read it, not when the line says it was written: a wrong clock must not look like silence.
            attempt.last_step, attempt.last_progress_at = signal.step, now
    elif signal.kind is SignalKind.LOADED and signal.step is not None:
        attempt.restored_step, attempt.restored_at = signal.step, signal.at
        attempt.fresh_start = False
        _goes_back(attempt, signal.step)
    elif signal.kind is SignalKind.FRESH_START:
        attempt.fresh_start, attempt.restored_at, attempt.restored_step = True, signal.at, None
        _goes_back(attempt, 0)


def _goes_back(attempt: Attempt, step: int) -> None:
    """A launcher restarted the workers within the attempt: steps that come again are progress, not silence.

    The first step is the first one since: it is what belies a load line.
    """
    attempt.first_step = attempt.first_step_at = None
    if attempt.last_step is not None and attempt.last_step > step:
        attempt.last_step = step


def _blindness(attempt: Attempt, reading: _Reading, *, now: datetime) -> tuple[str, str]:
    """Why the attempt can't be observed and what would help; two empty strings where it can."""
    if JobState(attempt.state) is not JobState.RUNNING:
        return ("", "") if not reading.trouble else (reading.trouble[:300], reading.remedy[:300])
    if reading.trouble:
        return reading.trouble[:300], reading.remedy[:300]
    read_lines = sum(row.line for row in reading.rows)
    if attempt.last_step is None and read_lines > LINES_BEFORE_BLIND:
        reason = f"{read_lines} log lines were read and none reports progress in a known format."
        return reason, UNKNOWN_FORMAT
    if attempt.last_step is None and _speaks_otherwise(attempt, reading, now=now):
        return "Its log grows, but no line of it reports progress in a known format.", UNKNOWN_FORMAT
    return "", ""


def _speaks_otherwise(attempt: Attempt, reading: _Reading, *, now: datetime) -> bool:
    """Whether it has long been running and still writes, only not what we can read: that is no hang."""
    patience = timedelta(seconds=settings.HANG_FIRST_STEP_S)
    if attempt.started_at is None or now - attempt.started_at < patience / 2:
        return False
    return any(row.grew_at is not None and now - row.grew_at < patience / 4 for row in reading.rows)
