"""Cutting what was read of a log into lines: by line ends, and at carriage returns.

Progress bars separate their states by carriage returns and may never end the line, so a carriage return ends a piece
too: of the pieces of one line only the last with anything in it is given out, under that line's number. Where something
was printed upon a bar, the bar's last state comes with it, before a carriage return: some trainers print the step
nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recovery.core.types import LogLine

LINE_LIMIT = 64 * 1024  # bytes of a line that are given out; the rest of it is skipped
BAR = b"%|"  # stands in every progress bar of tqdm's
BAR_LIMIT = 4096  # bytes of a bar's state
_NOTHING = b" \t\0"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogBytes:
    """A stretch of a log as it was read: whole lines, but for the last one perhaps, which is given out as it is.

    `offset` and `line`: bytes and line ends of the file before it. `cut`: it begins within a line that was too long,
    which goes on being skipped up to its next piece. `rank` and `node`: where its lines come from, as far as the file's
    name tells.
    """

    data: bytes
    file: str
    offset: int = 0
    line: int = 0
    cut: bool = False
    rank: int | None = None
    node: str = ""


def lines_of(read: LogBytes) -> Iterator[LogLine]:
    """The lines with anything in them."""
    start, index = 0, 0
    while start < len(read.data):
        end = read.data.find(b"\n", start)
        end = len(read.data) if end < 0 else end
        if line := line_at(read, start, end, index):
            yield line
        start, index = end + 1, index + 1


def line_at(read: LogBytes, start: int, end: int, index: int) -> LogLine | None:
    """What to give out of the line between two places of the data; `index` counts its lines from 0."""
    data = read.data
    if read.cut and index == 0:
        start = data.find(b"\r", start, end) + 1
        if start == 0:
            return None
    stop = _last_of(data, start, end)
    while stop > start:
        begin = max(data.rfind(b"\r", start, stop) + 1, start)
        piece = data[begin : min(stop, begin + LINE_LIMIT)]
        if piece.strip(_NOTHING):
            text = piece.decode("utf-8", "replace")
            if begin > start and BAR not in piece:
                text = _bar_before(data, start, begin - 1) + text
            return LogLine(text=text, file=read.file, number=read.line + index + 1, offset=read.offset + begin)
        stop = begin - 1
    return None


def told_by(line: bytes) -> bytes:
    """What of a whole line tells all that it says: of a progress bar's states the last one."""
    if b"\r" not in line:
        return line
    state = line[line.rfind(b"\r") + 1 :]
    return state if BAR in state else line


def _bar_before(data: bytes, start: int, stop: int) -> str:
    """The last piece with anything in it between the two places, with its carriage return, if it is a bar."""
    stop = _last_of(data, start, stop)
    while stop > start:
        begin = max(data.rfind(b"\r", start, stop) + 1, start)
        piece = data[begin : min(stop, begin + BAR_LIMIT)]
        if piece.strip(_NOTHING):
            return piece.decode("utf-8", "replace") + "\r" if BAR in piece else ""
        stop = begin - 1
    return ""


def _last_of(data: bytes, start: int, stop: int) -> int:
    """Where the last piece with anything in it ends; `stop` where there is one piece only."""
    if data.find(b"\r", start, stop) < 0:
        return stop
    return start + len(data[start:stop].rstrip(_NOTHING + b"\r"))
