"""What else tells of a cluster's jobs and nodes: Prometheus, Loki, kernel logs, metrics files, and what jobs push."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from recovery.core.source_options import active
from recovery.core.speech import duration
from recovery.core.types import JobState, Phase
from recovery.doctor.results import Group, Result, State
from recovery.models import Attempt, Cluster, PushSender, SourceHealth
from recovery.pipeline import measure
from recovery.pipeline.metrics_source import KEYS, MEMORY

LATE = timedelta(minutes=15)  # a source that was not asked for so long is not asked at all
BACKLOG = 1000  # unread batches: workers fall behind
HEARD = timedelta(minutes=2)
MOST_JOBS = 1000  # running ones that are looked at


def examine_sources(cluster: Cluster, *, now: datetime) -> Iterator[Result]:
    """Nothing here asks anybody: a worker does that all the time, and keeps what came of it."""
    rows = {row.source: row for row in SourceHealth.objects.filter(cluster=cluster)}
    for source in active(cluster.sources):
        yield _source(source.value, rows.get(source.value), now=now)
    yield from _files(cluster, now=now)
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
        return _result(name, f"{row.trouble.rstrip('.')}{last}", State.ATTENTION, remedy=row.remedy, at=row.tried_at)
    return _result(name, f"answers: {row.detail}", State.GOOD, at=row.tried_at)


def _files(cluster: Cluster, *, now: datetime) -> Iterator[Result]:
    """Files of each job that the cluster names: read with the job, so what running jobs gave is their health."""
    named = {key: cluster.sources[key] for key in KEYS if cluster.sources.get(key)}
    if not named:
        return
    running = Attempt.objects.filter(job__cluster=cluster, state=JobState.RUNNING, closed_at=None)
    memories = [each.get(MEMORY, {}) for each in running.values_list("parser_memory", flat=True)[:MOST_JOBS]]
    for key, pattern in named.items():
        good = sum(_GIVES[key](memory) for memory in memories)
        what, of = f"{key} files", f"{good} of {len(memories)} running jobs give something by {pattern[:120]}"
        if good or not memories:
            yield _result(what, of, State.GOOD if good else State.NOT_TRIED, at=now)
        else:
            remedy = f"Correct the source {key}, or take it away; its folders lie below RECOVERY_LOG_ROOTS."
            yield _result(what, of, State.ATTENTION, remedy=remedy, at=now)


def _tells_steps(memory: dict[str, Any]) -> bool:
    return any("last" in each for each in memory.values() if isinstance(each, dict))


_GIVES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "metrics": _tells_steps,
    "nvrx_iteration_file": lambda memory: "iteration" in memory,
    "nvrx_cycle_dir": lambda memory: bool(memory.get("cycles")),
}


def _pushing(cluster: Cluster, *, now: datetime) -> Iterator[Result]:
    """Nothing where no running job ever pushed."""
    running = PushSender.objects.filter(attempt__job__cluster=cluster, attempt__state=JobState.RUNNING)
    running = running.exclude(attempt__phase=Phase.FINISHING)  # who said that it is done has nothing more to say
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
