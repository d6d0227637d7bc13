"""Slowdown: a lasting drop of speed against the attempt's own normal.

Throughput where the trainer reports it (it stays level when the batch grows), else its step time, else the time between
two reports. One slow report is a save, an evaluation or a page fault; only a whole row of them counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median

from recovery.core.detectors.limits import Limits
from recovery.core.series import quantile
from recovery.core.speech import steps
from recovery.core.types import AttemptFacts, Evidence, Finding, FindingKind, JobState, Role, Sample

NEARLY_ALL = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How long one report's steps took, in a unit that only compares within one attempt: greater is slower."""

    at: datetime
    step: int
    cost: float


def detect_slowdown(facts: AttemptFacts, limits: Limits) -> Finding | None:
    """A finding if every one of the last reports is much slower than the attempt's normal; None otherwise."""
    if facts.state is not JobState.RUNNING or facts.blind_reason:
        return None
    if (facts.now - facts.seen_at).total_seconds() > limits.stale_after_s:
        return None
    paces = paces_of(facts.samples)[limits.slow_warmup :]
    normal = usual_cost(paces, limits)
    if normal is None:
        return None
    slow = _slow_stretch(paces, normal * limits.slow_factor)
    if len(slow) < limits.slow_samples:
        return None
    earlier = [p.cost for p in paces[: len(paces) - len(slow)]]
    ratio = median(p.cost for p in slow) / normal
    # A mixed load (long and short sequences) has slow reports in its normal life: the stretch must stand out of them.
    if ratio < limits.slow_factor or (earlier and median(p.cost for p in slow) <= quantile(earlier, 0.95)):
        return None
    reason = (
        f"Steps take {ratio:.1f} times as long as this attempt's normal since step {steps(slow[0].step)}, "
        f"in each of the last {len(slow)} reports."
    )
    evidence = Evidence(text=reason, source="job log", role=Role.CONFIRMATION, rule="slowdown.row", at=slow[0].at)
    return Finding(kind=FindingKind.SLOWDOWN, since=slow[0].at, reason=reason, confidence=0.8, evidence=(evidence,))


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
    samples = tuple(s for s in samples if s.rank == samples[0].rank)
    for measure in (_by_throughput, _by_step_time):
        paces = [Pace(at=s.at, step=s.step, cost=cost) for s in samples if (cost := measure(s)) is not None]
        if len(paces) > NEARLY_ALL * len(samples):
            return paces
    pairs = [(a, b) for a, b in pairwise(samples) if b.step > a.step and b.at > a.at]
    return [Pace(at=b.at, step=b.step, cost=(b.at - a.at).total_seconds() / (b.step - a.step)) for a, b in pairs]


def _by_throughput(sample: Sample) -> float | None:
    return 1 / sample.throughput if sample.throughput is not None and sample.throughput > 0 else None


def _by_step_time(sample: Sample) -> float | None:
    return sample.step_time_s if sample.step_time_s is not None and sample.step_time_s > 0 else None


def usual_cost(paces: list[Pace], limits: Limits) -> float | None:
    """The attempt's normal: its lower quartile, which holds until three quarters of all reports are slow."""
    if len(paces) < limits.slow_baseline + limits.slow_samples:
        return None
    return quantile([p.cost for p in paces], 0.25)


def _slow_stretch(paces: list[Pace], threshold: float) -> list[Pace]:
    """The unbroken row of slow reports at the end."""
    count = 0
    for pace in reversed(paces):
        if pace.cost < threshold:
            break
        count += 1
    return paces[len(paces) - count :]
