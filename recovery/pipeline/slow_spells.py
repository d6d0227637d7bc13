"""Part of account: when a slow attempt was quick again."""

from __future__ import annotations

from datetime import datetime

from recovery.core.detectors.slowdown import paces_of, usual_cost
from recovery.core.types import Sample
from recovery.models import Finding
from recovery.models import Sample as SampleRow
from recovery.pipeline.facts import limits

NEWEST = 2000  # samples before the end of the case: enough for its normal and for the slow stretch


def quick_again(finding: Finding, *, rank: int | None) -> datetime:
    """The first report after the last slow one of a slowdown's closed case; its end where the samples don't tell."""
    incident = finding.incident
    closed_at = incident.closed_at or finding.at
    rows = SampleRow.objects.filter(attempt=incident.attempt_id, rank=rank or 0, at__lte=closed_at).order_by(
        "-at", "-step"
    )
    samples = tuple(
        Sample(at=r.at, step=r.step, throughput=r.throughput, step_time_s=r.step_time_s, rank=r.rank)
        for r in reversed(rows[:NEWEST])
    )
    bounds = limits()
    paces = paces_of(samples) if samples else []
    normal = usual_cost([pace for pace in paces if pace.at <= finding.at], bounds)
    if normal is None:
        return closed_at
    slow = [i for i, pace in enumerate(paces) if pace.at >= finding.since and pace.cost >= normal * bounds.slow_factor]
    after = paces[slow[-1] + 1 :] if slow else []
    return after[0].at if after else closed_at
