"""Part of watch: which attempts of a batch need no look at all now.

Nothing of them has changed, their last judgement still holds, and no source has anything new: four statements for the
whole batch, and a stat for each log and each checkpoint folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from recovery.models import Attempt, LogFile
from recovery.pipeline.judge import RESTS_ON, digest
from recovery.pipeline.look_at_checkpoints import folder_is_quiet
from recovery.pipeline.sources import SOURCES
from recovery.sources.marks import file_mark

_COLUMNS = (
    "pk", "started_at", "quiet_of", "job__cluster__poll_interval_s",
    "job__run__checkpoint_dir", "job__run__folder_mark", "job__run__folder_read_at",
)  # fmt: skip


class Quiet(NamedTuple):
    """An attempt that needs no look."""

    key: int
    poll_interval_s: float
    has_logs: bool


def quiet_attempts(keys: Sequence[int], site: str, *, now: datetime) -> list[Quiet]:
    """Those of `keys` that need no look."""
    quiet: dict[int, Quiet] = {}
    rows = Attempt.objects.filter(pk__in=keys, quiet_until__gt=now).values_list(*_COLUMNS, *RESTS_ON)
    for key, started_at, quiet_of, interval, folder, mark, read_at, *rests_on in rows:
        if quiet_of == digest(rests_on, site) and (
            started_at is None or folder_is_quiet(folder, mark, read_at, now=now)
        ):
            quiet[key] = Quiet(key, interval, started_at is not None)
    for loud in _with_news(list(quiet)) if quiet else ():
        quiet.pop(loud, None)
    return list(quiet.values())


def _with_news(keys: Sequence[int]) -> set[int]:
    """Those of `keys` of which a source has something to say."""
    loud = {key for source in SOURCES for key in source.wants(keys)}
    for key, path, mark in LogFile.objects.filter(attempt_id__in=keys).values_list("attempt_id", "path", "mark"):
        if key not in loud and (not mark or mark != file_mark(path)):
            loud.add(key)
    return loud
