"""How long a judgement holds: until when, and under how many more reports, no detector can find anything new.

After one full judgement of a running attempt most looks need no samples at all. Two things can make a finding of what
is healthy now: time (silence becomes a hang) and reports (a row of slow ones becomes a slowdown). For each there is a
bound here that never lies on the wrong side: within it a full judgement would find nothing, beyond it one is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from recovery.core.detectors.hang import Due, earliest_hang, next_due
from recovery.core.detectors.limit_near import looks_from
from recovery.core.detectors.limits import Limits
from recovery.core.detectors.slowdown import NORMAL_SHARE, costs_of
from recovery.core.types import AttemptFacts, JobState, Sample

SAFETY = timedelta(minutes=10)  # whatever is known, a judgement of what stays the same is made anew this often
WITNESS = timedelta(minutes=1)  # of a silence that would be long enough if something else told of it: asked so often
ANY = 1e300  # a cost that no report reaches


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Which reports may come without a slowdown being possible.

    `below`: a report that costs less than this breaks every row of slow ones. The attempt's normal is a quantile, which
    each report moves by one place at most: within `left` more reports it can't fall below what `below` was taken from.
    `slow`: so many reports at the end may be slow ones. `step`, `at`, `rank`: the newest report, and whose it was.
    """

    measure: str  # what a report's cost is taken from: throughput, step_time, reports (the time between two)
    rank: int
    step: int
    at: datetime
    below: float
    slow: int
    left: int

    def as_json(self) -> dict[str, Any]:
        return {
            "measure": self.measure, "rank": self.rank, "step": self.step, "at": self.at.isoformat(),
            "below": self.below, "slow": self.slow, "left": self.left,
        }  # fmt: skip

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self | None:
        """None for {}: every report needs a full judgement."""
        return cls(**{**stored, "at": datetime.fromisoformat(stored["at"])}) if stored else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Quiet:
    """Nothing can be found before `until`, unless what was judged changes; `why` is what was due first.

    `pace` tells which reports change nothing; None: every report needs a full judgement.
    """

    until: datetime
    why: str
    pace: Pace | None = None


def how_long(facts: AttemptFacts, limits: Limits, *, trains: bool) -> Quiet:
    """How long a judgement of `facts` holds that was made on a fresh picture and found nothing.

    `trains`: whether silence and slowness of this attempt mean anything; where not, only its end does.
    """
    safety = Quiet(until=facts.now + SAFETY, why="it is judged anew now and then")
    if facts.state is not JobState.RUNNING or not trains:
        return safety
    safety = replace(safety, pace=_pace(facts.samples, limits), until=_by_limit(facts, limits, safety.until))
    due = next_due(facts, limits)
    if due is None or facts.blind_reason:
        return safety
    at = overdue_from(facts, due)
    return replace(safety, until=at, why=due.sentence) if at < safety.until else safety


def overdue_from(facts: AttemptFacts, due: Due) -> datetime:
    """When its silence becomes a hang; sooner where it could become one by what may be seen meanwhile."""
    at = due.since + timedelta(seconds=due.limit_s)
    if due.least_s >= due.limit_s:
        return at
    return min(at, max(due.since + timedelta(seconds=due.least_s), facts.now + WITNESS))


def _by_limit(facts: AttemptFacts, limits: Limits, until: datetime) -> datetime:
    """`until`, or sooner where the time limit comes near: it is asked when the next checkpoint is due then."""
    near = looks_from(facts, limits)
    if near is None or facts.blind_reason:
        return until
    return min(until, max(near, facts.now + timedelta(seconds=limits.limit_look_s)))


def after_reports(facts: AttemptFacts, limits: Limits, until: datetime) -> datetime:
    """How long a judgement that was to hold `until` holds when reports have come that changed nothing."""
    near = looks_from(facts, limits)
    within = near is not None and until >= near  # it was to be made anew for the limit's sake
    return min(earliest_hang(facts, limits), until) if within else earliest_hang(facts, limits)


def after(pace: Pace, samples: Sequence[Sample], limits: Limits) -> Pace | None:
    """What still holds when `samples` have come, oldest first; None where a full judgement is needed."""
    for sample in samples:
        if sample.rank < pace.rank:
            return None  # a lower rank reports from now on: detectors look at that one
        if sample.rank > pace.rank:
            continue
        if sample.step <= pace.step or pace.left < 1:
            return None
        cost = _cost(sample, pace)
        if cost is None:
            return None
        slow = pace.slow + 1 if cost >= pace.below else 0
        if slow >= limits.slow_samples:
            return None
        pace = Pace(
            measure=pace.measure, rank=pace.rank, step=sample.step, at=sample.at, below=pace.below, slow=slow,
            left=pace.left - 1,
        )  # fmt: skip
    return pace


def _pace(samples: tuple[Sample, ...], limits: Limits) -> Pace | None:
    """From all samples that a detector sees, of one rank and by step; None where there are none."""
    if not samples:
        return None
    found, newest = costs_of(samples), samples[-1]
    measure, costs = found.measure, found.costs[limits.slow_warmup :]
    least = limits.slow_warmup + limits.slow_baseline + limits.slow_samples
    pace = Pace(measure=measure, rank=newest.rank, step=newest.step, at=newest.at, below=ANY, slow=0, left=0)
    if len(samples) < least:  # no normal yet, by whatever measure
        return replace(pace, measure="any", left=least - len(samples) - 1)
    if len(costs) < limits.slow_baseline + limits.slow_samples:
        return pace
    place = int(NORMAL_SHARE * (len(costs) - 1))
    left = place - place // 4  # a few very quick ones among all must not make every report a slow one
    # One that leaves the window may join its neighbours' steps into a new interval: two places for a report then.
    below = sorted(costs)[place - left] * limits.slow_factor
    slow = next((n for n, cost in enumerate(reversed(costs)) if cost < below), len(costs))
    return replace(pace, below=below, slow=slow, left=left // 2 if measure == "reports" else left)


def _printed(sample: Sample, measure: str) -> float | None:
    value = sample.throughput if measure == "throughput" else sample.step_time_s
    if value is None or value <= 0:
        return None
    return 1 / value if measure == "throughput" else value


def _cost(sample: Sample, pace: Pace) -> float | None:
    """The cost of the report after `pace`'s newest; None where it might change what costs are taken from."""
    throughput, step_time = _printed(sample, "throughput"), _printed(sample, "step_time")
    if pace.measure == "any":
        return 0.0
    if pace.measure == "throughput":
        return throughput
    if throughput is not None:
        return None
    if pace.measure == "step_time" or step_time is not None:
        return step_time if pace.measure == "step_time" else None
    seconds = (sample.at - pace.at).total_seconds()
    return seconds / (sample.step - pace.step) if seconds > 0 else None
