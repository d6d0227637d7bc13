"""Outbreaks, suspects and strikes over the API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from recovery.core.policy import check_rules
from recovery.core.policy.document import DEFAULT_RULES
from recovery.core.policy.ruling import room_for_exclusions
from recovery.models import Event, Suspect
from recovery.models.access import Role, Scope
from tests.access.people import make_person, make_site
from tests.api.conftest import Api, with_token
from tests.factories import (
    make_cluster,
    make_incident,
    make_node,
    make_outbreak,
    make_run,
    make_strike,
    make_suspect,
    make_token,
)

Ask = Callable[[str], Api]

pytestmark = pytest.mark.django_db


def test_an_outbreak_tells_what_it_holds_and_what_its_runs_share(api: Ask) -> None:
    cluster = make_cluster()
    rows = [make_incident(run=make_run(cluster=cluster)) for _ in range(3)]
    outbreak = make_outbreak(incidents=rows)
    (row,) = api("viewer").get("outbreaks?open=true").rows
    assert row["incidents"] == [incident.pk for incident in rows]
    assert row["shared"][0]["kind"] == "switch"
    assert row == api("viewer").get(f"outbreaks/{outbreak.pk}").body
    assert api("viewer").get("outbreaks?open=false").rows == []
    assert api("viewer").get("outbreaks?cluster=nowhere").status == 400
    assert api("viewer").get("outbreaks/99999").error["code"] == "not_found"


def test_a_reader_of_a_part_is_told_of_the_incidents_in_it_and_ends_no_outbreak_of_a_cluster() -> None:
    site = make_site()
    outbreak = make_outbreak(incidents=[site.cases["plain"].incident, site.cases["nlp"].incident])
    person = make_person(Role.OPERATOR, Scope.ACCOUNT, "nlp", cluster=site.alpha)
    api = with_token(make_token(user=person))
    own = [site.cases["nlp"].incident.pk]
    assert api.get("outbreaks").rows[0]["incidents"] == own
    assert api.get(f"outbreaks/{outbreak.pk}").body["incidents"] == own
    assert api.post(f"outbreaks/{outbreak.pk}/end", {"reason": "over"}).status == 403
    outbreak.refresh_from_db()
    assert outbreak.closed_at is None
    client = Client()
    client.force_login(person)
    page = client.get(f"/outbreaks/{outbreak.pk}/").content.decode()
    assert f"/outbreaks/{outbreak.pk}/end/" not in page, "what can't be done is not offered"
    assert f"/incidents/{own[0]}/" in page
    assert f"/incidents/{site.cases['plain'].incident.pk}/" not in page


def test_ending_one_needs_a_reason_and_is_an_event_of_whoever_did_it(api: Ask) -> None:
    outbreak = make_outbreak()
    assert "reason" in api("operator").post(f"outbreaks/{outbreak.pk}/end", {}).error["fields"]
    answer = api("operator").post(f"outbreaks/{outbreak.pk}/end", {"reason": "two accidents"})
    assert answer.body["closed_reason"] == "two accidents"
    assert api("operator").post(f"outbreaks/{outbreak.pk}/end", {"reason": "again"}).status == 200
    event = Event.objects.get(verb="outbreak.closed")
    assert (event.actor_name, event.reason) == ("operator", "two accidents")


def test_a_node_goes_on_the_list_and_off_it(api: Ask) -> None:
    node = make_node()
    wanted = {"node": node.name, "reason": "ticket 4711", "until": (timezone.now() + timedelta(days=2)).isoformat()}
    made = api("operator").post(f"clusters/{node.cluster_id}/suspects", wanted)
    assert made.status == 201
    assert (made.body["added_by"], made.body["score"]) == ("operator", None)
    assert [row["node"] for row in api("viewer").get(f"suspects?node={node.name}").rows] == [node.name]
    again = api("operator").post(f"clusters/{node.cluster_id}/suspects", wanted)
    assert "on the list already" in again.error["fields"]["node"][0]
    off = api("operator").post(f"suspects/{made.body['id']}/remove", {"reason": "new GPU"})
    assert (off.body["ended_by"], off.body["ended_reason"]) == ("operator", "new GPU")
    assert api("viewer").get("suspects").rows == []


@pytest.mark.parametrize(
    ("field", "value"), [("node", "gpu-nowhere"), ("reason", ""), ("until", "2001-01-01T00:00:00Z"), ("until", "soon")]
)
def test_what_is_wrong_is_named_and_nothing_is_stored(field: str, value: str, api: Ask) -> None:
    node = make_node()
    wanted = {"node": node.name, "reason": "x", "until": (timezone.now() + timedelta(days=2)).isoformat()}
    answer = api("operator").post(f"clusters/{node.cluster_id}/suspects", {**wanted, field: value})
    assert answer.status == 400
    assert field in answer.error["fields"]
    assert not Suspect.objects.exists()


def test_strikes_are_listed_by_node(api: Ask) -> None:
    strike = make_strike()
    make_strike(node="gpu-77")
    (row,) = api("viewer").get("strikes?node=gpu-02").rows
    assert (row["incident_id"], row["told_by"], row["proven"]) == (strike.incident_id, "kernel", True)


@pytest.mark.parametrize("path", ["outbreaks", "suspects", "strikes"])
def test_longer_lists_take_the_same_number_of_questions(path: str, api: Ask) -> None:
    def fill(count: int) -> None:
        cluster = make_cluster()
        for number in range(count):
            incident = make_incident(run=make_run(cluster=cluster))
            make_outbreak(incidents=[incident])
            make_suspect(cluster=cluster, node=f"gpu-{number}")
            make_strike(incident=incident)

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert api("viewer").get(path).status == 200
        return len(queries)

    fill(2)
    asked()
    few = asked()
    fill(6)
    assert asked() == few


@pytest.mark.parametrize(("value", "right"), [(True, True), (False, True), ("yes", False), (1, False)])
def test_a_policy_says_whether_restarts_avoid_suspects(value: Any, right: bool) -> None:
    errors = check_rules({**DEFAULT_RULES, "avoid_suspects": value})
    assert errors == ([] if right else ["avoid_suspects: must be true or false."])


def test_there_is_room_for_as_many_exclusions_as_the_caps_leave() -> None:
    breaker = {"max_excluded_nodes": 4, "max_excluded_percent": 10.0}
    assert [room_for_exclusions(breaker, excluded=n, total=100) for n in (0, 3, 4, 9)] == [4, 1, 0, 0]
    assert [room_for_exclusions(breaker, excluded=1, total=n) for n in (9, 19, 20, 30)] == [0, 0, 1, 2]


def test_an_incident_names_its_outbreak_and_an_outbreaks_incidents_can_be_asked_for(api: Ask) -> None:
    incident, other = make_incident(), make_incident()
    outbreak = make_outbreak(incidents=[incident])
    assert api("viewer").get(f"incidents/{incident.pk}").body["outbreak_id"] == outbreak.pk
    assert api("viewer").get(f"incidents/{other.pk}").body["outbreak_id"] is None
    assert [row["id"] for row in api("viewer").get(f"incidents?outbreak={outbreak.pk}").rows] == [incident.pk]
