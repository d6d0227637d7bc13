from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from pytest_django import DjangoAssertNumQueries

from recovery.core.lifecycle import INCIDENT_WORDS, IncidentState
from recovery.core.types import FailureClass, JobState, Outcome
from recovery.models import Incident
from recovery.pipeline import account
from tests.api.conftest import Api
from tests.factories import (
    ago,
    make_action,
    make_attempt,
    make_cluster,
    make_decision,
    make_event,
    make_finding,
    make_incident,
    make_job,
    make_recommendation,
    make_run,
)

Ask = Callable[[str], Api]

pytestmark = pytest.mark.django_db


def whole(incident: Incident) -> Incident:
    """With one of everything that its page shows."""
    make_finding(incident=incident)
    make_event(incident=incident)
    old = make_recommendation(incident=incident, superseded_at=ago(100), superseded_reason="a node went down")
    make_decision(recommendation=make_recommendation(incident=incident))
    make_action(
        recommendation=old,
        calls=[{"operation": "requeue", "command": "scontrol requeue 4711", "begun_at": "2026-01-11T14:22:12Z"}],
    )
    return incident


# --- the list


def test_an_incident_is_listed_with_what_its_row_needs(api: Ask) -> None:
    incident = make_incident()
    recommendation = make_recommendation(incident=incident)
    [row] = api("viewer").get("incidents").rows
    assert (row["id"], row["state"], row["state_label"]) == (
        incident.pk,
        "awaiting_decision",
        INCIDENT_WORDS[IncidentState.AWAITING_DECISION].label,
    )
    assert row["headline"] == incident.headline
    assert row["cluster"]["name"] == incident.run.cluster.name
    assert row["run"] == {"id": incident.run_id, "name": incident.run.name, "user": "mira"}
    assert row["job"]["job_id"] == incident.attempt.job.job_id
    assert (row["failure_class"], row["restart"], row["exclude"]) == ("gpu_hardware", "yes", "nodes")
    assert row["recommendation_id"] == recommendation.pk
    assert row["moments"]["recommended_at"]
    assert row["moments"]["closed_at"] is None
    assert row["outcome"] is None


def test_what_is_not_known_yet_is_null_and_not_an_empty_word(api: Ask) -> None:
    make_incident(state=IncidentState.DETECTED)
    [row] = api("viewer").get("incidents").rows
    assert [row[name] for name in ("failure_class", "restart", "exclude", "confidence", "recommendation_id")] == [
        None
    ] * 5


def test_the_newest_comes_first(api: Ask) -> None:
    old, new = make_incident(detected_at=ago(900)), make_incident(detected_at=ago(30))
    viewer = api("viewer")
    assert [row["id"] for row in viewer.get("incidents").rows] == [new.pk, old.pk]
    assert [row["id"] for row in viewer.get("incidents?ordering=detected_at").rows] == [old.pk, new.pk]


CASES: dict[str, dict[str, Any]] = {
    "waits": {"state": IncidentState.AWAITING_DECISION},
    "hangs": {"state": IncidentState.NEEDS_PERSON, "kind": "hang", "failure_class": FailureClass.HANG_SILENT},
    "acts": {"state": IncidentState.ACTING},
    "done": {"state": IncidentState.CLOSED},
    "gave_up": {"state": IncidentState.CLOSED, "outcome": Outcome.GAVE_UP},
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("open=true", {"waits", "hangs", "acts"}),
        ("open=false", {"done", "gave_up"}),
        ("needs_person=true", {"waits", "hangs"}),
        ("needs_person=false", {"acts", "done", "gave_up"}),
        ("state=acting", {"acts"}),
        ("state=acting&state=awaiting_decision", {"acts", "waits"}),
        ("kind=hang", {"hangs"}),
        ("failure_class=hang_silent", {"hangs"}),
        ("outcome=gave_up&outcome=recovered", {"done", "gave_up"}),
        ("outcome=gave_up", {"gave_up"}),
        ("state=closed&outcome=recovered", {"done"}),
    ],
)
def test_incidents_can_be_chosen_by_what_they_are(api: Ask, query: str, expected: set[str]) -> None:
    names = {make_incident(**fields).pk: name for name, fields in CASES.items()}
    assert {names[row["id"]] for row in api("viewer").get(f"incidents?{query}").rows} == expected


def test_incidents_can_be_chosen_by_where_and_when_they_are(api: Ask) -> None:
    run = make_run(cluster=make_cluster(name="alps"), user="noor")
    wanted = make_incident(run=run, detected_at=ago(3600))
    make_incident(detected_at=ago(60))
    before, after = quote(ago(1800).isoformat()), quote(ago(7200).isoformat())
    for query in (
        "cluster=alps",
        f"run={run.pk}",
        "user=noor",
        f"detected_before={before}",
        f"detected_after={after}&detected_before={before}",
    ):
        assert [row["id"] for row in api("viewer").get(f"incidents?{query}").rows] == [wanted.pk], query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=sleeping", "state"),
        ("failure_class=bad_luck", "failure_class"),
        ("run=one", "run"),
        ("detected_after=yesterday", "detected_after"),
        ("ordering=headline", "ordering"),
        ("stat=acting", "stat"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=ten", "limit"),
        ("limit=٣", "limit"),
        ("offset=-1", "offset"),
        ("offset=1000001", "offset"),
        ("offset=99999999999999999999999999", "offset"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(api: Ask, query: str, field: str) -> None:
    answer = api("viewer").get(f"incidents?{query}")
    assert (answer.status, answer.error["code"]) == (400, "invalid")
    assert list(answer.error["fields"]) == [field]


def test_a_mistyped_parameter_is_answered_with_the_ones_there_are(api: Ask) -> None:
    message = api("viewer").get("incidents?stat=acting").error["message"]
    assert message.startswith("stat: There is no such parameter; choose from: cluster, detected_after, ")


def test_a_long_list_comes_in_pages(api: Ask) -> None:
    for _ in range(5):
        make_incident()
    viewer = api("viewer")
    first = viewer.get("incidents?limit=2&open=true")
    assert (first.body["count"], len(first.rows), first.body["previous"]) == (5, 2, None)
    seen = [row["id"] for row in first.rows]
    follow = first.body["next"]
    while follow:
        page = viewer.get(follow.partition("/api/v1/")[2])
        seen += [row["id"] for row in page.rows]
        follow = page.body["next"]
    assert len(seen) == len(set(seen)) == 5
    assert len(viewer.get("incidents?limit=500").rows) == 5


@pytest.mark.parametrize("ordering", ["", "&ordering=detected_at", "&ordering=-closed_at"])
def test_rows_alike_keep_their_places_from_page_to_page(api: Ask, ordering: str) -> None:
    moment = ago(60)
    every = [make_incident(detected_at=moment).pk for _ in range(6)]
    viewer = api("viewer")
    seen = [viewer.get(f"incidents?limit=1&offset={i}{ordering}").rows[0]["id"] for i in range(6)]
    assert seen == every[::-1]


def test_a_longer_list_needs_no_more_queries(api: Ask, django_assert_max_num_queries: Any) -> None:
    viewer = api("viewer")
    whole(make_incident())
    with django_assert_max_num_queries(8) as few:
        viewer.get("incidents")
    for state in IncidentState:
        whole(make_incident(state=state))
    with django_assert_max_num_queries(len(few)):
        assert len(viewer.get("incidents").rows) == 11


# --- one incident
COSTS = ("gpu_hours_lost", "stalled_gpu_hours", "decision_wait_s", "decision_held_gpu_hours", "decision_gpu_hours")


def test_an_incident_comes_with_all_that_belongs_to_it(api: Ask) -> None:
    incident = whole(make_incident(state=IncidentState.RESTORING))
    body = api("viewer").get(f"incidents/{incident.pk}").body
    assert body["id"] == incident.pk
    assert body["diagnosis"]["nodes"] == ["gpu-02"]
    assert body["diagnosis"]["first_failure"]["line"] == 1841
    assert body["diagnosis"]["evidence"][0]["role"] == "cause"
    assert body["diagnosis"]["coverage"] == {"job log": "read to its end"}
    assert body["recommendation"]["decision"]["kind"] == "approve"
    assert [row["superseded_reason"] for row in body["superseded"]] == ["a node went down"]
    assert body["findings"][0]["reason"] == "Slurm says: FAILED with exit code 1."
    assert body["actions"][0]["state"] == "intended"
    assert body["actions"][0]["calls"][0]["operation"] == "requeue"
    assert body["actions"][0]["calls"][0]["result"] is None
    assert [event["verb"] for event in body["events"]] == ["incident.detected"]


def test_a_fresh_incident_has_no_diagnosis_and_no_recommendation(api: Ask) -> None:
    body = api("viewer").get(f"incidents/{make_incident(state=IncidentState.DETECTED).pk}").body
    assert (body["diagnosis"], body["recommendation"]) == (None, None)
    assert (body["superseded"], body["findings"], body["actions"], body["events"]) == ([], [], [], [])


def test_the_clocks_run_from_moment_to_moment(api: Ask) -> None:
    start = ago(3600).replace(microsecond=0)
    after = {
        "failed_at": 0,
        "detected_at": 4,
        "recommended_at": 8,
        "decided_at": 128,
        "acted_at": 138,
        "restored_at": 144,
    }
    moments: dict[str, Any] = {name: start + timedelta(seconds=s) for name, s in after.items()}
    incident = make_incident(state=IncidentState.AWAITING_CHECKPOINT, **moments)
    clocks = api("viewer").get(f"incidents/{incident.pk}").body["clocks"]
    assert clocks == {
        "detect_s": 4.0, "recommend_s": 4.0, "decide_s": 120.0, "act_s": 10.0, "restore_s": 6.0,
        "next_checkpoint_s": None, "total_s": None, "steps_lost": 12,
        **dict.fromkeys(COSTS),
    }  # fmt: skip


def test_what_it_cost_is_what_the_ledger_of_its_run_says(api: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = make_attempt(job=make_job(state=JobState.FAILED, gpus=60), state=JobState.FAILED)
    incident = make_incident(
        state=IncidentState.AWAITING_DECISION, attempt=attempt, failed_at=ago(600), detected_at=ago(540)
    )
    now = ago(0)
    account.keep_run(attempt.job.run_id, now=now)
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)  # it waits still, and costs more at each moment
    clocks = api("viewer").get(f"incidents/{incident.pk}").body["clocks"]
    assert clocks["decision_wait_s"] == pytest.approx((now - incident.detected_at).total_seconds())
    assert clocks["decision_gpu_hours"] == pytest.approx(60 * clocks["decision_wait_s"] / 3600)
    assert all(clocks[name] is not None for name in COSTS)


def test_evidence_is_passed_on_as_it_was_printed(api: Ask) -> None:
    """It is for the reader to escape; the API neither drops nor changes a character."""
    hostile = "<script>alert('x')</script> \u202e \x1b[31m {{ 7*7 }} ' OR 1=1 --"
    incident = make_incident()
    incident.diagnosis["evidence"][0]["text"] = hostile
    incident.save()
    body = api("viewer").get(f"incidents/{incident.pk}")
    assert body.body["diagnosis"]["evidence"][0]["text"] == hostile
    assert body.headers["Content-Type"] == "application/json"
    assert body.headers["X-Content-Type-Options"] == "nosniff"


def test_one_incident_needs_as_many_queries_as_another(
    api: Ask, django_assert_max_num_queries: Any, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    viewer = api("viewer")
    few, many = whole(make_incident()), whole(make_incident())
    for _ in range(5):
        make_finding(incident=many)
        make_event(incident=many)
        make_recommendation(incident=many, superseded_at=ago(50))
    with django_assert_max_num_queries(20) as queries:
        viewer.get(f"incidents/{few.pk}")
    with django_assert_num_queries(len(queries)):
        viewer.get(f"incidents/{many.pk}")


@pytest.mark.parametrize("pk", ["404", "99999999999999999999999999"])
def test_an_incident_that_is_not_there(api: Ask, pk: str) -> None:
    answer = api("viewer").get(f"incidents/{pk}")
    assert (answer.status, answer.error["code"]) == (404, "not_found")
    assert answer.error["message"] == f"There is no incident {pk}."
