"""Marks of files and folders: while a mark is the same, nothing was added, removed, written or allowed since.

One stat, nothing is opened. On a network file system the answer may be as old as its attribute cache (NFS: acregmax,
acdirmax, 60 s where nobody says otherwise): what is concluded from silence must come from a real read.
"""

from __future__ import annotations

import os
import time

LIKE_A_TICK_NS = 50_000_000  # time stamps are as coarse as the kernel's tick: a change right after one may not show
NONE = "none"  # the mark of no folder
_ABSENT = "absent"


def file_mark(path: str) -> str:
    """Which file it is, how long, and when it was last written or its rights were changed."""
    try:
        info = os.stat(path)  # noqa: PTH116 - of thousands of files in a row: a Path is dearer than the call
    except (OSError, ValueError) as error:
        return _absent(error)
    return f"{info.st_ino}:{info.st_size}:{info.st_mtime_ns}:{info.st_ctime_ns}"


def folder_mark(path: str) -> str:
    """Which folder it is, and when a name in it came, went or was given a file anew, or its rights were changed.

    "" where that was so short ago that the next change might look the same. What is written inside a file of it, or
    below a folder of it, does not show.
    """
    if not path:
        return NONE
    try:
        info = os.stat(path)  # noqa: PTH116 - of thousands of files in a row: a Path is dearer than the call
    except (OSError, ValueError) as error:
        return _absent(error)
    if abs(time.time_ns() - info.st_ctime_ns) < LIKE_A_TICK_NS:
        return ""
    return f"{info.st_ino}:{info.st_mtime_ns}:{info.st_ctime_ns}"


def is_absent(mark: str) -> bool:
    return mark.startswith(_ABSENT)


def _absent(error: OSError | ValueError) -> str:
    return f"{_ABSENT}: {error.errno}" if isinstance(error, OSError) else _ABSENT
