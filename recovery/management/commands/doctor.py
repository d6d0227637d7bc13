"""What this installation can see and do, each with the remedy where it can't."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from recovery.celery import app
from recovery.models import Cluster
from recovery.slurm.base import SlurmClient, SlurmError
from recovery.slurm.registry import BadOptions
from recovery.tasks import client_of

BROKER_TIMEOUT_S = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """`remedy` is "" where all is well."""

    what: str
    detail: str
    remedy: str = ""


class Command(BaseCommand):
    help = "Say what this installation can see and do, and what to do where it can't. Exit code 1: there is trouble."

    def handle(self, *args: Any, **options: Any) -> None:
        troubles = 0
        for result in examine(client_for=client_of):
            good = not result.remedy
            troubles += not good
            mark = self.style.SUCCESS("✓") if good else self.style.ERROR("✕")
            self.stdout.write(f"{mark} {result.what}: {result.detail}")
            if result.remedy:
                self.stdout.write(f"    {result.remedy}")
        if troubles:
            raise CommandError(f"{troubles} of these need attention.")


def examine(*, client_for: Callable[[Cluster], SlurmClient]) -> Iterator[Result]:
    """Everything, what others stand on first: where the database is in trouble, no cluster can be looked up."""
    data = database()
    yield data
    yield broker()
    for root in settings.LOG_ROOTS:
        yield folder("log root", Path(root), setting="RECOVERY_LOG_ROOTS")
    for root in settings.CHECKPOINT_ROOTS:
        yield folder("checkpoint root", Path(root), setting="RECOVERY_CHECKPOINT_ROOTS")
    if data.remedy:
        return
    clusters = list(Cluster.objects.filter(enabled=True))
    if not clusters:
        yield Result(what="clusters", detail="none is set up", remedy="Add one: docs/operations.md says how.")
    for cluster in clusters:
        yield reach(cluster, client_for=client_for)


def database() -> Result:
    what = f"database ({connection.vendor})"
    try:
        executor = MigrationExecutor(connection)
    except DatabaseError as error:
        return Result(what=what, detail=first_line(error), remedy="Check DATABASE_URL, and that the server runs.")
    waiting = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if waiting:
        return Result(
            what=what, detail=f"{waiting} migrations are not applied", remedy="Run `python manage.py migrate`."
        )
    return Result(what=what, detail="answers, all migrations are applied")


def broker() -> Result:
    with app.connection_for_write(connect_timeout=BROKER_TIMEOUT_S) as link:
        where = link.as_uri()  # without the password
        try:
            link.ensure_connection(max_retries=1, timeout=BROKER_TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 - each transport has errors of its own
            remedy = "Check REDIS_URL, and that Redis runs. Nothing is lost meanwhile, but nothing is looked at either."
            return Result(what=f"broker ({where})", detail=first_line(error), remedy=remedy)
    return Result(what=f"broker ({where})", detail="answers")


def folder(what: str, path: Path, *, setting: str) -> Result:
    label = f"{what} {path}"
    if not path.is_dir():
        return Result(what=label, detail="is no folder here", remedy=f"Mount it on this machine, or correct {setting}.")
    if not os.access(path, os.R_OK | os.X_OK):
        remedy = f"Let user id {os.geteuid()} read it (group or ACL); what it can't read is shown as blind."
        return Result(what=label, detail="can't be read", remedy=remedy)
    return Result(what=label, detail="can be read")


def reach(cluster: Cluster, *, client_for: Callable[[Cluster], SlurmClient]) -> Result:
    what = f"cluster {cluster.name} ({cluster.get_backend_display()})"
    try:
        health = client_for(cluster).health()
    except BadOptions as error:
        return Result(what=what, detail=str(error), remedy="Set it up anew with `python manage.py set_cluster`.")
    except SlurmError as error:
        remedy = "Check that this machine has the cluster's Slurm commands, slurm.conf and munge key, and reaches it."
        return Result(what=what, detail=str(error), remedy=remedy)
    accounting = (
        "with accounting" if health.accounting else "without accounting (how a forgotten job ended stays unknown)"
    )
    detail = f"release {health.release}, answers in {health.latency_s:.2f} s, {accounting}"
    return Result(what=what, detail=f"{detail}; a requeued job waits {health.requeue_delay_s:.0f} s at least")


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
