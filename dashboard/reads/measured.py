"""What was measured of a run's newest attempt, and what it pushes, for its page."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

from django.db.models import Avg, Max

from recovery.models import Attempt, Cluster, PushSender, Reading
from recovery.pipeline.measure_gpus import LATELY, gpu_facts

SHOWN = timedelta(hours=6)
BARS = 72  # of five minutes


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """The mean of all nodes within one stretch of time; percent. `x` counts from the left, `y` is where it begins."""

    at: datetime
    x: int
    percent: int

    @property
    def y(self) -> int:
        return 100 - self.percent


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """`at` is the newest reading. Numbers are means over nodes, None where nothing was measured."""

    at: datetime | None = None
    bars: tuple[Bar, ...] = ()
    utilisation: float | None = None
    power_w: float | None = None
    xids: tuple[tuple[str, int], ...] = ()
    network: float | None = None  # bytes per second that one node sends over its fabric
    nccl: float | None = None  # whatever the site's own query counts
    sender: PushSender | None = None
    cycles: tuple[dict[str, Any], ...] = ()  # of NVRx, oldest first: number, started_at, ended_at, nodes

    @property
    def something(self) -> bool:
        return bool(self.at or self.sender or self.cycles)


def measured(attempt: Attempt | None, cluster: Cluster) -> Measured:
    """One query, and six more where the cluster names a Prometheus; however large the attempt."""
    if attempt is None:
        return Measured()
    sender = PushSender.objects.filter(attempt=attempt).first()
    cycles = tuple(_cycles(attempt))
    newest = _newest(attempt) if cluster.sources.get("prometheus_url") else None
    if newest is None:
        return Measured(sender=sender, cycles=cycles)
    facts = gpu_facts(attempt, now=newest)
    fabric = _fabric(attempt, until=newest)
    return Measured(
        at=newest,
        bars=_bars(attempt, until=newest),
        utilisation=facts.utilisation if facts else None,
        power_w=facts.power_w if facts else None,
        xids=facts.xids if facts else (),
        network=fabric.get("network"),
        nccl=fabric.get("nccl"),
        sender=sender,
        cycles=cycles,
    )


def _newest(attempt: Attempt) -> datetime | None:
    rows = Reading.objects.filter(attempt=attempt).exclude(name="xid")  # of these only the changes are stored
    at: datetime | None = rows.aggregate(at=Max("at"))["at"]
    return at


def _fabric(attempt: Attempt, *, until: datetime) -> dict[str, float]:
    """The mean of the nodes over the last rounds of questions, by the reading's name."""
    rows = Reading.objects.filter(attempt=attempt, name__in=("network", "nccl"), at__gte=until - LATELY)
    return dict(rows.order_by().values("name").annotate(mean=Avg("value")).values_list("name", "mean"))


def _bars(attempt: Attempt, *, until: datetime) -> tuple[Bar, ...]:
    begin = until - SHOWN
    rows = Reading.objects.filter(attempt=attempt, name="utilisation", at__gt=begin)
    rounds = rows.order_by().values("at").annotate(mean=Avg("value")).values_list("at", "mean")
    stretches: dict[int, list[float]] = defaultdict(list)
    for at, mean in rounds:
        stretches[min(BARS - 1, int((at - begin) / SHOWN * BARS))].append(mean)
    return tuple(
        Bar(at=begin + SHOWN / BARS * place, x=place, percent=round(min(100.0, max(0.0, fmean(values)))))
        for place, values in sorted(stretches.items())
    )


def _cycles(attempt: Attempt) -> list[dict[str, Any]]:
    """As recovery/pipeline/metrics_source.py keeps them."""
    kept = attempt.parser_memory.get("metrics", {}).get("cycles", ())
    return [{**cycle, "started_at": _at(cycle["started_at"]), "ended_at": _at(cycle["ended_at"])} for cycle in kept]


def _at(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
