"""Entries cut into the pieces that are stored: whatever they are later grouped by, a sum is a sum of whole pieces."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from recovery.core.ledger.entries import Category, Ledger
from recovery.core.ledger.spans import to_datetime, to_us

DAY = 86_400_000_000  # microseconds; days are those of UTC

Since = tuple[int, int]  # from this moment (microseconds) on it is this one


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """A part of an entry that lies in one day, belongs to one job, and went by under one version of the policy."""

    start: int
    end: int
    day: date
    category: Category
    gpus: int
    job: int
    policy: int
    before_start: bool


def day_of(us: int) -> date:
    return to_datetime(us).date()


def slices_of(ledger: Ledger, *, jobs: Sequence[Since], policies: Sequence[Since]) -> list[Slice]:
    """The ledger in slices. `jobs` and `policies`: since when which one counts, by time; before the first job that one
    counts, before the first policy 0.
    """
    first_start = None if ledger.first_start is None else to_us(ledger.first_start)
    edges = sorted({at for at, _ in (*jobs, *policies)} | ({first_start} if first_start is not None else set()))
    result = []
    for entry in ledger.entries:
        for start, end in _cut(to_us(entry.start), to_us(entry.end), edges):
            result.append(
                Slice(
                    start=start, end=end, day=day_of(start), category=entry.category, gpus=entry.gpus,
                    job=holding(jobs, start, before=jobs[0][1]), policy=holding(policies, start, before=0),
                    before_start=first_start is None or start < first_start,
                )
            )  # fmt: skip
    return result


def holding(since: Sequence[Since], at: int, *, before: int) -> int:
    """Which one counts at a moment."""
    place = bisect_right(since, at, key=lambda each: each[0])
    return since[place - 1][1] if place else before


def _cut(start: int, end: int, edges: Sequence[int]) -> Iterator[tuple[int, int]]:
    place = bisect_right(edges, start)
    while start < end:
        until = min(end, (start // DAY + 1) * DAY)
        if place < len(edges) and edges[place] <= until:
            until, place = min(until, edges[place]), place + 1
        yield start, until
        start = until
