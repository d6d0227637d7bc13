"""What was measured of a run stands on its page, and nothing where nothing was."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from recovery.models import NodeEvent, PushSender, Reading, SourceHealth
from tests.dashboard.conftest import text_of
from tests.factories import make_attempt

pytestmark = pytest.mark.django_db


def test_utilisation_xids_and_push_stand_on_the_page_of_the_run(clients: dict[str, Client]) -> None:
    now = timezone.now()
    attempt = make_attempt()
    cluster = attempt.job.cluster
    cluster.sources = {"prometheus_url": "http://p"}
    cluster.save()
    page = f"/runs/{attempt.job.run_id}/"
    assert "GPUs</dt>" not in text_of(clients["viewer"].get(page))
    for minutes in (0, 30, 60):
        for name, value in (("utilisation", 90.0), ("power", 600.0)):
            at = now - timedelta(minutes=minutes)
            Reading.objects.create(attempt=attempt, name=name, node="gpu-01", at=at, value=value)
    Reading.objects.create(attempt=attempt, name="xid", node="gpu-01", at=now, value=79)
    PushSender.objects.create(attempt=attempt, heard_at=now, dropped=7)
    text = text_of(clients["viewer"].get(page))
    assert "90 % busy" in text
    assert "600 W" in text
    assert "Xid 79" in text
    assert text.count("<rect") == 3
    assert "no room for 7 rows" in text


def test_the_fabric_is_shown_where_nothing_else_is_measured(clients: dict[str, Client]) -> None:
    now = timezone.now()
    attempt = make_attempt()
    cluster = attempt.job.cluster
    cluster.sources = {"prometheus_url": "http://p"}
    cluster.save()
    for name, node, minutes, value in (
        ("network", "gpu-01", 0, 12e9), ("network", "gpu-02", 0, 8e9), ("network", "gpu-02", 30, 1e9),
        ("nccl", "gpu-01", 0, 41.5),
    ):  # fmt: skip
        at = now - timedelta(minutes=minutes)
        Reading.objects.create(attempt=attempt, name=name, node=node, at=at, value=value)
    text = text_of(clients["viewer"].get(f"/runs/{attempt.job.run_id}/"))
    assert "each node sends 10.0 GB per second" in text
    assert "41.50, as the source" in text
    assert "utilisation unknown" in text


def test_how_often_nvrx_started_the_workers_stands_on_the_page_of_the_run(clients: dict[str, Client]) -> None:
    attempt, at = make_attempt(), timezone.now() - timedelta(minutes=5)
    cycles = [
        {"number": number, "started_at": at.isoformat(), "ended_at": "", "nodes": "gpu-[01-02]"}
        for number in range(20, 40)  # the newest are kept
    ]
    attempt.parser_memory = {"metrics": {"cycles": cycles}}
    attempt.save()
    text = text_of(clients["viewer"].get(f"/runs/{attempt.job.run_id}/"))
    assert "the workers were started 40 times, the last time" in text
    assert "on gpu-[01-02]" in text
    attempt.parser_memory["metrics"]["cycles"] = [{**cycles[0], "number": 0}]
    attempt.save()
    assert "were started 1 time," in text_of(clients["viewer"].get(f"/runs/{attempt.job.run_id}/"))


def test_a_cluster_shows_what_its_sources_answer(clients: dict[str, Client]) -> None:
    attempt = make_attempt()
    cluster = attempt.job.cluster
    now = timezone.now()
    SourceHealth.objects.create(cluster=cluster, source="loki", tried_at=now, trouble="Away.", remedy="Start it.")
    text = text_of(clients["viewer"].get(f"/clusters/{cluster.pk}/"))
    assert "Away. Start it." in text


def test_a_kernel_line_is_shown_as_such_among_the_changes_of_nodes(clients: dict[str, Client]) -> None:
    now = timezone.now()
    cluster = make_attempt().job.cluster
    words = "NVRM: Xid 79 <b>"
    NodeEvent.objects.create(cluster=cluster, node="n1", at=now, seen_at=now, source="loki", key="k", reason=words)
    text = clients["viewer"].get("/nodes/").content.decode()
    assert "NVRM: Xid 79 &lt;b&gt;" in text
    assert "no longer listed" not in text
