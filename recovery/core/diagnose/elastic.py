"""When torchelastic says that a process ended: its block is printed last, by every agent, but carries its own time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from recovery.core.types import Signal

TIME, ENDED = "elastic.time", ("elastic.child_failed", "elastic.segfault")
LINES = 8  # between the block's time and its exit code
EARLIER = timedelta(seconds=2)  # clocks of hosts differ by about this

_BLOCK = re.compile(r"(\d{4})-(\d\d)-(\d\d)_(\d\d):(\d\d):(\d\d)")
# PyTorch's log lines, [E1119 13:21:12…: month and day without a year
_GLOG = re.compile(r"\[[EWFI](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)")


def ended_at(signals: Sequence[Signal]) -> dict[int, datetime]:
    """By rank: when its process ended, as the blocks say; the earliest where several agents tell."""
    ends: dict[int, datetime] = {}
    told: Signal | None = None
    for signal in sorted(signals, key=lambda s: (s.file, s.line)):
        if signal.rule == TIME and signal.at is not None:
            told = signal
        elif told is not None and told.at is not None and _of_block(signal, told) and signal.rank is not None:
            ends[signal.rank] = min(ends.get(signal.rank, told.at), told.at)
            told = None
    return ends


def _of_block(signal: Signal, told: Signal) -> bool:
    near = signal.file == told.file and 0 < signal.line - told.line <= LINES
    return near and signal.rule in ENDED and "exitcode" in signal.text


def first_to_end(signals: Sequence[Signal], reports: Sequence[Signal]) -> int | None:
    """The rank that had ended before every other one, and before the first of the others' `reports` of a time-out."""
    ends = ended_at(signals)
    block = next((s for s in signals if s.rule == TIME and s.at is not None), None)
    times = [at for report in reports if (at := report.at or _like(block, report.text)) is not None]
    if not ends or not times:
        return None
    first = min(ends, key=lambda rank: ends[rank])
    others = [*times, *(at for rank, at in ends.items() if rank != first)]
    return first if min(others) - ends[first] > EARLIER else None


def _like(block: Signal | None, text: str) -> datetime | None:
    """The time of a line that names month and day alone, in the year and the time zone of a block."""
    if (
        block is None
        or block.at is None
        or not (told := _BLOCK.search(block.text))
        or not (found := _GLOG.search(text))
    ):
        return None
    year, month, day, hour, minute, second = map(int, told.groups())
    zone = block.at.tzinfo
    try:
        behind = datetime(year, month, day, hour, minute, second, tzinfo=zone) - block.at
        month, day, hour, minute, second = map(int, found.groups())
        return datetime(year, month, day, hour, minute, second, tzinfo=zone) - behind
    except ValueError:
        return None
