"""Rotated logs: where the file that was followed is now, and which one was written after it.

Renamed: its inode has another name in the folder. Copied away and emptied in place (logrotate's `copytruncate`): a file
with a rotation's name that begins with exactly what was read. Either is recognised by its bytes, for an inode's number
is given anew as soon as its file is gone; and it is opened as every log is, within the allowed roots alone.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from recovery.sources.beneath import NotThere, Refused, open_file, opened_folder
from recovery.sources.cursor import INODE_BITS, Cursor, continues, holds, inode_of

MOST_NEIGHBOURS = 10_000  # names in the folder of a log that are looked at
MOST_COPIES = 64  # of those with a rotation's name that are opened
_NUMBERED = re.compile(r"\.(?P<number>[0-9]{1,3})")  # logrotate's .1, the newest, .2, …
_DATED = re.compile(r"[.-](?P<date>[0-9]{6,14})")  # its dateext: -20260203, -2026020313
_OTHER = re.compile(r"[.~_-](?:old|bak)|~")


def renamed(path: str, cursor: Cursor, *, roots: Sequence[str], setting: str) -> str:
    """The name that the followed file has now, "" where it still has its own, or none that begins like it."""
    try:
        if inode_of(Path(path).stat()) == cursor.inode:
            return ""
    except (OSError, ValueError):
        pass
    for name, inode in _neighbours(path, roots, setting):
        if inode == cursor.inode and _inode_where(name, cursor, roots, setting, same_file=True):
            return name
    return ""


def copied(path: str, cursor: Cursor, *, roots: Sequence[str], setting: str) -> tuple[str, Cursor] | None:
    """The copy that was made of the followed file before it was emptied, with the place in it; None: none is found."""
    if not cursor.head or not cursor.offset:
        return None
    found = sorted(name for name, _ in _neighbours(path, roots, setting) if _is_rotation(name[len(path) :]))
    for name in found[:MOST_COPIES]:
        if inode := _inode_where(name, cursor, roots, setting, same_file=False):
            place = Cursor(inode=inode, offset=cursor.offset, line=cursor.line, head=cursor.head)
            return name, place
    return None


def written_after(name: str, path: str, *, roots: Sequence[str], setting: str) -> str:
    """The rotated file of `path` that was begun after the rotated file `name` was ended; "" where it is `path`."""
    suffix = name[len(path) :]
    others = {other[len(path) :] for other, _ in _neighbours(path, roots, setting)}
    if numbered := _NUMBERED.fullmatch(suffix):
        newer = f".{int(numbered['number']) - 1}"
        return path + newer if newer in others and newer != suffix else ""
    if _DATED.fullmatch(suffix):
        later = (each for each in others if _DATED.fullmatch(each) and len(each) == len(suffix) and each > suffix)
        return min((path + each for each in later), default="")
    return ""


def _is_rotation(suffix: str) -> bool:
    return any(shape.fullmatch(suffix) for shape in (_NUMBERED, _DATED, _OTHER))


def _neighbours(path: str, roots: Sequence[str], setting: str) -> Iterator[tuple[str, int]]:
    """Path and inode of what lies beside `path` and begins with its name; another than plain text no table keeps."""
    folder, _, name = path.rpartition("/")
    try:
        with opened_folder(folder or "/", roots=roots, setting=setting) as at, os.scandir(at) as entries:
            for entry in itertools.islice(entries, MOST_NEIGHBOURS):
                if entry.name.startswith(name) and entry.name != name and entry.name.isprintable():
                    yield f"{folder}/{entry.name}", entry.inode() & INODE_BITS
    except (NotThere, Refused, OSError):
        return


def _inode_where(name: str, cursor: Cursor, roots: Sequence[str], setting: str, *, same_file: bool) -> int:
    """The inode of a file that begins with what was read up to `cursor`; 0 where it doesn't, or can't be opened."""
    try:
        descriptor = open_file(name, roots=roots, setting=setting)
    except (NotThere, Refused):
        return 0
    try:
        info = os.fstat(descriptor)
        found = (continues if same_file else holds)(descriptor, info, cursor)
        return inode_of(info) if found else 0
    except OSError:
        return 0
    finally:
        os.close(descriptor)
