"""The report kept of each cluster: made by a worker every few minutes and when asked for, read by pages and API.

As everything else it is due when its row says so: a message that is lost changes nothing but the moment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from recovery.access import Actor, Permission, require
from recovery.doctor.cluster import ClientFor, Clock, examine_cluster
from recovery.doctor.results import Group, Report, Result, State
from recovery.models import Cluster, Examination, Job

log = logging.getLogger(__name__)

EVERY = timedelta(minutes=5)
WITHOUT_JOBS = timedelta(seconds=30)  # on a new installation: what can be tried on a job waits for the first one


def due(now: datetime) -> list[int]:
    """Keys of the clusters to be examined now."""
    new = Cluster.objects.filter(enabled=True, examination=None)
    Examination.objects.bulk_create(
        [Examination(cluster=cluster, next_look_at=now) for cluster in new], ignore_conflicts=True
    )
    return list(Examination.due(now).filter(cluster__enabled=True).values_list("cluster_id", flat=True))


def ask_again(cluster: Cluster, *, actor: Actor, now: datetime) -> None:
    """Let it be examined at the next tick instead of in minutes. Raises Forbidden."""
    require(actor, Permission.OPERATE, cluster)
    make_due(cluster, now=now)


def make_due(cluster: Cluster, *, now: datetime) -> None:
    """Let it be examined at the next tick: what was found before may be of another way to it."""
    Examination.objects.update_or_create(cluster=cluster, defaults={"next_look_at": now})


def examine_and_store(cluster_id: int, *, client_for: ClientFor, clock: Clock) -> None:
    """Examine one cluster where it is due, once at a time: however often it was asked for, Slurm is asked once."""
    row = Examination.due(clock()).filter(cluster_id=cluster_id).select_related("cluster").first()
    if row is None or not row.take_lease(clock()):
        return
    way = (row.cluster.backend, row.cluster.options)
    wait = EVERY if Job.objects.filter(cluster=cluster_id).exists() else WITHOUT_JOBS
    try:
        results = list(_examine(row.cluster, client_for=client_for, clock=clock))
        Examination.objects.filter(pk=row.pk).update(results=[each.as_json() for each in results], at=clock())
    finally:
        changed = _way_to(cluster_id) != way
        row.give_back(next_look_at=clock() + (timedelta(0) if changed else wait))


def _examine(cluster: Cluster, *, client_for: ClientFor, clock: Clock) -> Iterator[Result]:
    """What was found; an error of the examination itself is a finding too, and ends it."""
    try:
        yield from examine_cluster(cluster, client_for=client_for, clock=clock)
    except Exception as error:
        log.exception("Examining %s failed", cluster)
        detail = f"could not be finished: {type(error).__name__}: {error}"[:500]
        remedy = "The worker's log has the whole error. It is tried again within minutes."
        yield Result(
            group=Group.INSTALLATION, what="examination", detail=detail, state=State.BROKEN, remedy=remedy, at=clock()
        )  # fmt: skip


def _way_to(cluster_id: int) -> tuple[str, dict[str, str]] | None:
    """How it is reached, which somebody may change during an examination."""
    return Cluster.objects.filter(pk=cluster_id).values_list("backend", "options").first()


def report_on(cluster: Cluster, *, now: datetime) -> Report:
    """What was last found; empty where nobody looked yet. One query, none where `examination` was selected with it."""
    row: Examination | None = getattr(cluster, "examination", None)
    if row is None:
        return Report(at=None, results=())
    asked = cluster.enabled and row.next_look_at is not None and row.next_look_at <= now
    return Report(at=row.at, results=tuple(Result.from_json(result) for result in row.results), under_way=asked)
