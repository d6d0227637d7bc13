"""Part of ingest: reads on in an attempt's logs and other sources. Nothing is stored here.

What is new of an attempt goes into a `Look`, and the columns of the attempt that follow from it into the row that
was handed in. ingest.py stores both, of many attempts at once.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from zoneinfo import ZoneInfo

from django.conf import settings

from recovery.core.blindness import Sight, blindness, next_change
from recovery.core.detectors.hang import remember_wait
from recovery.core.diagnose import elastic
from recovery.core.logs import LogParser, heard
from recovery.core.logs.own_pattern import OwnPattern
from recovery.core.phases import next_phase
from recovery.core.types import JobState, Phase, Sample, Signal, SignalKind
from recovery.models import Attempt, LogFile
from recovery.pipeline.log_files import MOST_FOLLOWED, TOO_MANY, log_files, new_row, rows_before
from recovery.pipeline.source_read import MOST_SIGNALS, RESTARTED, GoOn, SourceRead, always, nothing
from recovery.sources.cursor import Cursor
from recovery.sources.find_logs import FoundLog
from recovery.sources.job_logs import LogRead, read_end, read_log
from recovery.sources.marks import file_mark, is_absent

PASSES = 16  # reads per file and look: a long backlog is worked off over several looks, others are not kept waiting
LAST_WORDS = timedelta(seconds=2)  # after the end a line may still be on its way to the file
CLOCKS = timedelta(seconds=5)  # a line this much older than the start was written by an earlier attempt
LOOKS_S = 60.0  # between two looks nothing longer counts as watched: we may have been down
SKEW = timedelta(seconds=90)  # a line's own time further in the future than this is not believed
SAVES = frozenset({SignalKind.SAVE_STARTED, SignalKind.SAVE_DURABLE})
LOGS, OTHER_TELLERS = "log", ("metrics", "push")
REACHED = "reached"  # in Attempt.places: how far each teller has come
EMPTIED = "It was emptied or replaced while it was followed"
WHAT_IS_LOST = (
    "What was written between two looks and is in no rotated file beside it (NAME.1, NAME-DATE) was not read."
)
ALL_RANKS = -1  # in the table, where a trainer reports for all of them

ReadLog = Callable[..., LogRead]
ReadSource = Callable[..., SourceRead]  # (attempt, *, now, go_on)


@dataclass(slots=True)
class Look:
    """What one look at all sources of an attempt found."""

    attempt: Attempt
    was_blind: str  # why it could not be observed before this look
    go_on: GoOn = always
    signals: list[Signal] = field(default_factory=list)
    rows: list[LogFile] = field(default_factory=list)
    changed_rows: list[LogFile] = field(default_factory=list)  # to be stored: a position moved, or the row is new
    done: list[Callable[[], None]] = field(default_factory=list)  # what moves other sources on, when this is stored
    more: bool = False  # something is left for the next look
    ahead: int | None = None  # the newest step at the end of a log of which much is not read yet
    goes_on: bool = False  # a file that somebody before had written into
    sees: bool = False
    missing: str = ""
    trouble: str = ""  # of the logs
    remedy: str = ""
    beside: tuple[str, str] = ("", "")  # trouble and remedy of another source
    changed: bool = False  # columns of the attempt other than when it was read
    blind_until: datetime | None = None  # when blindness can change although nothing new is read

    @property
    def samples(self) -> list[Sample]:
        return [
            Sample(
                at=s.at, step=s.step or 0, loss=s.loss, throughput=s.throughput, step_time_s=s.step_time_s,
                rank=ALL_RANKS if s.rank is None else s.rank,
            )
            for s in self.signals
            if s.kind is SignalKind.PROGRESS and s.at is not None
        ]  # fmt: skip

    @property
    def tells_of_saves(self) -> bool:
        return any(signal.kind in SAVES for signal in self.signals)

    @property
    def is_empty(self) -> bool:
        return not (self.signals or self.changed_rows or self.done or self.changed)


def read_attempt(
    attempt: Attempt,
    known: Mapping[str, LogFile],
    *,
    now: datetime,
    read: ReadLog = read_log,
    sources: tuple[ReadSource, ...] = (),
    own: OwnPattern | None = None,
    go_on: GoOn = always,
) -> Look:
    """Read on where the last look stopped. `known`: the stored positions, by path; they are moved on.

    `own`: the site's own pattern for progress. `go_on`: once it says no, what is left waits for the next look.
    """
    look = Look(attempt=attempt, was_blind=attempt.blind_reason, go_on=go_on)
    offset = now.astimezone(ZoneInfo(settings.LOG_TIME_ZONE)).utcoffset() or timedelta(0)
    read_by = partial(
        LogParser, utc_offset=offset, nodes=attempt.nodes, own=own, only=str(attempt.job.options.get("format", ""))
    )
    parser = read_by(memory=attempt.parser_memory)
    files = log_files(attempt)
    look.trouble, look.remedy, look.missing = files.trouble, files.remedy, files.missing
    left_out, room = files.left_out, MOST_FOLLOWED - len(known)
    earlier = rows_before(attempt, [path for path in files.paths if path not in known])
    for log in files.files:
        if look.changed_rows and _is_full(look):
            look.more = True
            break
        row = known.get(log.path)
        if row is None:
            if room <= 0:
                left_out = TOO_MANY
                continue
            row, room = new_row(attempt, log.path, earlier), room - 1
            look.goes_on = look.goes_on or row.offset > 0
        if _read_file(look, row, log, parser, now=now, read=read):
            memory = copy.deepcopy(parser.memory)
            _look_ahead(look, row, read_by(memory=memory))
    for number, (folder, mark) in enumerate(files.marks.items()):
        row = known.get(folder) or LogFile(attempt=attempt, path=folder)
        _note_folder(look, row, mark, error="" if number else left_out[:300])
    attempt.parser_memory = parser.memory
    look.signals = _dated(_own(look), attempt, now)
    before = json.dumps(attempt.parser_memory) if sources else ""
    for source in sources:
        _take_source(look, source(attempt, now=now, go_on=go_on))
    look.changed = bool(sources) and json.dumps(attempt.parser_memory) != before  # they remember things there too
    _update_attempt(look, now=now)
    return look


def _is_full(look: Look) -> bool:
    return len(look.signals) > MOST_SIGNALS or not look.go_on()


def _note_folder(look: Look, row: LogFile, mark: str, *, error: str) -> None:
    """Its mark is kept as a file's is: a log that appears in it later is seen at a glance."""
    if row.pk is None or (row.mark, row.error) != (mark, error):
        row.mark, row.error = mark, error
        look.changed_rows.append(row)


def _read_file(look: Look, row: LogFile, log: FoundLog, parser: LogParser, *, now: datetime, read: ReadLog) -> bool:
    """Read on in one file. Returns whether more is left in it."""
    attempt = look.attempt
    ended = attempt.ended_at is not None and now > attempt.ended_at + LAST_WORDS
    before = None if row.pk is None else _position(row)
    lost = row.error if row.error.startswith(EMPTIED) else ""
    look.rows.append(row)
    mark = file_mark(row.path)  # before the read: what is written during it shows at the next look
    if is_absent(mark) and mark == row.mark:  # the last look searched its folder for another name that it has now
        look.missing = look.missing or row.path
        return False
    more = False
    for _ in range(PASSES):
        cursor = Cursor(inode=row.inode, offset=row.offset, line=row.line, head=row.head)
        got = read(row.path, cursor, roots=settings.LOG_ROOTS, most_lines=None, final=ended)
        if got.error or got.missing:
            _note_trouble(look, row, got)
            break
        if got.anew and row.grew_at is not None:  # else it was an attempt before that wrote what is gone
            lost = f"{EMPTIED} (seen {now:%Y-%m-%d %H:%M} UTC). {WHAT_IS_LOST}"
        look.signals += parser.feed_bytes(replace(got.read, rank=log.rank, node=log.node))
        if got.read.data:
            row.grew_at = now
        at = got.cursor
        row.inode, row.offset, row.line, row.head = at.inode, at.offset, parser.line, at.head
        more = got.more
        if not more or _is_full(look):
            break
    row.error = got.error[:300] or lost
    row.mark = "" if more or got.error or got.read.file != row.path else mark
    look.more = look.more or more
    if _position(row) != before:
        look.changed_rows.append(row)
    return more


def _look_ahead(look: Look, row: LogFile, parser: LogParser) -> None:
    """Where a long backlog is worked off, what is new must not wait for it: the last step in the file counts at once.

    Nothing else does. The lines themselves are read when it is their turn, and only then is the attempt judged.
    """
    end = read_end(row.path, roots=settings.LOG_ROOTS)
    if end is None or end.offset < row.offset:
        return
    steps = [signal.step for signal in parser.feed_bytes(end) if signal.kind is SignalKind.PROGRESS]
    if steps:
        look.ahead = steps[-1]


def _position(row: LogFile) -> tuple[object, ...]:
    return row.inode, row.offset, row.line, row.head, row.grew_at, row.error, row.mark


def _note_trouble(look: Look, row: LogFile, got: LogRead) -> None:
    if got.error:
        look.trouble, look.remedy = got.error, got.remedy
    elif not look.missing:
        look.missing = row.path


def _take_source(look: Look, told: SourceRead) -> None:
    look.signals += told.signals
    look.sees = look.sees or told.sees
    look.more = look.more or told.more
    if told.done is not nothing:
        look.done.append(told.done)
    if told.trouble and not look.beside[0]:
        look.beside = (told.trouble, told.remedy)


def _own(look: Look) -> list[Signal]:
    """Without what an attempt before wrote into the same file and nobody had read: its lines' times tell.

    Only at the first look: were the clocks or time zones apart, what follows would be lost too.
    """
    attempt, signals = look.attempt, look.signals
    follows = attempt.number > 0 or look.goes_on
    if not follows or attempt.read_at is not None or attempt.started_at is None:
        return signals
    own: list[Signal] = []
    since = attempt.started_at - CLOCKS
    # what stands before the first date of a file is as old as that
    earlier = {signal.file: signal.at < since for signal in reversed(signals) if signal.at is not None}
    for signal in signals:
        if signal.at is not None:
            earlier[signal.file] = signal.at < since
        if not earlier.get(signal.file, False):
            own.append(signal)
    return own


def _dated(signals: list[Signal], attempt: Attempt, now: datetime) -> list[Signal]:
    """Every signal with a time: its line's own where that can be true, else that of the dated line before it.

    A log can claim any time; a line without one was written after the last that has one, whenever it was read, and no
    later than the next: what comes before the first dated line of a look is dated by that.
    """
    dated = []
    for _, of_file in groupby(signals, key=lambda signal: signal.file):
        own = list(of_file)
        times = [_own_time(signal, attempt, now) for signal in own]
        last = next((at for at in times if at is not None), now)
        for signal, at in zip(own, times, strict=True):
            last = last if at is None else at
            dated.append(signal._replace(at=last))
    return dated


def _own_time(signal: Signal, attempt: Attempt, now: datetime) -> datetime | None:
    return min(signal.at, now) if signal.at is not None and _can_be_true(signal.at, attempt, now) else None


def _can_be_true(at: datetime, attempt: Attempt, now: datetime) -> bool:
    earliest = attempt.started_at - SKEW if attempt.started_at is not None else at
    return earliest <= at <= now + SKEW


def _update_attempt(look: Look, *, now: datetime) -> None:
    attempt = look.attempt
    phase = Phase(attempt.phase)
    if phase is Phase.QUEUED:
        _inherit_pauses(attempt)
        phase = Phase.STARTING
        attempt.phase, attempt.phase_since, look.changed = phase, attempt.started_at, True
    for signal in look.signals:
        _apply(attempt, signal, now=now)
        following = next_phase(phase, signal)
        if following is not phase:
            phase = following
            attempt.phase, attempt.phase_since = phase, signal.at
    if look.ahead is not None and _reach(attempt, LOGS, look.ahead, now=now):
        look.changed = True
    attempt.blind_reason, attempt.blind_remedy = _blindness(look, now=now)
    look.changed = look.changed or bool(look.signals) or attempt.blind_reason != look.was_blind
    look.changed = look.changed or any(row.grew_at == now for row in look.rows)  # what the parser remembers
    attempt.read_at = now


def _apply(attempt: Attempt, signal: Signal, *, now: datetime) -> None:
    if signal.kind is SignalKind.PROGRESS and signal.step is not None:
        if signal.step <= attempt.places.get(REACHED, {}).get(_teller(signal), -1) and attempt.places.get(RESTARTED):
            attempt.places[RESTARTED] = False
            _goes_back(attempt, signal.step - 1)
        if attempt.first_step is None:
            attempt.first_step, attempt.first_step_at = signal.step, signal.at
            attempt.places["first_step"] = {"file": signal.file, "line": signal.line}
        _reach(attempt, _teller(signal), signal.step, now=now)
    elif signal.kind is SignalKind.LOADED and signal.step is not None:
        attempt.restored_step, attempt.restored_at = signal.step, signal.at
        attempt.fresh_start = False
        _goes_back(attempt, signal.step)
    elif signal.kind is SignalKind.FRESH_START:
        attempt.fresh_start, attempt.restored_at, attempt.restored_step = True, signal.at, None
        _goes_back(attempt, 0)
    elif signal.kind is SignalKind.FAILURE and signal.rule in elastic.ENDED:
        attempt.places[RESTARTED] = True  # torchrun says at its defaults why workers ended, not that it starts new ones


def _teller(signal: Signal) -> str:
    """Who says so: the logs, the metrics files or the job itself. One may be far ahead of another, and fall silent."""
    told_by = signal.rule.partition(".")[0]
    return told_by if told_by in OTHER_TELLERS else LOGS


def _reach(attempt: Attempt, teller: str, step: int, *, now: datetime) -> bool:
    """Whether `step` is progress: further than the same teller has come so far."""
    reached = attempt.places.setdefault(REACHED, {} if attempt.last_step is None else {LOGS: attempt.last_step})
    if step <= reached.get(teller, -1):
        return False
    reached[teller] = step
    _note_pause(attempt, now=now)
    # When we read it, not when the line says it was written: a wrong clock must not look like silence.
    attempt.last_step, attempt.last_progress_at = max(step, attempt.last_step or 0), now
    return True


def _note_pause(attempt: Attempt, *, now: datetime) -> None:
    """How long it was silent before this progress, as far as we looked meanwhile: of an outage of ours we know nothing.

    `read_at` is still that of the look before.
    """
    if attempt.last_progress_at is None or attempt.read_at is None or attempt.last_progress_at >= now:
        return
    waited = max((attempt.read_at - attempt.last_progress_at).total_seconds(), 0.0)
    passed = waited + min((now - attempt.read_at).total_seconds(), LOOKS_S)
    attempt.longest_wait_s = remember_wait(attempt.longest_wait_s, waited, passed)


def _inherit_pauses(attempt: Attempt) -> None:
    """What the run's attempt before it had shown of its pauses."""
    before = Attempt.objects.filter(job__run=attempt.job.run_id, longest_wait_s__gt=0).exclude(pk=attempt.pk)
    attempt.longest_wait_s = before.order_by("-started_at").values_list("longest_wait_s", flat=True).first() or 0.0


def _goes_back(attempt: Attempt, step: int) -> None:
    """A launcher restarted the workers within the attempt: steps that come again are progress, not silence.

    The first step is the first one since: it is what belies a load line.
    """
    attempt.first_step = attempt.first_step_at = None
    if attempt.last_step is not None and attempt.last_step > step:
        attempt.last_step = step
    attempt.places[REACHED] = {who: min(at, step) for who, at in attempt.places.get(REACHED, {}).items()}


def _blindness(look: Look, *, now: datetime) -> tuple[str, str]:
    """Why the attempt can't be observed and what would help; two empty strings where it can.

    That another source can't tell matters where the logs tell of no step either: because it told of them so far, or
    because nobody can.
    """
    if look.sees:
        return "", ""
    reason, remedy = _of_the_logs(look, now=now)
    attempt, (beside, help_beside) = look.attempt, look.beside
    log_tells = LOGS in attempt.places.get(REACHED, {})
    if beside and not look.trouble and not log_tells and (reason or attempt.last_step is not None):
        reason, remedy = beside, help_beside
    return reason[:300], remedy[:300]


def _of_the_logs(look: Look, *, now: datetime) -> tuple[str, str]:
    attempt = look.attempt
    if JobState(attempt.state) is not JobState.RUNNING:
        return look.trouble, look.remedy
    sight = Sight(
        now=now,
        started_at=attempt.started_at or now,
        patience_s=settings.HANG_FIRST_STEP_S,
        stepped=attempt.last_step is not None,
        lines=sum(row.line for row in look.rows),
        grew_at=max((row.grew_at for row in look.rows if row.grew_at is not None), default=None),
        missing=look.missing,
        trouble=look.trouble,
        remedy=look.remedy,
        mute=heard.mute(attempt.parser_memory),
        advice=heard.advice(attempt.parser_memory),
    )
    look.blind_until = next_change(sight)
    return blindness(sight)
