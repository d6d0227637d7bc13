"""The thresholds of the detectors, all in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Spans(NamedTuple):
    """How long a silence may last, in seconds: where something else says that it hangs, where nothing tells anything,
    and where the GPUs compute. Never less than the one before."""

    witnessed: float
    alone: float
    at_work: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """When silence or slowness counts as a fault. Seconds, unless said otherwise.

    The first four depend on the site and have settings of their own (RECOVERY_HANG_*).
    """

    hang_floor_s: float  # no silence shorter than this is a hang where nothing else says so, however fast the steps
    first_step_s: float  # from the start (or the load) to the first reported step: compilation, caches, warm-up
    saving_s: float  # a checkpoint save, an evaluation or the end of the program may take this long
    # … and in place of hang_floor_s where something else says so, too (detectors/witness.py); never longer than that
    hang_witnessed_s: float = 1200.0

    stale_after_s: float = 60.0  # a picture older than this tells nothing of now
    # Training: due is this quantile of the attempt's own last intervals between reports, times the factor. A quantile
    # near the top, not the median: intervals that hold an unannounced save or evaluation are part of normal life.
    hang_quantile: float = 0.95
    hang_factor: float = 3.0
    hang_longest: float = 2.5  # times the longest silence that it came back from: one like it may come again
    hang_at_work: float = 1.5  # times the floor where the GPUs compute: an evaluation, or a log that is late
    # … and times first_step_s where nothing is known of the run's earlier starts, and nothing else says that it hangs
    first_step_unknown: float = 1.5
    hang_shared: float = 2.5  # times as long where other jobs stand still since the same minute: storage comes back
    hang_min_intervals: int = 3  # with fewer, first_step_s holds: the first intervals are the odd ones
    hang_intervals: int = 100  # how many of the last ones are looked at
    # However long the intervals, silence beyond this is a hang, unless one interval alone took half of it.
    hang_ceiling_s: float = 4 * 3600.0

    slow_factor: float = 1.5  # smaller shifts are noise, or not worth a person's time
    slow_samples: int = 5  # every one of the last so many reports must be slow
    slow_warmup: int = 3  # the first reports of an attempt are never part of its baseline
    slow_baseline: int = 10  # fewer earlier reports than this are no baseline

    limit_lead_s: float = 2 * 3600.0  # so long before its time limit it is told: a person must have time to decide
    limit_worth_s: float = 900.0  # work that would be lost to it; less is not worth a person's time
    limit_look_s: float = 300.0  # as often an attempt is judged anew within the lead: any save changes what is due

    @property
    def witnessed_floor_s(self) -> float:
        """The least of all floors."""
        return min(self.hang_witnessed_s, self.hang_floor_s)

    def spans(self, learned_s: float) -> Spans:
        """The floors of a silence of which what was learned allows at least so much."""
        floors = (self.witnessed_floor_s, self.hang_floor_s, self.hang_at_work * self.hang_floor_s)
        return Spans(*(max(floor, learned_s) for floor in floors))
