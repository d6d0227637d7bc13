"""How things are timed here: several rounds, the middle one counts, the spread is told."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one round: the median, and how far the others lie from it (relative)."""

    seconds: float
    spread: float


@dataclass(frozen=True, slots=True)
class Work:
    """Something to be timed; `before` runs ahead of each round, and isn't counted."""

    run: Callable[[], object]
    before: Callable[[], object] | None = None


def timed(work: Callable[[], object], *, rounds: int = ROUNDS, before: Callable[[], object] | None = None) -> Timing:
    """Time `work`; `before` runs ahead of each round, and isn't counted."""
    return _timing([_seconds(work, before) for _ in range(rounds)])


def side_by_side(
    works: Mapping[str, Work], *, rounds: int = ROUNDS, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Timing]:
    """Time several in turns, so that a machine that is busy with something else slows all of them alike.

    `clock`: time.process_time where nothing is waited for, so that only the work itself counts.
    """
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            taken[name].append(_seconds(work.run, work.before, clock))
    return {name: _timing(seconds) for name, seconds in taken.items()}


def _seconds(
    work: Callable[[], object],
    before: Callable[[], object] | None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    if before:
        before()
    began = clock()
    work()
    return clock() - began


def _timing(taken: list[float]) -> Timing:
    middle = statistics.median(taken)
    return Timing(middle, (max(taken) - min(taken)) / middle)
