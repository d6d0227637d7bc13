"""Figures over many runs: any window, any group.

A summary is a sum of parts, in any order and grouping; the figures are computed from the sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from itertools import chain
from operator import add
from types import MappingProxyType
from typing import TypeVar

from recovery.core.ledger.entries import Category
from recovery.core.ledger.incidents import GAPS, IncidentAccount
from recovery.core.ledger.totals import PRODUCTIVE, Totals
from recovery.core.series import quantile

SECOND = 1_000_000
THOUSAND_HOURS = 1000 * 3600 * SECOND

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Totals, interruptions, and every gap that was seen, sorted, in microseconds, by the name that `Gaps` gives it."""

    totals: Totals = field(default_factory=Totals)
    interruptions: int = 0
    gaps: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType(dict.fromkeys(GAPS, ())))

    def __add__(self, other: Summary) -> Summary:
        return combine((self, other))


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """Seconds. Percentiles are interpolated between the two values around them (`recovery.core.series.quantile`)."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float


def summarise(totals: Iterable[Totals], accounts: Iterable[IncidentAccount] = ()) -> Summary:
    """One summary of many parts. Gaps and counts are of interruptions only."""
    stops = [account for account in accounts if account.interruption]
    gaps = {name: tuple(sorted(us for a in stops if (us := getattr(a.gaps, name)) is not None)) for name in GAPS}
    return Summary(totals=reduce(add, totals, Totals()), interruptions=len(stops), gaps=MappingProxyType(gaps))


def combine(parts: Iterable[Summary]) -> Summary:
    """The sum of many summaries at once; costs n log n where adding one by one would sort again and again."""
    parts = tuple(parts)
    gaps = {name: tuple(sorted(chain.from_iterable(part.gaps[name] for part in parts))) for name in GAPS}
    return Summary(
        totals=reduce(add, (part.totals for part in parts), Totals()),
        interruptions=sum(part.interruptions for part in parts),
        gaps=MappingProxyType(gaps),
    )


def within(accounts: Iterable[IncidentAccount], start: datetime, end: datetime) -> list[IncidentAccount]:
    """The incidents of a window: those whose fault lies in it, so that adjacent windows share none."""
    return [account for account in accounts if start <= account.fault_at < end]


def grouped(parts: Iterable[tuple[Key, Summary]]) -> dict[Key, Summary]:
    """The sum of each group: of a user's runs, a partition's, …"""
    groups: dict[Key, list[Summary]] = defaultdict(list)
    for key, part in parts:
        groups[key].append(part)
    return {key: combine(own) for key, own in groups.items()}


def effective_training_time_ratio(totals: Totals) -> float | None:
    """Productive ÷ wall time, the queue included; None where there is no wall time."""
    return _ratio(totals.time(*PRODUCTIVE), totals.wall_us)


def goodput(totals: Totals) -> float | None:
    """Productive ÷ time since the run first left the queue; None where it never did."""
    return _ratio(totals.time(*PRODUCTIVE), totals.wall_us - totals.before_start_us)


def gpu_goodput(totals: Totals) -> float | None:
    """Productive ÷ held, in GPU-seconds; None where no GPU was held."""
    return _ratio(totals.gpu_time(*PRODUCTIVE), totals.allocated_us)


def badput(totals: Totals) -> dict[Category, float]:
    """The share of each unproductive category in the time since the run first left the queue.

    Together with `goodput` they sum to 1. Empty where it never left the queue.
    """
    since_start = totals.wall_us - totals.before_start_us
    if since_start <= 0:
        return {}
    rest = [category for category in Category if category not in PRODUCTIVE]
    first_queue = {Category.QUEUE_WAIT: totals.before_start_us}
    return {c: (totals.time(c) - first_queue.get(c, 0)) / since_start for c in rest}


def interruptions_per_1000_gpu_hours(summary: Summary) -> float | None:
    """Per 1,000 hours of held GPUs; None where none was held."""
    held = summary.totals.allocated_us
    return summary.interruptions * THOUSAND_HOURS / held if held > 0 else None


def spread(values_us: tuple[int, ...]) -> Spread | None:
    """Mean and percentiles of gaps; None where none was seen."""
    if not values_us:
        return None
    p50, p90, p99 = (quantile(values_us, share) / SECOND for share in (0.5, 0.9, 0.99))
    mean = sum(values_us) / len(values_us) / SECOND
    return Spread(count=len(values_us), mean=mean, p50=p50, p90=p90, p99=p99)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None
