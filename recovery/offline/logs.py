"""Signals from log files as they lie on a disk: bounded in memory, whatever they hold."""

from __future__ import annotations

import io
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from recovery.core.logs import LogParser
from recovery.core.logs.lines import NEWEST_YEAR, OLDEST_YEAR
from recovery.core.types import LogLine, Signal, SignalKind

LOG_SUFFIXES = (".log", ".out", ".err")
STANDARD_INPUT = Path("-")
LINE_LIMIT = 64 * 1024  # bytes of a line that are looked at
MOST_FAILURES = 2000  # the first ones: the cause is among them
MOST_MARKS = 2000  # the last ones of everything else
STAMP_WITHIN = 100  # characters of a line in which its time stands

_STAMP = re.compile(r"(?<!\d)(\d{4}-\d\d-\d\d)[T _](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:\d\d)?(?!\d)")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextLog:
    """A log that is no file: pasted, or sent. Kept in memory alone."""

    name: str
    data: bytes


def log_files(paths: Iterable[Path]) -> list[Path]:
    """The log files that `paths` name: a file or "-" itself, of a folder its log files by name. Raises OSError."""
    files: list[Path] = []
    for path in paths:
        if path != STANDARD_INPUT and path.is_dir():
            files += sorted(f for f in path.iterdir() if f.suffix in LOG_SUFFIXES and f.is_file())
        else:
            files.append(path)
    return files


def lines_of(path: Path | TextLog) -> Iterator[LogLine]:
    """The lines of one file as the log reader gives them: bounded, undecodable bytes replaced."""
    if isinstance(path, TextLog):
        yield from _lines(io.BytesIO(path.data), path.name)
        return
    if path == STANDARD_INPUT:
        yield from _lines(sys.stdin.buffer, "-")
        return
    with path.open("rb") as file:
        yield from _lines(file, str(path))


def _lines(file: BinaryIO, name: str) -> Iterator[LogLine]:
    number = offset = 0
    within = False  # in the rest of a line that was cut
    while raw := file.readline(LINE_LIMIT):
        if not within:
            number += 1
            text = raw.decode("utf-8", errors="replace").rstrip("\n")
            if text:
                yield LogLine(text=text, file=name, number=number, offset=offset)
        within = not raw.endswith(b"\n")
        offset += len(raw)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogsRead:
    """What the files of a job say. `times` holds, by file and line, a signal's own time or the last one before it."""

    signals: tuple[Signal, ...]  # by file and line; without a date of their own they keep none
    times: dict[tuple[str, int], datetime]
    first: datetime | None  # the earliest and the latest time that any line carries
    last: datetime | None
    ranks: int | None = None  # that the job has, as NCCL says


def read_files(files: Sequence[Path | TextLog], nodes: Sequence[str]) -> LogsRead:
    """Read all files, in order. Raises OSError.

    Which rank runs where is often told after the failure (a launcher's report), so failures are placed at the end.
    """
    parser = LogParser(nodes=nodes)
    kept = _Kept()
    for file in files:
        now = None
        for line in lines_of(file):
            now = time_in(line.text) or now
            for signal in parser.feed(line):
                kept.add(signal, signal.at or now)
            kept.see(now)
    ranks: dict[str, str] = parser.memory.get("ranks", {}).get("map", {})
    world: int | None = parser.memory.get("ranks", {}).get("world")
    signals = sorted((_placed(s, ranks) for s in (*kept.failures, *kept.marks)), key=lambda s: (s.file, s.line))
    return LogsRead(signals=tuple(signals), times=kept.times, first=kept.first, last=kept.last, ranks=world)


class _Kept:
    """A bounded memory of signals: the first failures, the last of everything else."""

    def __init__(self) -> None:
        self.failures: list[Signal] = []
        self.marks: deque[Signal] = deque(maxlen=MOST_MARKS)
        self.times: dict[tuple[str, int], datetime] = {}
        self.first: datetime | None = None
        self.last: datetime | None = None

    def add(self, signal: Signal, at: datetime | None) -> None:
        if signal.kind is not SignalKind.FAILURE:
            if len(self.marks) == MOST_MARKS:
                self.times.pop((self.marks[0].file, self.marks[0].line), None)
            self.marks.append(signal)
        elif len(self.failures) < MOST_FAILURES:
            self.failures.append(signal)
        else:
            return
        if at is not None:
            self.times[signal.file, signal.line] = at

    def see(self, at: datetime | None) -> None:
        if at is not None:
            self.first = min(self.first or at, at)
            self.last = max(self.last or at, at)


def time_in(text: str) -> datetime | None:
    """The time near the start of a line, also behind a prefix such as "[titan] "; in UTC where no zone is given.

    More forgiving than the parser's: here a line's time only serves as a clock.
    """
    found = _STAMP.search(text, 0, STAMP_WITHIN)
    if found is None:
        return None
    date, clock, fraction, zone = found.groups()
    if not OLDEST_YEAR <= date[:4] <= NEWEST_YEAR:
        return None
    stamp = f"{date}T{clock}{f'.{fraction[:6]}' if fraction else ''}{zone or '+00:00'}"
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _placed(signal: Signal, ranks: Mapping[str, str]) -> Signal:
    if signal.node or signal.rank is None or signal.kind is not SignalKind.FAILURE:
        return signal
    return signal._replace(node=ranks.get(str(signal.rank), ""))
