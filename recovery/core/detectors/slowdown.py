"""Slowdown: a lasting drop of speed against the attempt's own normal.

Throughput where the trainer reports it (it stays level when the batch grows), else its step time, else the time between
two reports. One slow report is a save, an evaluation or a page fault; only a whole row of them counts. Where the
trainer counts its tokens, each of them must have become slower too: a curriculum makes steps longer on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from recovery.core.detectors.limits import Limits
from recovery.core.series import quantile
from recovery.core.speech import steps
from recovery.core.types import AttemptFacts, Evidence, Finding, FindingKind, JobState, Role, Sample

NEARLY_ALL = 0.8
NORMAL_SHARE = 0.25  # the quantile of its costs that is an attempt's normal


class Pace(NamedTuple):
    """How long one report's steps took, in a unit that only compares within one attempt: greater is slower."""

    at: datetime
    step: int
    cost: float


class Costs(NamedTuple):
    """What each report cost, and by which measure: throughput, step_time, reports (the time between two)."""

    measure: str
    ends: list[Sample]  # the reports
    costs: list[float]  # of each


def detect_slowdown(facts: AttemptFacts, limits: Limits) -> Finding | None:
    """A finding if every one of the last reports is much slower than the attempt's normal; None otherwise."""
    if facts.state is not JobState.RUNNING or facts.blind_reason:
        return None
    if (facts.now - facts.seen_at).total_seconds() > limits.stale_after_s:
        return None
    ends, costs = costs_of(facts.samples)[1:]
    costs = costs[limits.slow_warmup :]
    if _is_quick(costs, limits):
        return None
    normal = _usual(costs, limits)
    if normal is None:
        return None
    count = _slow_row(costs, normal * limits.slow_factor)
    if count < limits.slow_samples:
        return None
    first, slow, earlier = ends[-count], costs[-count:], costs[:-count]
    ratio = median(slow) / normal
    # A mixed load (long and short sequences) has slow reports in its normal life: the stretch must stand out of them.
    if ratio < limits.slow_factor or (earlier and median(slow) <= quantile(earlier, 0.95)):
        return None
    by_tokens = _ratio_by_tokens(ends, first)
    if by_tokens is not None and by_tokens < limits.slow_factor:
        return None  # longer sequences or a greater batch: each step does more, and that is its new normal
    reason = (
        f"Steps take {ratio:.1f} times as long as this attempt's normal since step {steps(first.step)}, "
        f"in each of the last {count} reports."
    )
    evidence = Evidence(text=reason, source="job log", role=Role.CONFIRMATION, rule="slowdown.row", at=first.at)
    return Finding(kind=FindingKind.SLOWDOWN, since=first.at, reason=reason, confidence=0.8, evidence=(evidence,))


def pace_is_back(facts: AttemptFacts, limits: Limits, *, found_at: datetime) -> bool:
    """Whether a whole row of reports is at the normal again that held when the slowdown was found.

    One good report among slow ones is not it, and an attempt that stays slow does not make that its normal.
    """
    paces = paces_of(facts.samples)[limits.slow_warmup :]
    normal = usual_cost([pace for pace in paces if pace.at <= found_at], limits)
    if normal is None:
        return False
    return all(pace.cost < normal * limits.slow_factor for pace in paces[-limits.slow_samples :])


def paces_of(samples: tuple[Sample, ...]) -> list[Pace]:
    """The pace of each report, by the best measure that nearly all of them carry; of several ranks, the first one's."""
    _, ends, costs = costs_of(samples)
    return [Pace(sample.at, sample.step, cost) for sample, cost in zip(ends, costs, strict=True)]


def costs_of(samples: Sequence[Sample]) -> Costs:
    """The same as lists: quicker, and this is asked for often."""
    if not samples:
        return Costs("reports", [], [])
    rank = samples[0].rank
    own = [s for s in samples if s.rank == rank]
    most = NEARLY_ALL * len(own)
    costs = [1 / s.throughput for s in own if s.throughput is not None and s.throughput > 0]
    if len(costs) > most:
        return Costs("throughput", [s for s in own if s.throughput is not None and s.throughput > 0], costs)
    costs = [s.step_time_s for s in own if s.step_time_s is not None and s.step_time_s > 0]
    if len(costs) > most:
        return Costs("step_time", [s for s in own if s.step_time_s is not None and s.step_time_s > 0], costs)
    pairs = [(a, b) for a, b in pairwise(own) if b.step > a.step and b.at > a.at]
    costs = [(b.at - a.at).total_seconds() / (b.step - a.step) for a, b in pairs]
    return Costs("reports", [b for _, b in pairs], costs)


def usual_cost(paces: list[Pace], limits: Limits) -> float | None:
    """The attempt's normal: its lower quartile, which holds until three quarters of all reports are slow."""
    return _usual([pace.cost for pace in paces], limits)


def _usual(costs: Sequence[float], limits: Limits) -> float | None:
    return quantile(costs, NORMAL_SHARE) if len(costs) >= limits.slow_baseline + limits.slow_samples else None


def _ratio_by_tokens(reports: Sequence[Sample], first: Sample) -> float | None:
    """How many times as long each token takes from `first` on as it did before; None where too few reports count them.

    What the trainer calls a step may grow on purpose, a token does not.
    """
    pairs = [(a, b) for a, b in pairwise(reports) if b.step > a.step]
    told = [
        (b, seconds * (b.step - a.step) / (b.tokens - a.tokens))
        for a, b in pairs
        if a.tokens is not None
        and b.tokens is not None
        and b.tokens > a.tokens
        and (seconds := b.step_time_s or (b.at - a.at).total_seconds() / (b.step - a.step)) > 0
    ]
    slow = [cost for report, cost in told if report.step >= first.step]
    before = [cost for report, cost in told if report.step < first.step]
    if len(told) <= NEARLY_ALL * len(pairs) or not slow or not before:
        return None
    return median(slow) / quantile(before, NORMAL_SHARE)


def _is_quick(costs: Sequence[float], limits: Limits) -> bool:
    """Whether the quickest of the last reports is no slow one, told without sorting.

    It is slow if the normal lies at `bound` or below, and then more than a quarter of all reports do.
    """
    bound = min(costs[-limits.slow_samples :], default=0.0) / limits.slow_factor * (1 + 1e-9)
    return sum([cost <= bound for cost in costs]) <= NORMAL_SHARE * (len(costs) - 1)


def _slow_row(costs: Sequence[float], threshold: float) -> int:
    """How many reports at the end are slow, without a break."""
    return next((n for n, cost in enumerate(reversed(costs)) if cost < threshold), len(costs))
