"""The client and the desk's own API: what one says is what the other understands."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from recovery.access import actor_for
from recovery.api import push_tokens
from recovery.client import recovery_desk_client as module
from recovery.client.recovery_desk_client import RecoveryDesk
from recovery.models import Attempt, Cluster, PushBatch
from tests.factories import make_attempt, make_cluster, make_job, make_run

pytestmark = pytest.mark.django_db(transaction=True)


def client_for(url: str, cluster: Cluster, admin: User) -> RecoveryDesk:
    _, token = push_tokens.make(actor=actor_for(admin), name="t", cluster=cluster, now=timezone.now())
    return RecoveryDesk(url, token, job="4711", restart=0, flush_s=0.05)


def test_what_the_client_says_is_taken_whole(live_server: Any, admin: User, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = False
    attempt = make_attempt(number=0, job=make_job(job_id="4711"))
    client = client_for(live_server.url, attempt.job.cluster, admin)
    client.fresh_start()
    client.progress(1, loss=float("nan"), throughput=900, step_time_s=1.5, tokens=2**40, rank=3)
    client.save_started(1, "/ckpt")
    client.save_durable(1, "/ckpt")
    client.loaded(1, "/ckpt")
    for phase in ("training", "saving", "evaluating", "finishing"):
        client.phase(phase)
    client.failure(RuntimeError("CUDA error"))
    client.finished()
    assert client.flush(20)
    assert (client.sent, client.refused) == (11, 0)
    kinds = [row["kind"] for batch in PushBatch.objects.order_by("pk") for row in batch.rows]
    assert kinds == [
        "fresh_start", "progress", "save_started", "save_durable", "loaded", "eval_finished", "save_started",
        "eval_started", "finished", "failure", "finished",
    ]  # fmt: skip


def test_a_job_that_the_desk_has_not_seen_yet_is_waited_for(
    live_server: Any, admin: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECURE_SSL_REDIRECT = False
    monkeypatch.setattr(module, "LONGEST_RETRY_AFTER_S", 0.1)
    cluster = make_cluster()
    client = client_for(live_server.url, cluster, admin)
    client.progress(1)
    refused = threading.Event()
    monkeypatch.setattr(client, "_later", _noting(client, refused))
    assert refused.wait(20)
    make_attempt(number=0, job=make_job(job_id="4711", run=make_run(cluster=cluster)))
    assert client.flush(20)
    assert client.sent == 1


def _noting(client: RecoveryDesk, refused: threading.Event) -> Any:
    later = client._later

    def noted(why: str, retry_after: float | None) -> bool:
        refused.set()
        return later(why, retry_after)

    return noted


def test_when_the_attempt_is_over_the_client_stops(live_server: Any, admin: User, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = False
    attempt = make_attempt(number=0, job=make_job(job_id="4711"))
    Attempt.objects.update(closed_at=timezone.now())
    client = client_for(live_server.url, attempt.job.cluster, admin)
    client.progress(1)
    thread = client._thread
    assert thread is not None
    thread.join(20)
    assert not thread.is_alive()
    assert client.refused == 1
