"""The Celery application. The database is the truth; the broker only wakes workers."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery.settings")

app = Celery("recovery")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["recovery"])
