"""Beside the path: asks each cluster's other sources, and stores what they tell and whether they answer.

One row of SourceHealth a source, under a lease as all work: `due` finds them, `measure_source` asks one. A source that
fails is shown with its remedy, and changes nothing else: no attempt becomes blind or hung by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from recovery.core.source_options import Source, active, every_s
from recovery.models import Cluster, Reading, SourceHealth
from recovery.pipeline import kernel_events, measure_gpus, push
from recovery.pipeline.leasing import Clock, with_lease
from recovery.pipeline.source_read import GoOn
from recovery.sources.http_get import Trouble

KEPT = timedelta(days=14)  # readings are for what runs and for what ended lately
SLOWER = 4.0  # times as long between two tries of what failed, at most five minutes
LONGEST = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What a good try brought, in words; `position` is kept for the next one. `trouble`: of a part of it."""

    detail: str
    position: dict[str, object] | None = None
    more: bool = False
    trouble: str = ""
    remedy: str = ""


def due(now: datetime) -> list[int]:
    """Keys of the sources to be asked now. Rows follow what the clusters name."""
    wanted = {
        (cluster.pk, source.value)
        for cluster in Cluster.objects.filter(enabled=True).exclude(sources={})
        for source in active(cluster.sources)
    }
    known = set(SourceHealth.objects.values_list("cluster_id", "source"))
    new = [SourceHealth(cluster_id=pk, source=source, next_look_at=now) for pk, source in sorted(wanted - known)]
    SourceHealth.objects.bulk_create(new, ignore_conflicts=True)
    for pk, source in known - wanted:
        if not Cluster.objects.filter(pk=pk, enabled=False).exists():
            SourceHealth.objects.filter(cluster_id=pk, source=source).delete()
    return list(SourceHealth.due(now).filter(cluster__enabled=True).values_list("pk", flat=True))


def measure_source(pk: int, *, clock: Clock) -> None:
    """Ask one source, whatever the number of workers once at a time."""

    def look(row: SourceHealth) -> datetime | None:
        cluster = Cluster.objects.filter(pk=row.cluster_id).first()
        if cluster is None or row.source not in active(cluster.sources):
            return None
        now = clock()
        enough = now + timedelta(seconds=settings.LEASE_S / 2)
        return now + _ask(row, cluster, now=now, go_on=lambda: clock() < enough)

    with_lease(SourceHealth, pk, look, clock=clock)


def _ask(row: SourceHealth, cluster: Cluster, *, now: datetime, go_on: GoOn) -> timedelta:
    """Until the next look."""
    source = Source(row.source)
    every = timedelta(seconds=every_s(cluster.sources, source))
    try:
        told = _READERS[source](cluster, row, now, go_on)
    except Trouble as trouble:
        _store(row, now=now, trouble=trouble.sentence, remedy=trouble.remedy)
        return max(every, min(every * SLOWER, LONGEST))
    fields: dict[str, object] = {"detail": told.detail[:300]}
    if told.position is not None:
        fields["position"] = told.position
    if not told.trouble:
        fields["good_at"] = now
    _store(row, now=now, trouble=told.trouble, remedy=told.remedy, **fields)
    return timedelta(seconds=1) if told.more else every


def _store(row: SourceHealth, *, now: datetime, trouble: str, remedy: str, **fields: object) -> None:
    SourceHealth.objects.filter(pk=row.pk).update(
        tried_at=now, trouble=trouble[:300], remedy=remedy[:300], **fields
    )  # fmt: skip


def _prometheus(cluster: Cluster, row: SourceHealth, now: datetime, go_on: GoOn) -> Told:
    stored, attempts = measure_gpus.measure(cluster, now=now, go_on=go_on)
    return Told(detail=f"new readings: {stored}, attempts that they are of: {attempts}")


def _kernel_log(cluster: Cluster, row: SourceHealth, now: datetime, go_on: GoOn) -> Told:
    read = kernel_events.from_files(cluster, now=now, go_on=go_on)
    detail = f"files: {read.files}, new lines of faults: {read.events}"
    return Told(detail=detail, more=read.more, trouble=read.trouble, remedy=read.remedy)


def _loki(cluster: Cluster, row: SourceHealth, now: datetime, go_on: GoOn) -> Told:
    since = row.position.get("until")
    read, until = kernel_events.from_loki(cluster, since=datetime.fromisoformat(since) if since else None, now=now)
    detail, position = f"new lines of faults: {read.events}", dict[str, object](until=until.isoformat())
    return Told(detail=detail, position=position, more=read.more, trouble=read.trouble, remedy=read.remedy)


_READERS: dict[Source, Callable[[Cluster, SourceHealth, datetime, GoOn], Told]] = {
    Source.PROMETHEUS: _prometheus, Source.KERNEL_LOG: _kernel_log, Source.LOKI: _loki,
}  # fmt: skip


def forget(*, now: datetime, most: int = 50_000) -> int:
    """Drop readings and pushed batches that are older than they are kept; how many. Small bites: nobody waits long."""
    push.forget(now=now)
    old = Reading.objects.filter(at__lt=now - KEPT)
    edge = old.order_by("at").values_list("at", flat=True)[most - 1 : most].first()
    return (old if edge is None else old.filter(at__lte=edge)).delete()[0]


def waiting() -> int:
    """Batches that nobody has read yet."""
    return push.waiting().count()
