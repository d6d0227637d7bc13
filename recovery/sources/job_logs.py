"""Following a job's log: what was added since the last look, as whole lines.

A log is followed by inode, offset, and a digest of its first bytes and of those just before the offset. A file that was
replaced, or truncated in place (even if it has grown past the old offset since), is read from its start. A file that a
second attempt appends to is read on.

Progress bars separate their states by carriage returns and may never end the line, so a carriage return ends a piece
too: of the pieces of one line only the last whole one with anything in it is given out, under that line's number. Where
something was printed upon a bar, the bar's last state comes with it, before a carriage return: some trainers print the
step nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from recovery.core.types import LogLine
from recovery.sources.beneath import NotThere, Refused, open_file, unreadable

ROOTS_SETTING = "RECOVERY_LOG_ROOTS"
LINE_LIMIT = 64 * 1024  # bytes of a line that are given out; the rest of it is skipped
MOST_LINES = 50_000  # in one answer: bounds memory where a log is nothing but short lines
BAR = b"%|"  # stands in every progress bar of tqdm's
BAR_LIMIT = 4096  # bytes of a bar's state
HEAD_BYTES = 1024
TAIL_BYTES = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """How far a file was read: `offset` bytes, `line` line ends. `head` is opaque (58 characters at most)."""

    inode: int = 0
    offset: int = 0
    line: int = 0
    head: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRead:
    """One look at a log. The lines are those with anything in them.

    `error` is not empty where it can't be read (`remedy` then says what would help) and `missing` is True where it
    isn't there (yet); the cursor is the one handed in then. `more`: bytes are left for the next pass.
    """

    lines: tuple[LogLine, ...]
    cursor: Cursor
    error: str
    remedy: str
    missing: bool
    more: bool


def read_log(
    path: str, cursor: Cursor, *, roots: Sequence[str], max_bytes: int = 4_000_000, final: bool = False
) -> LogRead:
    """The lines of `path` beyond `cursor`, from at most `max_bytes` bytes. Never raises on account of the file.

    A line that isn't finished waits for the next look, unless it is longer than LINE_LIMIT or `final` says that nobody
    writes any more. Only regular files inside `roots` are opened, see `recovery.sources.beneath`.
    """
    try:
        descriptor = open_file(path, roots=roots, setting=ROOTS_SETTING)
    except NotThere:
        return LogRead(lines=(), cursor=cursor, error="", remedy="", missing=True, more=False)
    except Refused as refused:
        return _failed(cursor, refused)
    try:
        return _follow(descriptor, path, cursor, max_bytes=max_bytes, final=final)
    except OSError as error:
        return _failed(cursor, unreadable(error, path))
    finally:
        os.close(descriptor)


def _failed(cursor: Cursor, refused: Refused) -> LogRead:
    return LogRead(lines=(), cursor=cursor, error=refused.sentence, remedy=refused.remedy, missing=False, more=False)


def _follow(descriptor: int, path: str, cursor: Cursor, *, max_bytes: int, final: bool) -> LogRead:
    info = os.fstat(descriptor)
    if not _continues(descriptor, info, cursor):
        cursor = Cursor(inode=_inode(info))
    data = _read(descriptor, cursor.offset, max(max_bytes, LINE_LIMIT + 2))
    at_end = cursor.offset + len(data) >= info.st_size
    before = _read(descriptor, cursor.offset - 1, 1) if cursor.offset else b""
    splitter = _Splitter(path, data, offset=cursor.offset, line=cursor.line, before=before, final=final and at_end)
    splitter.run()
    offset = cursor.offset + splitter.used
    return LogRead(
        lines=tuple(splitter.lines),
        cursor=Cursor(inode=_inode(info), offset=offset, line=splitter.line, head=_landmarks(descriptor, offset)),
        error="",
        remedy="",
        missing=False,
        more=splitter.full or not at_end,
    )


def _inode(info: os.stat_result) -> int:
    """Some file systems use all 64 bits, tables hold 63."""
    return info.st_ino & (2**63 - 1)


def _continues(descriptor: int, info: os.stat_result, cursor: Cursor) -> bool:
    """Whether this is still the file that `cursor` stands in, with everything before the offset unchanged."""
    if cursor.inode != _inode(info) or cursor.offset > info.st_size:
        return False
    return cursor.head in ("", _landmarks(descriptor, cursor.offset))


def _landmarks(descriptor: int, offset: int) -> str:
    """Digests of the first bytes and of those before `offset`, as far as there are any."""
    tail = min(offset, TAIL_BYTES)
    pieces = (_read(descriptor, 0, min(offset, HEAD_BYTES)), _read(descriptor, offset - tail, tail))
    return ":".join(blake2b(piece, digest_size=14).hexdigest() for piece in pieces)


def _read(descriptor: int, offset: int, count: int) -> bytes:
    """`count` bytes from `offset`, fewer only at the end of the file."""
    pieces: list[bytes] = []
    while count > 0 and (piece := os.pread(descriptor, count, offset)):
        pieces.append(piece)
        offset += len(piece)
        count -= len(piece)
    return b"".join(pieces)


class _Splitter:
    """Cuts bytes into lines. The outcome depends on the bytes alone, not on how they came in pieces.

    What went before is told by the one byte in front: after a line end a line begins; after a carriage return its next
    piece; after anything else a line goes on that was too long, and is skipped to its next piece.
    """

    def __init__(self, path: str, data: bytes, *, offset: int, line: int, before: bytes, final: bool) -> None:
        self._path, self._data, self._offset, self._final = path, data, offset, final
        self._skipping = before not in (b"", b"\n", b"\r")
        self.line = line
        self.used = 0
        self.lines: list[LogLine] = []

    @property
    def full(self) -> bool:
        return len(self.lines) >= MOST_LINES

    def run(self) -> None:
        while not self.full and self.used < len(self._data):
            end = self._data.find(b"\n", self.used)
            if end < 0:
                self._unfinished()
                return
            self._pieces(end)
            self.line += 1
            self.used, self._skipping = end + 1, False

    def _unfinished(self) -> None:
        """The last line has no end yet: what of it is certain by now?"""
        end = len(self._data)
        # A carriage return in the last place may be the first half of a line end.
        piece = self._data.rfind(b"\r", self.used, end - 1) + 1 or self.used
        rest = len(self._data[piece:].rstrip(b"\r"))
        skipping = self._skipping and piece == self.used
        if not (self._final or skipping or rest > LINE_LIMIT):
            end = piece
        self._pieces(end)
        self.used = end

    def _pieces(self, end: int) -> None:
        """Give out the last piece with anything in it between `used` and `end`."""
        start = self.used
        if self._skipping:
            start = self._data.find(b"\r", start, end) + 1
            if start == 0:
                return
        while end > start:
            begin = max(self._data.rfind(b"\r", start, end) + 1, start)
            piece = self._data[begin : min(end, begin + LINE_LIMIT)]
            if piece.strip(b" \t\0"):
                text = piece.decode("utf-8", "replace")
                if begin > start and BAR not in piece:
                    text = self._bar_before(start, begin - 1) + text
                self.lines.append(
                    LogLine(text=text, file=self._path, number=self.line + 1, offset=self._offset + begin)
                )
                return
            end = begin - 1

    def _bar_before(self, start: int, end: int) -> str:
        """The last piece with anything in it between the two places, with its carriage return, if it is a bar."""
        while end > start:
            begin = max(self._data.rfind(b"\r", start, end) + 1, start)
            piece = self._data[begin : min(end, begin + BAR_LIMIT)]
            if piece.strip(b" \t\0"):
                return piece.decode("utf-8", "replace") + "\r" if BAR in piece else ""
            end = begin - 1
        return ""
