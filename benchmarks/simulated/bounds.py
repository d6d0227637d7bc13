"""How sure a count is: exact bounds, each of which is wrong once in forty times (so both together once in twenty)."""

from __future__ import annotations

import math
from collections.abc import Callable

WRONG = 0.025
HALVINGS = 60


def at_most(count: int, size: float) -> float:
    """The greatest rate per unit of `size` at which so few events as `count` are still likely (Poisson)."""

    def chance(expected: float) -> float:
        return sum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(count + 1))

    most = 10.0 + 3 * count
    return _where(lambda expected: chance(expected) > WRONG, 1e-9, most) / size if size else math.inf


def share_at_least(count: int, of: int) -> float:
    """The least share of which `count` out of `of` is still likely (Clopper and Pearson); 0 of nothing."""
    if not count:
        return 0.0

    def chance(share: float) -> float:
        log, rest = math.log(share), math.log1p(-share)
        return sum(math.exp(_choose(of, k) + k * log + (of - k) * rest) for k in range(count, of + 1))

    return _where(lambda share: chance(share) < WRONG, 1e-9, 1 - 1e-9)


def _choose(of: int, k: int) -> float:
    """The logarithm of how many ways there are."""
    return math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1)


def _where(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The last value at which it holds, by halving."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
