"""Robust figures over a series of progress samples: medians and quantiles, which a save or a page fault can't shift.

All of it is for the samples of one attempt, oldest first, and costs n log n at most. Samples of several ranks may be
mixed; only those of the rank with the most are looked at, as ranks report at different moments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from recovery.core.types import Sample

MOSTLY = 0.5  # a figure that the trainer prints itself is used if more than this part of the samples carry it


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 … 1) of `values` lie, interpolated. Raises ValueError where there are none."""
    if not values:
        raise ValueError("no quantile of nothing")
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, not {share}")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return min(ordered[above], ordered[below] + (ordered[above] - ordered[below]) * (place - below))


def intervals(samples: Sequence[Sample]) -> list[float]:
    """Seconds between successive reports of a higher step.

    Two reports at one time (read in one pass, without a time of their own) tell nothing and are left out.
    """
    return [gap for _, gap in _advances(samples) if gap > 0]


def typical_interval(samples: Sequence[Sample]) -> float | None:
    """The median of `intervals`; None where there is none."""
    gaps = intervals(samples)
    return median(gaps) if gaps else None


def typical_stride(samples: Sequence[Sample]) -> int | None:
    """How many steps lie between two reports: the trainer's log interval. None where nothing advances."""
    strides = [stride for stride, _ in _advances(samples)]
    return round(median(strides)) if strides else None


def typical_step_time(samples: Sequence[Sample]) -> float | None:
    """Seconds per step: the median of what the trainer prints, else of the time between reports. None: not known."""
    printed = [s.step_time_s for s in samples if s.step_time_s is not None and s.step_time_s > 0]
    if len(printed) > len(samples) * MOSTLY:
        return median(printed)
    paces = [gap / stride for stride, gap in _advances(samples) if gap > 0]
    return median(paces) if paces else None


def _advances(samples: Sequence[Sample]) -> Iterator[tuple[int, float]]:
    """Steps gained and seconds passed from each report to the next of one rank; a fall of the step begins anew."""
    ranks = Counter([sample.rank for sample in samples])
    if not ranks:
        return
    if len(ranks) > 1:
        rank = ranks.most_common(1)[0][0]
        samples = [sample for sample in samples if sample.rank == rank]
    before: Sample | None = None
    for sample in samples:
        if before is not None and sample.step > before.step:
            yield sample.step - before.step, (sample.at - before.at).total_seconds()
        if before is None or sample.step != before.step:
            before = sample
