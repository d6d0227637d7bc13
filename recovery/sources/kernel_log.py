"""Kernel log files of a site, one for all nodes or one a node (%N): followed by offset, from near their end at first.

The path is the operator's, so its own fixed folder is the root that no link leads out of.
"""

from __future__ import annotations

from pathlib import Path

from recovery.sources.cursor import Cursor
from recovery.sources.job_logs import LogRead, read_log

FIRST_BYTES = 262_144  # at the end of a file that was not read before: what is older is old news
_NODE = "%N"


def path_of(pattern: str, node: str) -> str:
    """The file of one node; names can't add folders."""
    return pattern.replace(_NODE, node.replace("/", "_").replace("\0", "_"))


def is_per_node(pattern: str) -> bool:
    return _NODE in pattern


def root_of(pattern: str) -> str:
    """The folder in front of the first place that a node's name fills."""
    return pattern.partition(_NODE)[0].rpartition("/")[0] or "/"


def read_on(path: str, pattern: str, cursor: Cursor) -> LogRead | None:
    """What was added to `path`; None where nothing was, by its size alone. Never raises on account of the file."""
    try:
        info = Path(path).stat()
    except (OSError, ValueError):
        info = None
    if info is not None:
        inode = info.st_ino & (2**63 - 1)
        if inode == cursor.inode and info.st_size == cursor.offset:
            return None
        if cursor == Cursor():
            cursor = Cursor(inode=inode, offset=max(0, info.st_size - FIRST_BYTES))
    return read_log(path, cursor, roots=(root_of(pattern),))
