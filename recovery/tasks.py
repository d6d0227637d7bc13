"""Celery's tasks: shells around the pipeline. All are short and idempotent; the database says what is due."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from celery import Task, shared_task
from django.conf import settings
from kombu.exceptions import OperationalError

from recovery.doctor import stored as examinations
from recovery.models import Cluster
from recovery.pipeline import account, audit_chain, measure, notices, reconcile, second_opinion, upkeep, watch
from recovery.slurm.base import SlurmClient
from recovery.slurm.registry import client_for

log = logging.getLogger(__name__)


def client_of(cluster: Cluster) -> SlurmClient:
    return client_for(cluster.backend, cluster.options, timeout_s=settings.SLURM_TIMEOUT_S)


@shared_task(name="recovery.tick")
def tick() -> None:
    """Wake a worker for everything that is due. Sent twice, or lost, it changes nothing but the moment."""
    now = reconcile.utc_now()
    due = reconcile.due(now)
    notices.route(now=now)
    expires = settings.WAKE_EXPIRES_S
    for what_is_due, task in LANES:
        for key in what_is_due(now):
            task.apply_async((key,), expires=expires)
    for pk in due.clusters:
        watch_cluster.apply_async((pk,), expires=expires)
    for keys in due.batches:
        watch_attempts.apply_async((keys,), expires=expires)
    for pk in due.incidents:
        work_on_incident.apply_async((pk,), expires=expires)
    reconcile.review_fleet(now=now)


@shared_task(name="recovery.deliver_notices")
def deliver_notices(pk: int) -> None:
    notices.deliver(pk, clock=reconcile.utc_now)


@shared_task(name="recovery.watch_cluster")
def watch_cluster(pk: int) -> None:
    watch.watch_cluster(pk, client_for=client_of, clock=reconcile.utc_now)


@shared_task(name="recovery.watch_attempts")
def watch_attempts(keys: list[int]) -> None:
    watch.watch_attempts(keys, client_for=client_of, clock=reconcile.utc_now)


@shared_task(name="recovery.work_on_incident")
def work_on_incident(pk: int) -> None:
    reconcile.work_on_incident(pk, client_for=client_of, clock=reconcile.utc_now)


@shared_task(name="recovery.watch_ledgers")
def watch_ledgers(runs: list[int]) -> None:
    account.watch_ledgers(runs, clock=reconcile.utc_now)


@shared_task(name="recovery.examine_cluster")
def examine_cluster(pk: int) -> None:
    examinations.examine_and_store(pk, client_for=client_of, clock=reconcile.utc_now)


@shared_task(name="recovery.measure_source")
def measure_source(pk: int) -> None:
    measure.measure_source(pk, clock=reconcile.utc_now)


@shared_task(name="recovery.ask_provider")
def ask_provider(pk: int) -> None:
    second_opinion.ask_next(pk, clock=reconcile.utc_now)


@shared_task(name="recovery.keep_tables")
def keep_tables(pk: int) -> None:
    upkeep.keep(pk, clock=reconcile.utc_now)


@shared_task(name="recovery.keep_audit_chain")
def keep_audit_chain(pk: int) -> None:
    audit_chain.keep(pk, clock=reconcile.utc_now)


def wake_incident(pk: int) -> None:
    """Look at a case now rather than at the next tick."""
    _wake(work_on_incident, pk)


def wake_examination(pk: int) -> None:
    """Examine a cluster now rather than at the next tick."""
    _wake(examine_cluster, pk)


def wake_channel(pk: int) -> None:
    """Send what a channel has waiting now rather than at the next tick."""
    _wake(deliver_notices, pk)


def _wake(task: Task[..., None], pk: int) -> None:
    """Without a broker nothing is lost: the tick finds what is due."""
    try:
        task.apply_async((pk,), expires=3 * settings.TICK_S, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("The broker is not reachable (%s): %s(%s) waits for the next tick.", error, task.name, pk)


# Rows that one worker at a time works on: what is due now, and the task that takes one of them.
LANES: tuple[tuple[Callable[[datetime], Iterable[Any]], Task[..., None]], ...] = (
    (examinations.due, examine_cluster),
    (upkeep.due, keep_tables),
    (audit_chain.due, keep_audit_chain),
    (measure.due, measure_source),
    (second_opinion.due, ask_provider),
    (account.due, watch_ledgers),
    (notices.due, deliver_notices),
)
