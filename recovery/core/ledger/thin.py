"""Fewer samples that tell a ledger the same: what is kept of an attempt once its samples are gone.

Of each stretch of the clock the first and the last are kept, besides both sides of each fall of the step and both
neighbours of each moment that matters (`pins`). So thinning what was thinned before, with more added behind it, gives
the same as thinning all at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

Mark = tuple[int, int]  # moment in microseconds, step

STRETCHES = 512  # of one attempt, at most
SECOND = 1_000_000


def grid_of(length: int) -> int:
    """The stretch for an attempt of that many microseconds: the least power of two seconds that makes few enough."""
    grid = SECOND
    while grid * STRETCHES < length:
        grid *= 2
    return grid


def thin(marks: Iterable[Mark], *, grid: int, pins: Iterable[int] = ()) -> list[Mark]:
    """Those that are kept, by time. Costs n log n."""
    ordered = sorted(set(marks))
    kept = {0, len(ordered) - 1} if ordered else set()
    for index, (one, other) in enumerate(pairwise(ordered)):
        if one[0] // grid != other[0] // grid or other[1] < one[1]:
            kept |= {index, index + 1}
    for pin in pins:
        kept |= _around(ordered, pin)
    return [ordered[index] for index in sorted(kept)]


def _around(ordered: Sequence[Mark], pin: int) -> set[int]:
    """The last mark before the moment, those of the moment itself, and the first one after it."""
    first = bisect_left(ordered, pin, key=lambda mark: mark[0])
    after = bisect_right(ordered, pin, key=lambda mark: mark[0])
    return {index for index in range(first - 1, after + 1) if 0 <= index < len(ordered)}
