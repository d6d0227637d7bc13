"""What else tells of a cluster's jobs and nodes: Prometheus, Loki, kernel logs, and what jobs push."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from recovery.core.source_options import active
from recovery.core.speech import duration
from recovery.core.types import JobState
from recovery.doctor.results import Group, Result, State
from recovery.models import Cluster, PushSender, SourceHealth
from recovery.pipeline import measure

LATE = timedelta(minutes=15)  # a source that was not asked for so long is not asked at all
BACKLOG = 1000  # unread batches: workers fall behind
HEARD = timedelta(minutes=2)


def examine_sources(cluster: Cluster, *, now: datetime) -> Iterator[Result]:
    """Nothing here asks anybody: a worker does that all the time, and keeps what came of it."""
    rows = {row.source: row for row in SourceHealth.objects.filter(cluster=cluster)}
    for source in active(cluster.sources):
        yield _source(source.value, rows.get(source.value), now=now)
    yield from _pushing(cluster, now=now)


def _result(what: str, detail: str, state: State, *, at: datetime, remedy: str = "") -> Result:
    return Result(group=Group.SOURCES, what=what, detail=detail, state=state, remedy=remedy, at=at)


def _source(name: str, row: SourceHealth | None, *, now: datetime) -> Result:
    if row is None or row.tried_at is None:
        return _result(name, "was not asked yet; a worker does it at its next tick", State.NOT_TRIED, at=now)
    if now - row.tried_at > LATE:
        detail = f"was last asked {duration((now - row.tried_at).total_seconds())} ago"
        remedy = "Start a worker and beat (docs/operations.md, “What runs”)."
        return _result(name, detail, State.ATTENTION, remedy=remedy, at=row.tried_at)
    if row.trouble:
        last = f"; it last answered {duration((now - row.good_at).total_seconds())} ago" if row.good_at else ""
        return _result(name, f"{row.trouble}{last}", State.ATTENTION, remedy=row.remedy, at=row.tried_at)
    return _result(name, f"answers: {row.detail}", State.GOOD, at=row.tried_at)


def _pushing(cluster: Cluster, *, now: datetime) -> Iterator[Result]:
    """Nothing where no running job ever pushed."""
    running = PushSender.objects.filter(attempt__job__cluster=cluster, attempt__state=JobState.RUNNING)
    heard = running.filter(heard_at__gte=now - HEARD).count()
    silent = running.filter(heard_at__lt=now - HEARD, progressed_at__isnull=False).select_related("attempt__job")
    waiting = measure.waiting()
    if waiting > BACKLOG:
        remedy = "Start more workers, or let jobs push less (docs/push.md)."
        yield _result("push", f"{waiting} batches wait to be read", State.ATTENTION, remedy=remedy, at=now)
    elif first := silent.first():
        detail = (
            f"running jobs that fell silent: {silent.count()}, heard: {heard}; the first is {first.attempt.job.job_id}"
        )
        remedy = "Check that its nodes reach the desk's address, and that its push token is still good (docs/push.md)."
        yield _result("push", detail, State.ATTENTION, remedy=remedy, at=now)
    elif heard:
        yield _result("push", f"{heard} running jobs are heard", State.GOOD, at=now)
