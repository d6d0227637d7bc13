"""How far a file was read, and whether a file is still the one that was read: by inode and by digests of its bytes."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from hashlib import blake2b

HEAD_BYTES = 1024
TAIL_BYTES = 256
INODE_BITS = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """How far a file was read: `offset` bytes, `line` line ends. `head` is opaque (58 characters at most)."""

    inode: int = 0
    offset: int = 0
    line: int = 0
    head: str = ""


def inode_of(info: os.stat_result) -> int:
    """Some file systems use all 64 bits, tables hold 63."""
    return info.st_ino & INODE_BITS


def continues(descriptor: int, info: os.stat_result, cursor: Cursor) -> bool:
    """Whether this is still the file that `cursor` stands in, with everything before the offset unchanged."""
    return cursor.inode == inode_of(info) and holds(descriptor, info, cursor)


def holds(descriptor: int, info: os.stat_result, cursor: Cursor) -> bool:
    """Whether the file, whichever it is, begins with what was read up to `cursor`; true of one without digests."""
    return cursor.offset <= info.st_size and cursor.head in ("", landmarks(descriptor, cursor.offset))


def landmarks(descriptor: int, offset: int) -> str:
    """Digests of the first bytes and of those before `offset`, as far as there are any."""
    tail = min(offset, TAIL_BYTES)
    pieces = (read_bytes(descriptor, 0, min(offset, HEAD_BYTES)), read_bytes(descriptor, offset - tail, tail))
    return ":".join(blake2b(piece, digest_size=14).hexdigest() for piece in pieces)


def read_bytes(descriptor: int, offset: int, count: int) -> bytes:
    """`count` bytes from `offset`, fewer only at the end of the file."""
    pieces: list[bytes] = []
    while count > 0 and (piece := os.pread(descriptor, count, offset)):
        pieces.append(piece)
        offset += len(piece)
        count -= len(piece)
    return b"".join(pieces)


def next_data(descriptor: int, offset: int, size: int) -> int:
    """Where the first byte from `offset` on lies that was ever written; the end of the file where none was.

    A writer that does not notice that its file was emptied goes on where it was, and leaves a hole in front.
    """
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        return max(offset, size) if error.errno == errno.ENXIO else offset  # else: can't be told on this file system
