"""Following a job's log: what was added since the last look, as whole lines.

A log is followed by inode, offset, and a digest of its first bytes and of those just before the offset. A file that was
replaced, or truncated in place (even if it has grown past the old offset since), is read from its start. A file that a
second attempt appends to is read on.

A line that isn't finished waits; of a progress bar, which may never end its line, every state that is finished counts
(`recovery.core.logs.cut`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from recovery.core.logs import cut
from recovery.core.logs.cut import LogBytes, lines_of
from recovery.core.types import LogLine
from recovery.sources.beneath import NotThere, Refused, open_file, unreadable

ROOTS_SETTING = "RECOVERY_LOG_ROOTS"
MOST_LINES = 50_000  # in one answer: bounds memory where a log is nothing but short lines
MOST_NEIGHBOURS = 10_000  # names in the folder of a log that was renamed, among which its new name is looked for
HEAD_BYTES = 1024
TAIL_BYTES = 256
_INODE_BITS = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """How far a file was read: `offset` bytes, `line` line ends. `head` is opaque (58 characters at most)."""

    inode: int = 0
    offset: int = 0
    line: int = 0
    head: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRead:
    """One look at a log: what was added, as bytes (`read`) and as `lines`, those with anything in them.

    `error` is not empty where it can't be read (`remedy` then says what would help) and `missing` is True where it
    isn't there (yet); the cursor is the one handed in then. `more`: bytes are left for the next pass.
    """

    read: LogBytes
    cursor: Cursor
    error: str
    remedy: str
    missing: bool
    more: bool

    @property
    def lines(self) -> tuple[LogLine, ...]:
        return tuple(lines_of(self.read))


def read_log(
    path: str, cursor: Cursor, *, roots: Sequence[str], max_bytes: int = 4_000_000, final: bool = False
) -> LogRead:
    """The lines of `path` beyond `cursor`, from at most `max_bytes` bytes. Never raises on account of the file.

    A line that isn't finished waits for the next look, unless it is longer than cut.LINE_LIMIT or `final` says that
    nobody writes any more. Only regular files inside `roots` are opened, see `recovery.sources.beneath`.

    A log that was renamed is read on under its new name (`<path>.1`, `<path>-20260203`, …) as long as anything is added
    there; then the file that took its place is read.
    """
    renamed = _renamed(path, cursor) if cursor.inode else ""
    if renamed:
        got = _read_one(renamed, cursor, roots=roots, max_bytes=max_bytes, final=final or _is_there(path))
        if got.read.data or (not got.error and not _is_there(path)):
            return replace(got, more=got.more or _is_there(path))
    return _read_one(path, cursor, roots=roots, max_bytes=max_bytes, final=final)


def _renamed(path: str, cursor: Cursor) -> str:
    """The name that the followed file has now, "" where it still has its own, or none that begins like it."""
    try:
        if _inode(Path(path).stat()) == cursor.inode:
            return ""
    except (OSError, ValueError):
        pass
    folder, _, name = path.rpartition("/")
    try:
        with os.scandir(folder or "/") as entries:
            for entry in itertools.islice(entries, MOST_NEIGHBOURS):
                if entry.name.startswith(name) and entry.name != name and entry.inode() & _INODE_BITS == cursor.inode:
                    return f"{folder}/{entry.name}"
    except (OSError, ValueError):
        return ""
    return ""


def _is_there(path: str) -> bool:
    try:
        Path(path).stat()
    except (OSError, ValueError):
        return False
    return True


def _read_one(path: str, cursor: Cursor, *, roots: Sequence[str], max_bytes: int, final: bool) -> LogRead:
    try:
        descriptor = open_file(path, roots=roots, setting=ROOTS_SETTING)
    except NotThere:
        return _nothing(path, cursor, missing=True)
    except Refused as refused:
        return _nothing(path, cursor, refused=refused)
    try:
        return _follow(descriptor, path, cursor, max_bytes=max_bytes, final=final)
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
        data = _read(descriptor, start, max_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return LogBytes(data=data[: _end_of(data, skipping=False, final=False)], file=path, offset=start, cut=start > 0)


def _nothing(path: str, cursor: Cursor, *, missing: bool = False, refused: Refused | None = None) -> LogRead:
    error, remedy = (refused.sentence, refused.remedy) if refused else ("", "")
    read = LogBytes(data=b"", file=path, offset=cursor.offset, line=cursor.line)
    return LogRead(read=read, cursor=cursor, error=error, remedy=remedy, missing=missing, more=False)


def _follow(descriptor: int, path: str, cursor: Cursor, *, max_bytes: int, final: bool) -> LogRead:
    info = os.fstat(descriptor)
    if not _continues(descriptor, info, cursor):
        cursor = Cursor(inode=_inode(info))
    data = _read(descriptor, cursor.offset, max(max_bytes, cut.LINE_LIMIT + 2))
    at_end = cursor.offset + len(data) >= info.st_size
    before = _read(descriptor, cursor.offset - 1, 1) if cursor.offset else b""
    read, left = given_out(data, path, offset=cursor.offset, line=cursor.line, before=before, final=final and at_end)
    offset, line = cursor.offset + len(read.data), cursor.line + read.data.count(b"\n")
    return LogRead(
        read=read,
        cursor=Cursor(inode=_inode(info), offset=offset, line=line, head=_landmarks(descriptor, offset)),
        error="",
        remedy="",
        missing=False,
        more=left or not at_end,
    )


def _inode(info: os.stat_result) -> int:
    """Some file systems use all 64 bits, tables hold 63."""
    return info.st_ino & _INODE_BITS


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


def given_out(data: bytes, path: str, *, offset: int, line: int, before: bytes, final: bool) -> tuple[LogBytes, bool]:
    """What of the bytes from `offset` on can be given out now, and whether more of them could be.

    What went before is told by the one byte in front: after anything but an end a line goes on that was too long.
    """
    skipping = before not in (b"", b"\n", b"\r")
    end = _end_of(data, skipping=skipping, final=final)
    used = _some_lines(data, end)
    return LogBytes(data=data[:used], file=path, offset=offset, line=line, cut=skipping), used < end


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


def _some_lines(data: bytes, end: int) -> int:
    """`end`, or where MOST_LINES lines end before it."""
    if end <= MOST_LINES or data.count(b"\n", 0, end) <= MOST_LINES:
        return end
    return len(data) - len(data.split(b"\n", MOST_LINES)[-1])
