"""Progress over time, as much of it as a chart can show, from the coarsest rows that fill its pixels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, F, Max, Min, Model, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import Coalesce, RowNumber

from recovery.models import Attempt, MinuteRollup, RollupDue, Sample, TenMinuteRollup, Upkeep

MAX_POINTS = 1400  # as many as a wide chart has pixels

LEVELS = (Sample, MinuteRollup, TenMinuteRollup)  # from fine to coarse
SAMPLES, MINUTES, TEN_MINUTES = range(3)
Ranks = dict[int, list[int]]  # attempts by the rank that speaks for them


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stretch:
    """A part of the time, and which rows tell of it; None: without a bound."""

    level: int  # in LEVELS
    since: datetime | None
    before: datetime | None


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

    Where a point is a minute or more wide, it is the mean of what was rolled up in that minute or ten minutes, with the
    last step in it; so is what is older than samples are kept. What was not rolled up yet, so the newest end, is shown
    as it was stored.

    Where there are still more, every n-th is taken, and the first and the last of each attempt, so that neither a
    restore nor where an attempt stopped is smoothed away. Without a `rank`, each attempt is told by its lowest rank
    that reports: rank -1 (the trainer reports for all together) where there is one.
    """
    if (attempt_id is None) == (run_id is None):
        raise ValueError("Give either attempt_id or run_id.")
    attempts = Attempt.objects.filter(job__run=run_id) if attempt_id is None else Attempt.objects.filter(pk=attempt_id)
    ranks = _ranks(attempts, rank)
    if not ranks:
        return []
    known = attempts.aggregate(start=Min("submitted_at"), end=Max("seen_at"))
    start, end = since or known["start"], until or known["end"]
    level = _level((end - start) / max_points)
    due = RollupDue.objects.filter(attempt__in=attempts).aggregate(at=Min("at"))["at"]
    kept = Upkeep.objects.aggregate(at=Max("at"))["at"]  # what is older than it keeps may be gone since then
    stretches = _stretches(level, due, now=max(kept or end, known["end"]))
    whole = [rows for each in stretches if (rows := _rows(each, ranks, since, until))]
    return _points(whole, max_points=max_points)


def _ranks(attempts: QuerySet[Attempt], rank: int | None) -> Ranks:
    """One look at the key's beginning for each attempt, however many samples there are."""

    def lowest(model: type[Model]) -> Subquery:
        return Subquery(model._default_manager.filter(attempt=OuterRef("pk")).order_by("rank").values("rank")[:1])

    ranks: Ranks = defaultdict(list)
    if rank is not None:
        ranks[rank] = list(attempts.values_list("pk", flat=True))
        return ranks if ranks[rank] else {}
    found = attempts.annotate(lowest=Coalesce(lowest(Sample), lowest(TenMinuteRollup))).exclude(lowest=None)
    for pk, its in found.values_list("pk", "lowest"):
        ranks[its].append(pk)
    return ranks


def _level(pixel: timedelta) -> int:
    if pixel >= timedelta(minutes=10):
        return TEN_MINUTES
    return MINUTES if pixel >= timedelta(minutes=1) else SAMPLES


def _stretches(level: int, due: datetime | None, *, now: datetime) -> Iterator[_Stretch]:
    """From the oldest to the newest; each by `level`, or by coarser rows where finer ones are no longer kept."""
    bounds = [
        (TEN_MINUTES, now - timedelta(days=settings.KEEP_MINUTES_DAYS)),
        (MINUTES, now - timedelta(days=settings.KEEP_SAMPLES_DAYS)),
        (SAMPLES, due),
    ]
    since: datetime | None = None
    for least, bound in bounds:
        before = bound if due is None or bound is None else min(bound, due)
        yield _Stretch(level=max(level, least), since=since, before=before)
        since = before
    if due is not None:
        yield _Stretch(level=SAMPLES, since=due, before=None)


def _rows(stretch: _Stretch, ranks: Ranks, since: datetime | None, until: datetime | None) -> QuerySet[Any] | None:
    """None where the stretch lies outside of what is asked for."""
    if (since and stretch.before and stretch.before <= since) or (until and stretch.since and stretch.since > until):
        return None
    mine = Q()
    for rank, attempts in ranks.items():
        mine |= Q(attempt__in=attempts, rank=rank)
    lower = max((each for each in (since, stretch.since) if each), default=None)
    if lower:
        mine &= Q(at__gte=lower)
    if stretch.before:
        mine &= Q(at__lt=stretch.before)
    if until:
        mine &= Q(at__lte=until)
    return LEVELS[stretch.level]._default_manager.filter(mine)


def _points(whole: Iterable[QuerySet[Any]], *, max_points: int) -> list[Sample]:
    sizes = [(rows, rows.aggregate(samples=Count("step"), attempts=Count("attempt", distinct=True))) for rows in whole]
    sizes = [(rows, size) for rows, size in sizes if size["samples"]]
    count, attempts = sum(size["samples"] for _, size in sizes), sum(size["attempts"] for _, size in sizes)
    found = [_sample(row) for rows, _ in sizes for row in _thinned(rows, count, attempts, max_points)]
    found.sort(key=lambda sample: (sample.at, sample.step, sample.attempt_id))
    return found[:: max(1, _ceiling(len(found), max_points))]


def _thinned(rows: QuerySet[Any], count: int, attempts: int, max_points: int) -> QuerySet[Any]:
    if count <= max_points:
        return rows
    by_time = [F("at").asc(), F("step").asc()]
    room = max_points - 2 * attempts  # each attempt may round up, and keeps its last
    if room < 1:  # more attempts than points: the run as one row of samples
        every = _ceiling(count, max_points)
        thin: QuerySet[Any] = rows.annotate(skip=(Window(RowNumber(), order_by=by_time) - 1) % every).filter(skip=0)
        return thin
    placed: QuerySet[Any] = rows.annotate(
        place=Window(RowNumber(), partition_by=F("attempt"), order_by=by_time),
        places=Window(Count("step"), partition_by=F("attempt")),
        skip=(F("place") - 1) % _ceiling(count, room),
    )
    return placed.filter(Q(skip=0) | Q(place=F("places")))


def _sample(row: Sample | MinuteRollup | TenMinuteRollup) -> Sample:
    """A rollup as a point of the chart: where its last sample lies."""
    if isinstance(row, Sample):
        return row
    return Sample(
        attempt_id=row.attempt_id, rank=row.rank, step=row.step, at=row.last_at, loss=row.loss,
        throughput=row.throughput, step_time_s=row.step_time_s, tokens=row.tokens,
    )  # fmt: skip


def _ceiling(count: int, parts: int) -> int:
    return -(-count // parts)
