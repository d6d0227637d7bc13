"""Looks at clusters and attempts: polls the one, reads on in the other and judges it.

Level-based: each look starts from what is stored and what the scheduler and the files show, never from a message.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Incident
from recovery.pipeline.detect import detect_attempt
from recovery.pipeline.ingest import ingest_attempt
from recovery.pipeline.leasing import ClientFor, Clock, with_lease
from recovery.pipeline.look_at_checkpoints import look_at_checkpoints
from recovery.pipeline.poll import poll_cluster
from recovery.pipeline.repair import enrich_attempt

VANISHED = timedelta(hours=1)  # so long accounting is asked how a job ended that the controller forgot


def watch_cluster(pk: int, *, client_for: ClientFor, clock: Clock) -> None:
    """Poll one cluster, whatever the number of workers once at a time."""

    def look(cluster: Cluster) -> datetime:
        poll_cluster(cluster, client=client_for(cluster), now=clock())
        return clock() + timedelta(seconds=cluster.poll_interval_s)

    with_lease(Cluster, pk, look, clock=clock)


def watch_attempt(pk: int, *, client_for: ClientFor, clock: Clock) -> None:
    """Read on in one attempt's log and checkpoints, and judge it."""

    def look(attempt: Attempt) -> datetime | None:
        outcome = ingest_attempt(attempt, now=clock())
        if outcome.more:
            return clock()  # nothing is judged by half of what was written
        if attempt.started_at is not None and _is_newest(attempt):
            look_at_checkpoints(attempt, now=clock())
        if JobState(attempt.state).is_terminal:
            enrich_attempt(attempt, client=client_for(attempt.job.cluster), now=clock())
        incident = detect_attempt(attempt, now=clock())
        if incident is not None:
            _wake(incident, clock())
        return _next_look_at_attempt(attempt, now=clock())

    with_lease(Attempt, pk, look, clock=clock)


def _is_newest(attempt: Attempt) -> bool:
    later = Attempt.objects.filter(job__run_id=attempt.job.run_id, started_at__gt=attempt.started_at)
    return not later.exists()


def _next_look_at_attempt(attempt: Attempt, *, now: datetime) -> datetime | None:
    """While it lives as often as its cluster is polled; once it has ended until its facts have settled."""
    vanished = attempt.job.vanished_at
    if vanished is not None and now - vanished > VANISHED:
        Attempt.objects.filter(pk=attempt.pk).update(closed_at=now)
        return None
    if not JobState(attempt.state).is_terminal:
        return now + timedelta(seconds=attempt.job.cluster.poll_interval_s)
    settled = (attempt.ended_at or attempt.seen_at) + timedelta(seconds=settings.SETTLE_S)
    if now <= settled:
        return now + timedelta(seconds=min(2.0, attempt.job.cluster.poll_interval_s))
    Attempt.objects.filter(pk=attempt.pk).update(closed_at=now)
    return None


def _wake(incident: Incident, now: datetime) -> None:
    """Look at the case now. Its own schedule stays where it is sooner."""
    Incident.objects.filter(pk=incident.pk, next_look_at__gt=now).update(next_look_at=now)
