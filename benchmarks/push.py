"""Pushing: what a call of the client costs a training step, and how many rows a second the desk takes in and reads."""

from __future__ import annotations

import json
import socket
import time
import warnings
from datetime import timedelta
from statistics import median, quantiles
from typing import Any

from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.utils import timezone

from recovery.access import actor_for
from recovery.api import push_tokens
from recovery.client.recovery_desk_client import RecoveryDesk
from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Job, Membership, Run, Sample
from recovery.models.access import Role
from recovery.pipeline.ingest import positions, store_looks
from recovery.pipeline.push import read_pushed
from recovery.pipeline.reading import read_attempt

STEPS = 100_000
BATCHES, ROWS = 60, 500


def run() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder for static files that nobody has collected here
        return {"client": _client(), "desk": _desk()}


def _client() -> dict[str, Any]:
    """Against a desk that is away: the worst case, as the thread works while the loop runs and the queue is full."""
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        desk = RecoveryDesk(f"http://127.0.0.1:{taken.getsockname()[1]}", "rdp_x_y", job="1")
        took = []
        for step in range(STEPS):
            began = time.perf_counter_ns()
            desk.progress(step, loss=2.5, throughput=900.0, step_time_s=1.2, tokens=1e9)
            took.append(time.perf_counter_ns() - began)
        closing = time.perf_counter()
        desk.close(0.5)
        closed = time.perf_counter() - closing
    return {
        "microseconds per call, median": round(median(took) / 1000, 2),
        "microseconds per call, 99th percentile": round(quantiles(took, n=100)[98] / 1000, 2),
        "calls": STEPS,
        "rows dropped": desk.dropped,
        "seconds to close, of 0.5 allowed": round(closed, 2),
    }


def _desk() -> dict[str, Any]:
    """One sender, one web process, SQLite: batches over the API, then read by ingest as it does at each look."""
    attempt, token = _attempt()
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        return _measured(attempt, token)


def _measured(attempt: Attempt, token: str) -> dict[str, Any]:
    client = Client(headers={"authorization": f"Bearer {token}"})
    bodies = [json.dumps(_batch(number)) for number in range(BATCHES)]
    began = time.perf_counter()
    for body in bodies:
        answer = client.post("/api/v1/ingest", body, content_type="application/json", secure=True)
        if answer.status_code != 200:
            raise RuntimeError(f"The batch was answered with {answer.status_code}: {answer.content[:200]!r}")
    taken = time.perf_counter() - began
    began = time.perf_counter()
    while _read(attempt):
        pass
    read = time.perf_counter() - began
    if Sample.objects.filter(attempt=attempt).count() != BATCHES * ROWS:
        raise RuntimeError("Rows were lost.")
    return {
        "rows": BATCHES * ROWS,
        "rows a second taken in": round(BATCHES * ROWS / taken),
        "milliseconds a batch of 500": round(1000 * taken / BATCHES, 1),
        "rows a second read by ingest": round(BATCHES * ROWS / read),
    }


def _read(attempt: Attempt) -> bool:
    """One look; whether there is more."""
    now = timezone.now()
    look = read_attempt(attempt, positions([attempt.pk]).get(attempt.pk, {}), now=now, sources=(read_pushed,))
    store_looks([look], now=now)
    return look.more


def _batch(number: int) -> dict[str, Any]:
    at = time.time() - 1000
    rows = [
        {"step": number * ROWS + row, "at": at + row / 10, "loss": 2.5, "throughput": 900.0, "step_time_s": 1.2}
        for row in range(ROWS)
    ]
    return {"batch": f"b{number}", "job": "1", "restart": 0, "rows": rows}


def _attempt() -> tuple[Attempt, str]:
    now = timezone.now()
    admin = User.objects.create_user("bench-push")
    Membership.objects.create(user=admin, role=Role.ADMIN)
    cluster = Cluster.objects.create(name="bench-push", backend="simulator", enabled=False)
    run = Run.objects.create(cluster=cluster, key="push", name="push", user="mira", created_at=now)
    submitted = now - timedelta(hours=1)
    job = Job.objects.create(
        cluster=cluster, run=run, job_id="1", first_submitted_at=submitted, submitted_at=submitted,
        state=JobState.RUNNING, seen_at=now,
    )  # fmt: skip
    attempt = Attempt.objects.create(
        job=job, number=0, state=JobState.RUNNING, submitted_at=submitted, started_at=submitted, seen_at=now
    )
    _, text = push_tokens.make(actor=actor_for(admin), name="bench", cluster=cluster, job=job, now=now)
    return attempt, text
