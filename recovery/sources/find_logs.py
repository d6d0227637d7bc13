"""Which files a log pattern names now: found by what exists, below the allowed roots only, bounded.

Folders are opened as log files are (`recovery.sources.beneath`). What is no regular file is passed over, as a `*` may
well name folders beside; a link is followed, and judged when it is read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recovery.core.log_patterns import LogPattern
from recovery.sources.beneath import NotThere, Refused, open_folder, unreadable
from recovery.sources.job_logs import ROOTS_SETTING
from recovery.sources.marks import file_mark

MOST_FILES = 256  # of one pattern; the last one is among them, as many trainers report on their last rank
MOST_RANK = 2**31 - 1  # ranks are stored as 32-bit integers; a greater number in a name is none
MOST_ENTRIES = 50_000  # of folders that are looked through in one look


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundLog:
    """A file, and where its lines come from as far as its name tells."""

    path: str
    rank: int | None = None
    node: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundLogs:
    """What a pattern names now, lowest rank first. `refused`: a folder that can't be listed.

    `marks`: of the folders that were listed, taken before; while none changes, the pattern names the same files.
    `left_out`: files beyond MOST_FILES. `cut`: there are more than MOST_ENTRIES names, and not all were looked at.
    """

    files: tuple[FoundLog, ...]
    marks: Mapping[str, str] = field(default_factory=dict)
    refused: Refused | None = None
    left_out: int = 0
    cut: bool = False


def find_logs(pattern: LogPattern, *, roots: Sequence[str], since: float = 0) -> FoundLogs:
    """The regular files that `pattern` names. One that is not open is given out as it is, whether it exists or not.

    `since`: a Unix time; of an open pattern, files that nobody wrote to since then are somebody else's.
    """
    if not pattern.is_open:
        return FoundLogs(files=(FoundLog(path=pattern.text),))
    search = _Search(roots=roots, since=since)
    search.walk("", list(pattern.names), FoundLog(path=""))
    if pattern.any_host and not search.files:
        search.seen.clear()
        search.walk("", list(pattern.any_host), FoundLog(path=""))
    files = sorted(search.files, key=lambda log: (log.rank is None, log.rank or 0, log.path))
    left_out = max(0, len(files) - MOST_FILES)
    if left_out:
        files[MOST_FILES - 1 :] = files[-1:]
    return FoundLogs(
        files=tuple(files), marks=search.marks, refused=search.refused, left_out=left_out,
        cut=search.entries > MOST_ENTRIES,
    )  # fmt: skip


@dataclass(slots=True)
class _Search:
    roots: Sequence[str]
    since: float
    files: list[FoundLog] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    refused: Refused | None = None
    entries: int = 0
    seen: set[tuple[int, int, int]] = field(default_factory=set)

    def walk(self, folder: str, names: list[str | re.Pattern[str]], found: FoundLog) -> None:
        """Look below `folder` for what the rest of the names say."""
        while names and isinstance(names[0], str):
            folder, names = f"{folder}/{names[0]}", names[1:]
        if not names:
            self._take(replace(found, path=folder))
            return
        for entry in self._entries(folder, len(names)):
            hit = re.fullmatch(names[0], entry.name) if entry.name.isprintable() else None
            if hit is None:
                continue
            here = _placed(f"{folder}/{entry.name}", hit, found)
            if names[1:]:
                if _is_folder(entry):
                    self.walk(here.path, names[1:], here)
            else:
                self._take(here)

    def _take(self, found: FoundLog) -> None:
        try:
            info = Path(found.path).stat()
        except OSError:
            return
        if stat.S_ISREG(info.st_mode) and info.st_mtime >= self.since:
            self.files.append(found)

    def _entries(self, folder: str, depth: int) -> Iterator[os.DirEntry[str]]:
        """`depth`: how many names are still to come. A folder that links lead to again has nothing else to show."""
        mark = file_mark(folder or "/")
        try:
            descriptor = open_folder(folder or "/", roots=self.roots, setting=ROOTS_SETTING)
        except NotThere:
            return
        except Refused as refused:
            self.refused = refused
            return
        self.marks[folder or "/"] = mark
        try:
            info = os.fstat(descriptor)
            if (info.st_dev, info.st_ino, depth) in self.seen:
                return
            self.seen.add((info.st_dev, info.st_ino, depth))
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    self.entries += 1
                    if self.entries > MOST_ENTRIES:
                        return
                    yield entry
        except OSError as error:
            self.refused = unreadable(error, folder)
        finally:
            os.close(descriptor)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _placed(path: str, hit: re.Match[str], found: FoundLog) -> FoundLog:
    groups = hit.groupdict()
    rank = int(groups["rank"]) if groups.get("rank") else found.rank
    if rank is not None and rank > MOST_RANK:
        rank = None
    return FoundLog(path=path, rank=rank, node=groups.get("node") or found.node)
