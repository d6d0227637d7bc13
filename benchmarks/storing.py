"""What goes into the database from a log, on SQLite in a file."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.conf import settings

from benchmarks import parsing
from benchmarks.timing import timed
from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Job, LogFile, Run, Sample
from recovery.pipeline.ingest import positions, store_looks
from recovery.pipeline.reading import read_attempt

NOW = datetime(2026, 1, 11, 9, 0, tzinfo=UTC)


def ingest() -> dict[str, float]:
    """One attempt's whole log, as many looks as it takes, against parsing it without storing anything."""
    with tempfile.TemporaryDirectory() as folder, patch.object(settings, "LOG_ROOTS", [folder]):
        path = Path(folder) / "job.out"
        path.write_text(parsing.text(), encoding="utf-8")
        attempt = make_attempt(make_cluster("ingest", "cli", {}), path)
        store = timed(lambda: _read_to_the_end(attempt), rounds=3, before=lambda: _forget(attempt))
        samples = Sample.objects.filter(attempt=attempt).count()
        parse = timed(lambda: parsing.follow(path), rounds=3)
        again = timed(lambda: _look(attempt))
    return {
        "samples": samples,
        "samples_per_s": round(samples / store.seconds),
        "store_times_parse": round(store.seconds / parse.seconds, 1),
        "nothing_new_ms": round(again.seconds * 1000, 2),
        "spread": round(store.spread, 2),
    }


def make_cluster(name: str, backend: str, options: dict[str, Any]) -> Cluster:
    return Cluster.objects.create(name=name, backend=backend, options=options)


def make_attempt(cluster: Cluster, log: Path) -> Attempt:
    run = Run.objects.create(cluster=cluster, key="bench", name="bench", user="ada", created_at=NOW)
    times = {"first_submitted_at": NOW, "submitted_at": NOW, "seen_at": NOW}
    job = Job.objects.create(
        cluster=cluster, run=run, job_id="1", name="bench", user="ada", state=JobState.RUNNING, stdout=str(log), **times
    )
    started = NOW - timedelta(hours=1)
    return Attempt.objects.create(
        job=job, number=0, state=JobState.RUNNING, submitted_at=started, started_at=started, seen_at=NOW
    )


def _read_to_the_end(attempt: Attempt) -> None:
    while _look(attempt):
        pass


def _look(attempt: Attempt) -> bool:
    """As watch.py looks at one attempt alone. Returns whether more is left to be read."""
    look = read_attempt(attempt, positions([attempt.pk]).get(attempt.pk, {}), now=NOW)
    store_looks([look], now=NOW)
    return look.more


def _forget(attempt: Attempt) -> None:
    Sample.objects.filter(attempt=attempt).delete()
    LogFile.objects.filter(attempt=attempt).delete()
    attempt.refresh_from_db()
