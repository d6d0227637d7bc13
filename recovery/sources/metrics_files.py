"""Finding metrics files, and the two files of NVRx (NVIDIA's resiliency extension) that tell of checkpoints and cycles.

- `--ft-checkpoint-iteration-file`: the iteration of the newest checkpoint, as its tracker reads it.
- `--ft-cycle-info-dir`: a file `cycle_info.JOB.ATTEMPT.CYCLE` (JSON) for each start of the workers.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from recovery.core.logs.lines import MAX_STEP
from recovery.sources.beneath import NotThere, Refused, open_file, opened_folder, unreadable

ROOTS_SETTING = "RECOVERY_LOG_ROOTS"
MOST_FILES = 64  # of one pattern
MOST_ENTRIES = 20_000  # of one folder that are looked at
MOST_CYCLES = 100  # files of cycles that are opened in one look
SMALL = 64 * 1024  # bytes of an NVRx file that are read
_CYCLE = re.compile(r"cycle_info\.(?P<job>[A-Za-z0-9_+]{1,40})\.(?P<attempt>[0-9]{1,9})\.(?P<cycle>[0-9]{1,9})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """`error` and `remedy` are sentences where nothing can be told, else ""."""

    paths: tuple[str, ...] = ()
    error: str = ""
    remedy: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cycle:
    """One start of the workers within an attempt. Times are None where the file has none (yet)."""

    number: int
    started_at: datetime | None
    ended_at: datetime | None
    nodes: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Cycles:
    """In order; empty where there are none (yet). `error`: why the folder can't be read. `missing`: there is none."""

    cycles: tuple[Cycle, ...] = ()
    error: str = ""
    missing: bool = False


def find_files(pattern: str, *, roots: Sequence[str]) -> Found:
    """The last 64 regular files that `pattern` names, by name; a wildcard (* ? [ ]) in a folder stands for itself."""
    folder, _, name = pattern.rpartition("/")
    if not any(char in name for char in "*?["):
        return Found(paths=(pattern,))
    try:
        names = _names(folder, roots)
    except NotThere:
        return Found()
    except Refused as refused:
        return Found(error=refused.sentence, remedy=refused.remedy)
    found = sorted(each for each in names if fnmatch.fnmatchcase(each, name))
    return Found(paths=tuple(f"{folder}/{each}" for each in found[-MOST_FILES:]))


def _names(folder: str, roots: Sequence[str]) -> list[str]:
    try:
        with opened_folder(folder, roots=roots, setting=ROOTS_SETTING) as at, os.scandir(at) as entries:
            names = [entry.name for entry in islice(entries, MOST_ENTRIES)]
    except OSError as error:
        raise unreadable(error, folder) from None
    return [name for name in names if name.isprintable()]  # another can't be kept in a database


@dataclass(frozen=True, kw_only=True, slots=True)
class Iteration:
    """What the checkpoint iteration file holds, and when it was written. `step` is None where it holds no number."""

    step: int | None = None
    written_at: datetime | None = None
    error: str = ""
    remedy: str = ""


def read_iteration(path: str, *, roots: Sequence[str]) -> Iteration:
    """Never raises on account of the file."""
    try:
        text, written_at = _small(path, roots)
    except NotThere:
        return Iteration()
    except Refused as refused:
        return Iteration(error=refused.sentence, remedy=refused.remedy)
    digits = text.strip()
    known = digits.isascii() and digits.isdigit() and len(digits) <= len(str(MAX_STEP)) and int(digits) <= MAX_STEP
    return Iteration(step=int(digits) if known else None, written_at=written_at)


def read_cycles(
    folder: str, *, job_id: str, attempt: int, since: datetime | None, roots: Sequence[str], newest: int = 20
) -> Cycles:
    """The newest cycles of one attempt.

    NVRx takes the attempt's number from a variable that Slurm doesn't set, so after a requeue it begins again with 0:
    unless files have the right number, those count that began `since` the attempt did.
    """
    try:
        names = _names(folder, roots)
    except NotThere:
        return Cycles(missing=True)
    except Refused as refused:
        return Cycles(error=refused.sentence)
    found = [match for match in map(_CYCLE.fullmatch, names) if match and match["job"] == job_id]
    own = [match for match in found if int(match["attempt"]) == attempt]
    wanted = own or [match for match in found if int(match["attempt"]) == 0]
    wanted.sort(key=lambda match: int(match["cycle"]), reverse=True)
    cycles: list[Cycle] = []
    for match in wanted[:MOST_CYCLES]:
        cycle = _cycle(f"{folder}/{match[0]}", int(match["cycle"]), roots)
        if cycle is not None and (own or _began(cycle, since)):
            cycles.append(cycle)
        if len(cycles) >= newest:
            break
    return Cycles(cycles=tuple(reversed(cycles)))


def _began(cycle: Cycle, since: datetime | None) -> bool:
    return cycle.started_at is not None and since is not None and cycle.started_at >= since


def _cycle(path: str, number: int, roots: Sequence[str]) -> Cycle | None:
    try:
        told = json.loads(_small(path, roots)[0])
    except (NotThere, Refused, ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    started, ended = (_moment(told.get(name)) for name in ("cycle_start_time", "cycle_end_time"))
    nodes = "".join(char for char in str(told.get("active_nodes") or "")[:300] if char.isprintable())
    return Cycle(number=number, started_at=started, ended_at=ended, nodes=nodes)


def _moment(value: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) and value else None
    except ValueError:
        return None
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)  # NVRx writes UTC


def _small(path: str, roots: Sequence[str]) -> tuple[str, datetime]:
    descriptor = open_file(path, roots=roots, setting=ROOTS_SETTING)
    try:
        data = os.read(descriptor, SMALL)
        written = os.fstat(descriptor).st_mtime
    except OSError as error:
        raise unreadable(error, path) from None
    finally:
        os.close(descriptor)
    return data.decode("utf-8", "replace"), datetime.fromtimestamp(max(0.0, min(written, 4e9)), UTC)
