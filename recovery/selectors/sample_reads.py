"""Progress over time, as much of it as a chart can show."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import RowNumber

from recovery.models import (
    Sample,
)

MAX_POINTS = 1400  # as many as a wide chart has pixels


def samples_for(
    *,
    attempt_id: int | None = None,
    run_id: int | None = None,
    max_points: int = MAX_POINTS,
    since: datetime | None = None,
    until: datetime | None = None,
    rank: int | None = None,
) -> list[Sample]:
    """The progress of one attempt, or of a run over all its attempts, as at most `max_points` samples by time.

    Where there are more, every n-th is taken, and the first and the last of each attempt, so that neither a restore
    nor where an attempt stopped is smoothed away. Without a `rank`, each attempt is told by its lowest rank that
    reports: rank -1 (the trainer reports for all together) where there is one.
    """
    if (attempt_id is None) == (run_id is None):
        raise ValueError("Give either attempt_id or run_id.")
    mine = Q(attempt=attempt_id) if run_id is None else Q(attempt__job__run=run_id)
    if rank is None:
        lowest = Sample.objects.filter(attempt=OuterRef("attempt")).order_by("rank").values("rank")[:1]
        mine &= Q(rank=Subquery(lowest))
    else:
        mine &= Q(rank=rank)
    if since:
        mine &= Q(at__gte=since)
    if until:
        mine &= Q(at__lte=until)
    rows = _thinned(Sample.objects.filter(mine), max_points=max_points)
    return list(rows.order_by("at", "step", "attempt"))


def _thinned(rows: QuerySet[Sample], *, max_points: int) -> QuerySet[Sample]:
    size = rows.aggregate(samples=Count("step"), attempts=Count("attempt", distinct=True))
    if size["samples"] <= max_points:
        return rows
    by_time = [F("at").asc(), F("step").asc()]
    room = max_points - 2 * size["attempts"]  # each attempt may round up, and keeps its last
    if room < 1:  # more attempts than points: the run as one row of samples
        return rows.annotate(
            skip=(Window(RowNumber(), order_by=by_time) - 1) % _ceiling(size["samples"], max_points)
        ).filter(skip=0)
    return rows.annotate(
        place=Window(RowNumber(), partition_by=F("attempt"), order_by=by_time),
        places=Window(Count("step"), partition_by=F("attempt")),
        skip=(F("place") - 1) % _ceiling(size["samples"], room),
    ).filter(Q(skip=0) | Q(place=F("places")))


def _ceiling(count: int, parts: int) -> int:
    return -(-count // parts)
