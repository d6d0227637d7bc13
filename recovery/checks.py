"""Mistakes in the set-up that can be seen without asking anybody: Django's system checks, each with a remedy.

`manage.py check` runs them, and so does each start of a command; those that read tables run with
`manage.py check --database default`, and before `migrate`. What needs a look at Slurm or the broker is in
`manage.py doctor`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register
from django.db import DatabaseError, connection, connections
from django.db.models import Model

from recovery.models import Cluster, Event

LONGEST_CHAIN = 7  # scheduler calls in one look at a case: three changes for an exclusion, and a read around each
ROOTS = {"RECOVERY_LOG_ROOTS": "LOG_ROOTS", "RECOVERY_CHECKPOINT_ROOTS": "CHECKPOINT_ROOTS"}

Apps = Sequence[AppConfig] | None


@register(Tags.files)
def roots_are_folders(app_configs: Apps, **kwargs: Any) -> Iterator[CheckMessage]:
    """E001, W002: what is below these folders is read for whichever job names it."""
    for variable, name in ROOTS.items():
        for root in getattr(settings, name):
            if not Path(root).is_absolute() or Path(root).parent == Path(root):
                yield Error(
                    f"{variable} holds {root!r}, which is not an absolute path below /.",
                    hint="Name the folders that jobs write to, such as /logs; jobs can name any file below them.",
                    id="recovery.E001",
                )
            elif not Path(root).is_dir():
                yield Warning(
                    f"{variable} holds {root!r}, which is no folder on this machine.",
                    hint="Mount it here, or correct the path; until then jobs that write there are blind.",
                    id="recovery.W002",
                )


@register(Tags.files)
def data_folder_is_writable(app_configs: Apps, **kwargs: Any) -> Iterator[CheckMessage]:
    """E003: SQLite lives there. Beside a database server nothing is written to it: a container's may be read-only."""
    if connection.vendor == "sqlite" and not os.access(settings.DATA_DIR, os.W_OK | os.X_OK):
        yield Error(
            f"RECOVERY_DATA_DIR={settings.DATA_DIR} can't be written to by this account.",
            hint="Give the folder to the account that runs Recovery Desk, or name another one.",
            id="recovery.E003",
        )


@register(Tags.security)
def secret_key_is_secret(app_configs: Apps, **kwargs: Any) -> Iterator[CheckMessage]:
    """E004."""
    if not settings.DEBUG and settings.SECRET_KEY == settings.DEV_KEY:
        yield Error(
            "RECOVERY_SECRET_KEY is the one that stands in the source.",
            hint="Give 50 random characters of your own, best in a file named by RECOVERY_SECRET_KEY_FILE.",
            id="recovery.E004",
        )


@register()
def lease_outlives_a_look(app_configs: Apps, **kwargs: Any) -> Iterator[CheckMessage]:
    """E005: with a shorter lease a second worker would start on a case that the first still works on."""
    least = LONGEST_CHAIN * settings.SLURM_TIMEOUT_S
    if least > settings.LEASE_S:
        yield Error(
            f"RECOVERY_LEASE_S={settings.LEASE_S:g} is shorter than one look at a case may take ({least:g} s).",
            hint=f"Give at least {LONGEST_CHAIN} × RECOVERY_SLURM_TIMEOUT_S, or shorten the time-out.",
            id="recovery.E005",
        )


@register()
def picture_can_be_fresh(app_configs: Apps, **kwargs: Any) -> Iterator[CheckMessage]:
    """W006."""
    if settings.STALE_AFTER_S < 2 * settings.TICK_S:
        yield Warning(
            f"RECOVERY_STALE_AFTER_S={settings.STALE_AFTER_S:g} is shorter than two ticks, so every picture is stale.",
            hint="Give at least 2 × RECOVERY_TICK_S: nothing acts on a stale picture.",
            id="recovery.W006",
        )


@register()
def coarser_rows_are_kept_longer(app_configs: Apps, **kwargs: Any) -> Iterator[CheckMessage]:
    """E012: otherwise a chart would end where its coarser rows do, though finer ones are there."""
    names = ("KEEP_SAMPLES_DAYS", "KEEP_MINUTES_DAYS", "KEEP_TEN_MINUTES_DAYS")
    for finer, coarser in pairwise(names):
        if getattr(settings, coarser) < getattr(settings, finer):
            yield Error(
                f"RECOVERY_{coarser}={getattr(settings, coarser):g} is less than RECOVERY_{finer}="
                f"{getattr(settings, finer):g}.",
                hint="Keep coarser rows at least as long as finer ones: they take far less room.",
                id="recovery.E012",
            )


@register(Tags.compatibility, deploy=True)
def broker_serves_several_machines(app_configs: Apps, **kwargs: Any) -> Iterator[CheckMessage]:
    """W007."""
    if settings.CELERY_BROKER_URL.startswith("filesystem:"):
        yield Warning(
            "REDIS_URL names a folder as the broker, which is meant for a checkout on one machine.",
            hint="Run a Redis or Valkey and give redis://HOST:PORT/DB.",
            id="recovery.W007",
        )


@register(Tags.database)
def clusters_are_set_up(app_configs: Apps, *, databases: Sequence[str] | None, **kwargs: Any) -> Iterator[CheckMessage]:
    """I008, W009."""
    for alias in databases or ():
        if not _has_table(alias, Cluster):
            continue
        enabled = list(Cluster.objects.using(alias).filter(enabled=True))
        if not enabled:
            yield Info(
                "No cluster is enabled, so nothing is watched.",
                hint="Add one with `manage.py set_cluster`; docs/operations.md says how.",
                id="recovery.I008",
            )
        for cluster in enabled:
            if cluster.poll_interval_s >= settings.STALE_AFTER_S:
                yield Warning(
                    f"Cluster {cluster.name} is looked at every {cluster.poll_interval_s:g} s, but a picture is stale "
                    f"after {settings.STALE_AFTER_S:g} s.",
                    hint="Poll it more often, or raise RECOVERY_STALE_AFTER_S: nothing acts on a stale picture.",
                    id="recovery.W009",
                )


@register(Tags.database)
def audit_trail_is_guarded(
    app_configs: Apps, *, databases: Sequence[str] | None, **kwargs: Any
) -> Iterator[CheckMessage]:
    """W010: a warning, not an error, so that `migrate` can still repair it."""
    guards = import_module("recovery.migrations.0002_append_only_events")
    for alias in databases or ():
        if not _has_table(alias, Event):
            continue
        for table in guards.missing(connections[alias]):
            yield Warning(
                f"Rows of {table} can be changed and deleted: its triggers are missing.",
                hint="Run `manage.py migrate`, which makes them anew without touching a row, then `manage.py "
                "verify_audit`; and find out who removed them.",
                id="recovery.W010",
            )


def _has_table(alias: str, model: type[Model]) -> bool:
    """False also where the database does not answer: other commands and `manage.py doctor` say that better."""
    try:
        return model._meta.db_table in connections[alias].introspection.table_names()
    except DatabaseError:
        return False
