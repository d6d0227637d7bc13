"""The figures of a report, each by its definition in docs/ledger.md, computed from sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from recovery.core.ledger.entries import Category
from recovery.core.ledger.incidents import GAPS
from recovery.core.ledger.summary import (
    SECOND,
    Spread,
    Summary,
    badput,
    effective_training_time_ratio,
    goodput,
    gpu_goodput,
    interruptions_per_1000_gpu_hours,
    spread,
)

HOUR = 3600 * SECOND


@dataclass(frozen=True, kw_only=True, slots=True)
class Charged:
    """What incidents were charged with, added up; microseconds, and microseconds times GPUs."""

    incidents: int = 0
    steps_lost: int = 0
    lost_us: int = 0
    lost_gpu_us: int = 0
    stalled_us: int = 0
    stalled_gpu_us: int = 0
    deciding_us: int = 0
    deciding_gpu_us: int = 0
    acting_us: int = 0
    acting_gpu_us: int = 0
    deciding_run_gpu_us: int = 0

    @classmethod
    def sum(cls, parts: Iterable[Charged]) -> Charged:
        parts = tuple(parts)
        return cls(**{name: sum(getattr(part, name) for part in parts) for name in CHARGES})


CHARGES = tuple(field.name for field in fields(Charged))


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Ratios are between 0 and 1; None where what they divide by is nothing."""

    wall_s: float
    held_gpu_hours: float
    seconds: Mapping[Category, float]
    gpu_hours: Mapping[Category, float]
    effective_training_time_ratio: float | None
    goodput: float | None
    badput: Mapping[Category, float]
    gpu_goodput: float | None
    interruptions: int
    interruptions_per_1000_gpu_hours: float | None
    clocks: Mapping[str, Spread | None]  # by the names of GAPS, in seconds
    steps_lost: int
    lost_gpu_hours: float
    decision_wait_s: float
    decision_held_gpu_hours: float  # that the runs held while somebody had to decide
    decision_gpu_hours: float  # that they would have used meanwhile, held or not


def figures_of(summary: Summary, charged: Charged) -> Figures:
    totals = summary.totals
    return Figures(
        wall_s=totals.wall_us / SECOND,
        held_gpu_hours=totals.allocated_us / HOUR,
        seconds={category: totals.time(category) / SECOND for category in Category},
        gpu_hours={category: totals.gpu_time(category) / HOUR for category in Category},
        effective_training_time_ratio=effective_training_time_ratio(totals),
        goodput=goodput(totals),
        badput=badput(totals),
        gpu_goodput=gpu_goodput(totals),
        interruptions=summary.interruptions,
        interruptions_per_1000_gpu_hours=interruptions_per_1000_gpu_hours(summary),
        clocks={name: spread(summary.gaps[name]) for name in GAPS},
        steps_lost=charged.steps_lost,
        lost_gpu_hours=charged.lost_gpu_us / HOUR,
        decision_wait_s=charged.deciding_us / SECOND,
        decision_held_gpu_hours=charged.deciding_gpu_us / HOUR,
        decision_gpu_hours=charged.deciding_run_gpu_us / HOUR,
    )
