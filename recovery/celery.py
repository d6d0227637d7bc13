"""The Celery application. The database is the truth; the broker only wakes workers."""

from __future__ import annotations

import gc
import os
from typing import Any

from celery import Celery
from celery.signals import task_prerun, worker_init

from recovery.origin import on_this_host, set_origin

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery.settings")

app = Celery("recovery")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["recovery"])


@task_prerun.connect
def _note_origin(task_id: str, **_: Any) -> None:
    """What a task records names the task; the next one takes its place."""
    set_origin(on_this_host("worker"), request_id=task_id)


@worker_init.connect
def settle(**_: Any) -> None:
    """What the start has made stays as long as the worker does: the garbage collector need not look at it again.

    Before the pool forks, so that its processes go on sharing these pages (docs of gc.freeze). A tenth of what polling
    10,000 jobs costs.
    """
    gc.collect()
    gc.freeze()
