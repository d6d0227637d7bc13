"""A source of ingest: metrics files that a job writes, and NVRx's files on checkpoints and cycles.

Which files: the job comment's `metrics`, `nvrx_iteration_file` and `nvrx_cycle_dir`, else the cluster's sources of the
same names. Followed as logs are, with positions in the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from glob import escape
from typing import Any

from django.conf import settings
from django.db.models import Q

from recovery.core import metrics
from recovery.core.blindness import LATE_LOG
from recovery.core.comment import expand_log_pattern
from recovery.core.types import Phase, Signal, SignalKind
from recovery.models import Attempt, LogFile
from recovery.models.progress import METRICS_ROW
from recovery.pipeline.log_files import LONGEST_PATH, new_row, rows_before
from recovery.pipeline.source_read import MOST_SIGNALS, RESTARTED, GoOn, SourceRead, always, nothing, within_life
from recovery.sources.cursor import Cursor
from recovery.sources.job_logs import read_log
from recovery.sources.metrics_files import Iteration, find_files, read_cycles, read_iteration

KEYS = ("metrics", "nvrx_iteration_file", "nvrx_cycle_dir")
WORKERS = "workers"  # in Attempt.places: their last start that was seen
MEMORY = "metrics"  # within what the parser of the attempt remembers
PASSES = 16
MOST_FILES = 500  # of one attempt in its whole life
TOO_MANY = f"More than {MOST_FILES} metrics files came up in this attempt: newer ones are not read."
_AT_WORK = frozenset({Phase.TRAINING, Phase.SAVING, Phase.EVALUATING})


def that_measure(keys: Sequence[int]) -> set[int]:
    """Those whose comment or cluster names such a file; one query."""
    named = Q()
    for key in KEYS:
        named |= Q(**{f"job__options__{key}__isnull": False}) | Q(**{f"job__cluster__sources__{key}__isnull": False})
    return set(Attempt.objects.filter(named, pk__in=keys).values_list("pk", flat=True))


def read_metrics(attempt: Attempt, *, now: datetime, go_on: GoOn = always) -> SourceRead:
    """What the attempt's metrics files say since the last look; what there is no time for waits for the next."""
    reading = _Reading(attempt, now, go_on)
    reading.look_at_cycles()
    _begin_anew(attempt)
    reading.follow_all(_path(attempt, "metrics"))
    signals = (*within_life(reading.signals, attempt, now), *reading.iteration())
    reading.note_troubles()
    return SourceRead(
        signals=signals,
        sees=reading.sees,
        trouble=reading.trouble,
        remedy=reading.remedy,
        more=reading.more,
        done=reading.done if reading.moved else nothing,
    )


class _Reading:
    """One look at all metrics files of an attempt, and at what NVRx writes."""

    def __init__(self, attempt: Attempt, now: datetime, go_on: GoOn) -> None:
        self._attempt = attempt
        self._now = now
        self._go_on = go_on
        self._memory: dict[str, Any] = attempt.parser_memory.setdefault(MEMORY, {})
        self._known = {row.path: row for row in LogFile.objects.filter(attempt=attempt, path__startswith=METRICS_ROW)}
        self._troubles: dict[str, str] = {}  # sentences, by path
        self.signals: list[Signal] = []
        self.moved: dict[str, LogFile] = {}  # by path
        self.more = self.sees = False
        self.trouble = self.remedy = ""

    @property
    def is_full(self) -> bool:
        return len(self.signals) > MOST_SIGNALS or not self._go_on()

    def follow_all(self, pattern: str) -> None:
        if not pattern:
            return
        found = find_files(pattern, roots=settings.LOG_ROOTS)
        if found.error:
            self._refused(pattern, found.error, found.remedy)
        elif not found.paths:
            self._not_there(pattern, "metrics")
        names = [_row_of(path) for path in found.paths]
        before = rows_before(self._attempt, [name for name in names if name not in self._known])
        for path in found.paths:
            if self.moved and self.is_full:
                self.more = True
                break
            if path not in self._memory and len(self._memory) >= MOST_FILES:
                self.trouble, self.remedy = TOO_MANY, "Name fewer by `metrics`, or write on in the same."
                continue
            row = self._known.get(_row_of(path)) or new_row(self._attempt, _row_of(path), before)
            self._follow(path, row, self._memory.setdefault(path[:1000], {}))

    def _follow(self, path: str, row: LogFile, memory: metrics.Memory) -> None:
        if row._state.adding and row.offset:
            _learn_columns(path, memory)
        for _ in range(PASSES):
            cursor = Cursor(inode=row.inode, offset=row.offset, line=row.line, head=row.head)
            got = read_log(path, cursor, roots=settings.LOG_ROOTS, final=self._attempt.ended_at is not None)
            if got.error:
                return self._refused(path, got.error, got.remedy)
            if got.missing:
                return self._gone(path) if "last" in memory else self._not_there(path, "metrics")
            lines = got.lines
            if cursor.offset and lines and lines[0].offset < cursor.offset:
                metrics.written_anew(memory)
            self.signals += [signal for line in lines for signal in metrics.feed(line, memory)]
            self.sees = self.sees or "last" in memory
            at = got.cursor
            if at != cursor:
                row.inode, row.offset, row.line, row.head, row.grew_at = (
                    at.inode, at.offset, at.line, at.head, self._now,
                )  # fmt: skip
                self.moved[row.path] = row
            if not got.more:
                return None
            if self.is_full:
                break
        self.more = True
        return None

    def look_at_cycles(self) -> None:
        if folder := _path(self._attempt, "nvrx_cycle_dir"):
            job_id, number = self._attempt.job.job_id.partition("_")[0], self._attempt.number
            since = self._attempt.started_at
            found = read_cycles(folder, job_id=job_id, attempt=number, since=since, roots=settings.LOG_ROOTS)
            self._memory["cycles"] = [
                _as_json(cycle.number, cycle.started_at, cycle.ended_at, cycle.nodes) for cycle in found.cycles
            ]
            self._note(folder, found.error)
            if found.missing:
                self._not_there(folder, "nvrx_cycle_dir")

    def iteration(self) -> list[Signal]:
        path = _path(self._attempt, "nvrx_iteration_file")
        told = read_iteration(path, roots=settings.LOG_ROOTS) if path else None
        if told is None:
            return []
        self._note(path, told.error)
        if not told.error and told.written_at is None:
            self._not_there(path, "nvrx_iteration_file")
        return _newer(self._attempt, path, told, self._memory)

    def _refused(self, path: str, error: str, remedy: str) -> None:
        self.trouble, self.remedy = error, remedy
        self._note(path, error)

    def _gone(self, path: str) -> None:
        self._refused(path, f"The metrics file {path[:200]} is gone.", "Write on in it, or mount its file system here.")

    def _not_there(self, path: str, key: str) -> None:
        """Who named it himself is told; a name for every job of a cluster may be none of this one's."""
        begun = self._attempt.started_at or self._now
        if self._attempt.job.options.get(key) and self._now - begun > LATE_LOG:
            self._note(path, f"It does not exist, more than {int(LATE_LOG.total_seconds())} s after the start.")

    def _note(self, path: str, error: str) -> None:
        if error:
            self._troubles[_row_of(path)] = error[:300]

    def note_troubles(self) -> None:
        """The rows whose trouble came or went are stored with those that moved; the run's page shows them."""
        for path in self._troubles.keys() - self._known.keys() - self.moved.keys():
            self.moved[path] = LogFile(attempt=self._attempt, path=path)
        for row in (*self._known.values(), *self.moved.values()):
            trouble = self._troubles.get(row.path, "")
            if row.error != trouble:
                row.error = trouble
                self.moved[row.path] = row

    def done(self) -> None:
        for row in self.moved.values():
            row.save()


def _learn_columns(path: str, memory: metrics.Memory) -> None:
    """Of a CSV file that an attempt before began: its header stands where this one does not read."""
    first = read_log(path, Cursor(), roots=settings.LOG_ROOTS, max_bytes=1).lines[:1]
    for line in first:
        if not line.text.lstrip().startswith("{"):
            list(metrics.feed(line, memory))


def _row_of(path: str) -> str:
    """What the row is called that says how far a metrics file was read: a job may name one file as log, too."""
    return f"{METRICS_ROW}{path}"[:LONGEST_PATH]


def _path(attempt: Attempt, key: str) -> str:
    job = attempt.job
    pattern = str(job.options.get(key) or job.cluster.sources.get(key) or "")
    folder, slash, name = pattern.rpartition("/")
    known = {"job_id": job.job_id, "raw_job_id": job.raw_id, "name": job.name, "user": job.user}
    # A wildcard in the name of a job stands for itself: it must not lead to the files of others.
    literal = known | {"name": escape(job.name), "user": escape(job.user)} if key == "metrics" else known
    return expand_log_pattern(folder, **known) + slash + expand_log_pattern(name, **literal)


# --- NVRx -------------------------------------------------------------------------------------------------------------


def workers_started(attempt: Attempt) -> datetime | None:
    """When the workers were last started anew within the attempt, by NVRx's word; None: never, or it can't be true."""
    cycles = attempt.parser_memory.get(MEMORY, {}).get("cycles", ())
    again = [cycle["started_at"] for cycle in cycles if cycle["number"] > 0 and cycle["started_at"]]
    at = datetime.fromisoformat(max(again)) if again else None
    begun = attempt.started_at
    return at if at is not None and begun is not None and begun <= at <= (attempt.ended_at or at) else None


def _begin_anew(attempt: Attempt) -> None:
    """Workers that were started anew load, compile and warm up: before their first step no silence is a hang.

    Nor is it silence when they do steps again that were done before.
    """
    at, last = workers_started(attempt), attempt.last_progress_at
    if at is not None and attempt.places.get(WORKERS) != at.isoformat():
        attempt.places[WORKERS], attempt.places[RESTARTED] = at.isoformat(), True
    if at is not None and Phase(attempt.phase) in _AT_WORK and (last is None or last <= at):
        attempt.phase, attempt.phase_since = Phase.FIRST_STEP, at


def _newer(attempt: Attempt, path: str, told: Iteration, memory: dict[str, Any]) -> list[Signal]:
    """A newer number in the checkpoint iteration file is the trainer's word that a save is finished."""
    if told.step is None or told.written_at is None or told.step == memory.get("iteration"):
        return []
    memory["iteration"] = told.step
    if attempt.started_at is None or told.written_at < attempt.started_at:
        return []  # of an attempt before
    return [
        Signal(
            kind=SignalKind.SAVE_DURABLE,
            file=path,
            line=1,
            offset=told.step,
            text=f"{told.step}",
            rule="nvrx.checkpoint_iteration",
            at=told.written_at,
            step=told.step,
        )
    ]


def _as_json(number: int, started: datetime | None, ended: datetime | None, nodes: str) -> dict[str, Any]:
    iso: Callable[[datetime | None], str] = lambda at: at.isoformat() if at else ""  # noqa: E731
    return {"number": number, "started_at": iso(started), "ended_at": iso(ended), "nodes": nodes}
