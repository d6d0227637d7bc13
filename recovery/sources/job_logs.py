"""Following a job's log: what was added since the last look, as whole lines.

A log is followed by inode, offset, and a digest of its first bytes and of those just before the offset. A file that was
replaced, or truncated in place (even if it has grown past the old offset since), is read from its start, after what was
rotated away (`recovery.sources.rotated`). A file that a second attempt appends to is read on.

A line that isn't finished waits; of a progress bar, which may never end its line, every state that is finished counts
(`recovery.core.logs.cut`). A hole in a file, which nobody wrote, is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from recovery.core.logs import cut
from recovery.core.logs.cut import LogBytes, lines_of
from recovery.core.types import LogLine
from recovery.sources import rotated
from recovery.sources.beneath import NotThere, Refused, open_file, unreadable
from recovery.sources.cursor import Cursor, continues, inode_of, landmarks, next_data, read_bytes

ROOTS_SETTING = "RECOVERY_LOG_ROOTS"
MOST_BYTES = 1_000_000  # in one answer
MOST_LINES = 50_000  # in one answer: bounds memory where each of them is kept


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRead:
    """One look at a log: what was added, as bytes (`read`) and as `lines`, those with anything in them.

    `error` is not empty where it can't be read (`remedy` then says what would help) and `missing` is True where it
    isn't there (yet); the cursor is the one handed in then. `more`: bytes are left for the next pass. `anew`: it begins
    at the start of a file although another, or what stood in this one, was read before.
    """

    read: LogBytes
    cursor: Cursor
    error: str
    remedy: str
    missing: bool
    more: bool
    anew: bool = False

    @property
    def lines(self) -> tuple[LogLine, ...]:
        return tuple(lines_of(self.read))


def read_log(
    path: str,
    cursor: Cursor,
    *,
    roots: Sequence[str],
    max_bytes: int = MOST_BYTES,
    most_lines: int | None = MOST_LINES,
    final: bool = False,
) -> LogRead:
    """The lines of `path` beyond `cursor`, from at most `max_bytes` bytes. Never raises on account of the file.

    most_lines: not more of them. None: as many as there are, which nobody counts here; the cursor's `line` stays that
        of the first of them, until a parser that was fed them tells (`LogParser.line`).

    A line that isn't finished waits for the next look, unless it is longer than cut.LINE_LIMIT or `final` says that
    nobody writes any more. Only regular files inside `roots` are opened, see `recovery.sources.beneath`.

    A log that was rotated away, by a new name or by a copy, is read to its end first, then those that were rotated away
    after it, then the file that has its name now; a renamed one as long as anything is added to it.
    """
    most = _Most(max_bytes, most_lines)
    away = rotated.renamed(path, cursor, roots=roots, setting=ROOTS_SETTING) if cursor.inode else ""
    if away:
        return _read_away(away, path, cursor, roots=roots, most=most, final=final)
    got = _read_one(path, cursor, roots=roots, most=most, final=final)
    copy = rotated.copied(path, cursor, roots=roots, setting=ROOTS_SETTING) if got.anew else None
    if copy is None:
        return got
    return _read_away(copy[0], path, copy[1], roots=roots, most=most, final=final)


class _Most(NamedTuple):
    """What one answer holds at most."""

    bytes: int
    lines: int | None


def _read_away(away: str, path: str, cursor: Cursor, *, roots: Sequence[str], most: _Most, final: bool) -> LogRead:
    """Read on in the file `away` that was called `path`; where it has nothing new, in what was written after it."""
    got = _read_one(away, cursor, roots=roots, most=most, final=final or _is_there(path))
    if got.read.data or (not got.error and not _is_there(path)):
        return replace(got, more=got.more or _is_there(path))
    after = rotated.written_after(away, path, roots=roots, setting=ROOTS_SETTING)
    got = _read_one(after or path, cursor, roots=roots, most=most, final=final or bool(after))
    return replace(got, more=got.more or bool(after), anew=False)


def _is_there(path: str) -> bool:
    try:
        Path(path).stat()
    except (OSError, ValueError):
        return False
    return True


def _read_one(path: str, cursor: Cursor, *, roots: Sequence[str], most: _Most, final: bool) -> LogRead:
    try:
        descriptor = open_file(path, roots=roots, setting=ROOTS_SETTING)
    except NotThere:
        return _nothing(path, cursor, missing=True)
    except Refused as refused:
        return _nothing(path, cursor, refused=refused)
    try:
        return _follow(descriptor, path, cursor, most=most, final=final)
    except OSError as error:
        return _nothing(path, cursor, refused=unreadable(error, path))
    finally:
        os.close(descriptor)


def read_end(path: str, *, roots: Sequence[str], max_bytes: int = 256 * 1024) -> LogBytes | None:
    """The last whole lines of `path`, whatever was read of it; None where it can't be read. Lines aren't numbered."""
    try:
        descriptor = open_file(path, roots=roots, setting=ROOTS_SETTING)
    except (NotThere, Refused):
        return None
    try:
        start = max(0, os.fstat(descriptor).st_size - max_bytes)
        data = read_bytes(descriptor, start, max_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return LogBytes(data=data[: _end_of(data, skipping=False, final=False)], file=path, offset=start, cut=start > 0)


def _nothing(path: str, cursor: Cursor, *, missing: bool = False, refused: Refused | None = None) -> LogRead:
    error, remedy = (refused.sentence, refused.remedy) if refused else ("", "")
    read = LogBytes(data=b"", file=path, offset=cursor.offset, line=cursor.line)
    return LogRead(read=read, cursor=cursor, error=error, remedy=remedy, missing=missing, more=False)


def _follow(descriptor: int, path: str, cursor: Cursor, *, most: _Most, final: bool) -> LogRead:
    info = os.fstat(descriptor)
    anew = not continues(descriptor, info, cursor)
    cursor, anew = (Cursor(inode=inode_of(info)), cursor.offset > 0) if anew else (cursor, False)
    written = next_data(descriptor, cursor.offset, info.st_size)
    if written - cursor.offset > cut.LINE_LIMIT:  # no line lies in a hole
        cursor = replace(cursor, offset=written)
    data = read_bytes(descriptor, cursor.offset, max(most.bytes, cut.LINE_LIMIT + 2))
    at_end = cursor.offset + len(data) >= info.st_size
    before = _before(descriptor, cursor.offset, info.st_size)
    final = final and at_end
    read = given_out(data, path, offset=cursor.offset, line=cursor.line, before=before, final=final)
    whole = len(read.data)
    read, ends = (read, 0) if most.lines is None else _some_lines(read, most.lines)
    offset = cursor.offset + len(read.data)
    return LogRead(
        read=read,
        cursor=Cursor(inode=inode_of(info), offset=offset, line=cursor.line + ends, head=landmarks(descriptor, offset)),
        error="",
        remedy="",
        missing=False,
        more=len(read.data) < whole or not at_end,
        anew=anew,
    )


def _before(descriptor: int, offset: int, size: int) -> bytes:
    """The byte in front of `offset`; none where that is the first, or the first one after a hole."""
    byte = read_bytes(descriptor, offset - 1, 1) if offset else b""
    return b"" if byte == b"\0" and next_data(descriptor, offset - 1, size) >= offset else byte


def given_out(data: bytes, path: str, *, offset: int, line: int, before: bytes, final: bool) -> LogBytes:
    """What of the bytes from `offset` on can be given out now.

    What went before is told by the one byte in front: after anything but an end a line goes on that was too long.
    """
    skipping = before not in (b"", b"\n", b"\r")
    end = _end_of(data, skipping=skipping, final=final)
    return LogBytes(data=data[:end], file=path, offset=offset, line=line, cut=skipping)


def _end_of(data: bytes, *, skipping: bool, final: bool) -> int:
    """How much of `data` can be given out: its whole lines, and what is certain by now of the last, unfinished one.

    The outcome depends on the bytes alone, not on how they come in pieces.
    """
    begin = data.rfind(b"\n") + 1
    # A carriage return in the last place may be the first half of a line end.
    piece = data.rfind(b"\r", begin, len(data) - 1) + 1 or begin
    rest = len(data[piece:].rstrip(b"\r"))
    skipping = skipping and piece == 0
    return len(data) if final or skipping or rest > cut.LINE_LIMIT else piece


def _some_lines(read: LogBytes, most: int) -> tuple[LogBytes, int]:
    """At most so many of its lines, and how many ends of lines are in them."""
    ends = read.data.count(b"\n")
    if ends <= most:
        return read, ends
    rest = len(read.data.split(b"\n", most)[-1])
    return replace(read, data=read.data[:-rest]), most
