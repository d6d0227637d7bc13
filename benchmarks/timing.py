"""How things are timed here: several rounds, the middle one counts, the spread is told."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one round: the median, and how far the others lie from it (relative)."""

    seconds: float
    spread: float


def timed(work: Callable[[], object], *, rounds: int = ROUNDS, before: Callable[[], object] | None = None) -> Timing:
    """Time `work`; `before` runs ahead of each round, and isn't counted."""
    taken = []
    for _ in range(rounds):
        if before:
            before()
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    middle = statistics.median(taken)
    return Timing(middle, (max(taken) - min(taken)) / middle)
