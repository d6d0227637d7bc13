"""Celery's tasks: shells around the pipeline. All are short and idempotent; the database says what is due."""

from __future__ import annotations

import logging

from celery import shared_task
from django.conf import settings
from kombu.exceptions import OperationalError

from recovery.models import Cluster
from recovery.pipeline import reconcile
from recovery.slurm.base import SlurmClient
from recovery.slurm.registry import client_for

log = logging.getLogger(__name__)


def client_of(cluster: Cluster) -> SlurmClient:
    return client_for(cluster.backend, cluster.options, timeout_s=settings.SLURM_TIMEOUT_S)


@shared_task(name="recovery.tick")
def tick() -> None:
    """Wake a worker for everything that is due. Sent twice, or lost, it changes nothing but the moment."""
    due = reconcile.due(reconcile.utc_now())
    expires = 3 * settings.TICK_S
    for task, keys in ((watch_cluster, due.clusters), (watch_attempt, due.attempts), (work_on_incident, due.incidents)):
        for pk in keys:
            task.apply_async((pk,), expires=expires)


@shared_task(name="recovery.watch_cluster")
def watch_cluster(pk: int) -> None:
    reconcile.watch_cluster(pk, client_for=client_of, clock=reconcile.utc_now)


@shared_task(name="recovery.watch_attempt")
def watch_attempt(pk: int) -> None:
    reconcile.watch_attempt(pk, client_for=client_of, clock=reconcile.utc_now)


@shared_task(name="recovery.work_on_incident")
def work_on_incident(pk: int) -> None:
    reconcile.work_on_incident(pk, client_for=client_of, clock=reconcile.utc_now)


def wake_incident(pk: int) -> None:
    """Look at a case now rather than at the next tick. Without a broker nothing is lost: the tick finds it."""
    try:
        work_on_incident.apply_async((pk,), expires=3 * settings.TICK_S, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("The broker is not reachable (%s): incident %s waits for the next tick.", error, pk)
