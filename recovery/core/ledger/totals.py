"""Sums of ledgers: what is stored and added up for windows and groups.

All are integers (microseconds, and microseconds times GPUs), so that any order and grouping of the same parts gives the
same sum, and a database adds them as well as Python does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import add

from recovery.core.ledger.entries import Category, Entry, Ledger
from recovery.core.ledger.spans import MICROSECOND

PLACE = {category: index for index, category in enumerate(Category)}
NOTHING = (0,) * len(Category)

# The published ratios know no pace: a slow step is a step. How much of the time was slowed is shown beside them.
PRODUCTIVE = (Category.KEPT, Category.NOT_YET_KEPT, Category.SLOWED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Time by category, in the order of `Category`. Zero is the neutral element of `+`."""

    time_us: tuple[int, ...] = NOTHING
    gpu_us: tuple[int, ...] = NOTHING
    before_start_us: int = 0  # of the time, what went before the run first left the queue

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            time_us=tuple(map(add, self.time_us, other.time_us)),
            gpu_us=tuple(map(add, self.gpu_us, other.gpu_us)),
            before_start_us=self.before_start_us + other.before_start_us,
        )

    def time(self, *categories: Category) -> int:
        """Microseconds in these categories."""
        return sum(self.time_us[PLACE[category]] for category in categories)

    def gpu_time(self, *categories: Category) -> int:
        """GPU-microseconds in these categories."""
        return sum(self.gpu_us[PLACE[category]] for category in categories)

    @property
    def wall_us(self) -> int:
        return sum(self.time_us)

    @property
    def allocated_us(self) -> int:
        """GPU-microseconds of all allocations."""
        return sum(self.gpu_us)


def clip(entries: Iterable[Entry], start: datetime, end: datetime) -> Iterator[Entry]:
    """The parts of `entries` between `start` and `end`, cut exactly."""
    for entry in entries:
        if entry.start >= start and entry.end <= end:
            yield entry
        elif entry.start < end and entry.end > start:
            yield replace(entry, start=max(entry.start, start), end=min(entry.end, end))


def totals_of(ledger: Ledger, *, start: datetime | None = None, end: datetime | None = None) -> Totals:
    """The sums of one ledger, of all of it or from `start` up to `end`."""
    if not ledger.entries:
        return Totals()
    since = max(start, ledger.entries[0].start) if start is not None else ledger.entries[0].start
    until = min(end, ledger.entries[-1].end) if end is not None else ledger.entries[-1].end
    return _sum(clip(ledger.entries, since, until), ledger.first_start)


def totals_by_window(ledger: Ledger, edges: Sequence[datetime]) -> list[Totals]:
    """The sums from each of `edges` (rising) up to the next, one fewer than edges: a run's days, say, in one pass."""
    parts: list[list[Entry]] = [[] for _ in edges[1:]]
    window = 0
    for entry in ledger.entries:
        while window < len(parts) and edges[window + 1] <= entry.start:
            window += 1
        for later in range(window, len(parts)):
            if edges[later] >= entry.end:
                break
            parts[later] += clip([entry], edges[later], edges[later + 1])
    return [_sum(part, ledger.first_start) for part in parts]


def _sum(entries: Iterable[Entry], first_start: datetime | None) -> Totals:
    time_us, gpu_us = [0] * len(Category), [0] * len(Category)
    before = 0
    for entry in entries:
        place = PLACE[entry.category]
        length = (entry.end - entry.start) // MICROSECOND
        time_us[place] += length
        gpu_us[place] += length * entry.gpus
        if first_start is None or entry.start < first_start:
            until = entry.end if first_start is None else min(entry.end, first_start)
            before += (until - entry.start) // MICROSECOND
    return Totals(time_us=tuple(time_us), gpu_us=tuple(gpu_us), before_start_us=before)
