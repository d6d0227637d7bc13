"""Signals from log files as they lie on a disk: bounded in memory, whatever they hold."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from recovery.core.logs import LogParser
from recovery.core.types import LogLine, Signal, SignalKind

LOG_SUFFIXES = (".log", ".out", ".err")
STANDARD_INPUT = Path("-")
LINE_LIMIT = 64 * 1024  # bytes of a line that are looked at
MOST_FAILURES = 2000  # the first ones: the cause is among them
MOST_MARKS = 2000  # the last ones of everything else


def log_files(paths: Iterable[Path]) -> list[Path]:
    """The log files that `paths` name: a file or "-" itself, of a folder its log files by name. Raises OSError."""
    files: list[Path] = []
    for path in paths:
        if path != STANDARD_INPUT and path.is_dir():
            files += sorted(f for f in path.iterdir() if f.suffix in LOG_SUFFIXES and f.is_file())
        else:
            files.append(path)
    return files


def lines_of(path: Path) -> Iterator[LogLine]:
    """The lines of one file as the log reader gives them: bounded, undecodable bytes replaced."""
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


def read_signals(files: Sequence[Path], nodes: Sequence[str]) -> list[Signal]:
    """The signals of all files, in order. Raises OSError.

    Rank places are often told after the failure (a launcher's report), so a second pass places what the first could
    not; standard input can't be read twice.
    """
    parser = LogParser(nodes=nodes)
    signals = _bounded(parser.feed(line) for file in files for line in lines_of(file))
    ranks: dict[str, str] = parser.memory.get("ranks", {}).get("map", {})
    return [_placed(s, ranks) for s in signals]


def _bounded(parts: Iterable[list[Signal]]) -> list[Signal]:
    failures: list[Signal] = []
    marks: deque[Signal] = deque(maxlen=MOST_MARKS)
    for signals in parts:
        for signal in signals:
            if signal.kind is not SignalKind.FAILURE:
                marks.append(signal)
            elif len(failures) < MOST_FAILURES:
                failures.append(signal)
    return sorted([*failures, *marks], key=lambda s: (s.file, s.line))


def _placed(signal: Signal, ranks: Mapping[str, str]) -> Signal:
    if signal.node or signal.rank is None or signal.kind is not SignalKind.FAILURE:
        return signal
    return replace(signal, node=ranks.get(str(signal.rank), ""))
