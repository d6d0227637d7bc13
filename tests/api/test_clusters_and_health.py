from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState, NodeState
from tests.api.conftest import Api
from tests.factories import (
    ago,
    make_attempt,
    make_cluster,
    make_examination,
    make_incident,
    make_job,
    make_node,
    make_run,
)

Ask = Callable[[str], Api]

pytestmark = pytest.mark.django_db


# --- clusters


def test_a_cluster_tells_how_old_its_picture_is_and_what_it_shows(api: Ask) -> None:
    cluster = make_cluster(name="alps", seen_at=ago(12))
    run = make_run(cluster=cluster)
    make_attempt(job=make_job(run=run))
    make_job(run=run, state=JobState.PENDING)
    make_node(cluster=cluster)
    make_node(cluster=cluster, state=NodeState.DRAINED)
    body = api("viewer").get(f"clusters/{cluster.pk}").body
    assert (body["id"], body["name"], body["release"]) == (cluster.pk, "alps", "22.05.8")
    assert 12 <= body["age_s"] < 30
    assert body["stale"] is False
    assert (body["running_jobs"], body["pending_jobs"], body["blind_attempts"]) == (1, 1, 0)
    assert body["nodes"] == {"up": 1, "draining": 0, "drained": 1, "down": 0, "unknown": 0}


def test_a_cluster_that_does_not_answer_is_stale_and_says_why(api: Ask) -> None:
    make_cluster(error="squeue: no answer within 10 s")
    [row] = api("viewer").get("clusters").rows
    assert (row["stale"], row["error"]) == (True, "squeue: no answer within 10 s")


def test_a_cluster_that_was_never_seen_has_no_age(api: Ask) -> None:
    make_cluster(seen_at=None)
    [row] = api("viewer").get("clusters").rows
    assert (row["age_s"], row["stale"]) == (None, True)


def test_who_paused_a_cluster_is_told(api: Ask) -> None:
    make_cluster(paused_at=ago(60), paused_by="operator", paused_reason="storage maintenance")
    [row] = api("viewer").get("clusters").rows
    assert (row["paused_by"], row["paused_reason"]) == ("operator", "storage maintenance")


def test_how_a_cluster_is_reached_stays_inside(api: Ask) -> None:
    make_cluster(options={"slurm_conf": "/etc/slurm/slurm.conf", "token": "secret"})
    [row] = api("viewer").get("clusters").rows
    assert "options" not in row
    assert "secret" not in str(row)


def test_a_disabled_cluster_is_listed_as_such(api: Ask) -> None:
    cluster = make_cluster(enabled=False)
    [row] = api("viewer").get("clusters").rows
    assert row["enabled"] is False
    assert api("viewer").get(f"clusters/{cluster.pk}").status == 200


def test_a_cluster_that_is_not_there(api: Ask) -> None:
    assert api("viewer").get("clusters/404").error["message"] == "There is no cluster 404."


# --- health


def test_whoever_asks_is_told_that_the_web_process_lives_and_nothing_else(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    make_cluster(error="squeue: no answer")
    with django_assert_num_queries(0):
        assert Api(Client()).get("health").body == {"status": "ok"}


def test_a_wrong_token_does_not_make_the_process_dead() -> None:
    assert Api(Client(headers={"authorization": "Bearer nonsense"})).get("health").status == 200


def test_all_is_well_where_nothing_is_overdue_and_pictures_are_fresh(api: Ask) -> None:
    make_cluster(next_look_at=ago(-5))
    make_incident(state=IncidentState.AWAITING_DECISION)
    body = api("viewer").get("health/details").body
    assert (body["status"], body["overdue_s"], body["stale_clusters"], body["needs_person"]) == ("ok", 0.0, [], 1)


def test_a_little_overdue_is_no_trouble(api: Ask) -> None:
    make_cluster(next_look_at=ago(10))
    body = api("viewer").get("health/details").body
    assert body["status"] == "ok"
    assert body["overdue_s"] >= 10


def test_without_worker_or_beat_it_is_degraded(api: Ask, settings: Any) -> None:
    settings.LEASE_S = 90
    make_incident(state=IncidentState.RESTORING, next_look_at=ago(200))
    body = api("viewer").get("health/details").body
    assert (body["status"], body["overdue_limit_s"]) == ("degraded", 90)
    assert body["overdue_s"] >= 200


def test_a_stale_picture_is_named(api: Ask) -> None:
    make_cluster(name="alps", seen_at=ago(600))
    body = api("viewer").get("health/details").body
    assert (body["status"], body["stale_clusters"]) == ("degraded", ["alps"])


@pytest.mark.parametrize(
    "settled",
    [
        lambda: make_cluster(next_look_at=ago(500), enabled=False),
        lambda: make_attempt(next_look_at=ago(500), closed_at=ago(400)),
        lambda: make_incident(next_look_at=ago(500), state=IncidentState.CLOSED),
        lambda: make_incident(next_look_at=ago(500), leased_until=ago(-60)),
    ],
    ids=["disabled cluster", "closed attempt", "closed incident", "leased incident"],
)
def test_what_nobody_has_to_look_at_is_not_overdue(api: Ask, settled: Callable[[], object]) -> None:
    settled()
    assert api("viewer").get("health/details").body["overdue_s"] == 0.0


# --- what the doctor found


def test_an_operator_reads_what_was_found_and_asks_for_another_look(api: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[int] = []
    monkeypatch.setattr("recovery.api.clusters.wake_examination", woken.append)
    cluster = make_cluster()
    path = f"clusters/{cluster.pk}/examination"
    nothing = api("operator").get(path).body
    assert (nothing["at"], nothing["results"], nothing["state"]) == (None, [], "not_tried")
    make_examination(cluster=cluster)
    found = api("operator").get(path).body
    assert (found["state"], found["under_way"]) == ("broken", False)
    assert {result["state"] for result in found["results"]} == {"good", "attention", "broken", "not_tried"}
    assert api("operator").post(path, {}).body["under_way"] is True
    assert woken == [cluster.pk]
