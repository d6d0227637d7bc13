"""The policy over REST: versions, check, save, why, replay; what rules have earned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from recovery import policy_files
from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import DecisionKind, FailureClass
from recovery.models import PolicyVersion, Promotion
from recovery.models.access import Role, Scope
from tests.access.people import make_person
from tests.api.conftest import Api, with_token
from tests.factories import (
    ago,
    make_cluster,
    make_decision,
    make_incident,
    make_policy,
    make_recommendation,
    make_token,
)

pytestmark = pytest.mark.django_db

HARDWARE: dict[str, Any] = {"name": "hardware", "classes": ["gpu_hardware"], "mode": "auto", "match": {"users": ["a"]}}
REST: dict[str, Any] = {"name": "rest", "classes": "*", "mode": "approve", "promote": {}}
Ask = Callable[[str], Api]


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {**DEFAULT_RULES, "rules": list(rules)}


def test_versions_are_listed_and_read_as_json_and_as_text(api: Ask) -> None:
    make_policy(rules=policy(REST))
    make_policy(rules=policy(HARDWARE))
    assert [row["number"] for row in api("viewer").get("policies").rows] == [2, 1]
    found = api("viewer").get("policies/1").body
    assert found["rules"] == policy(REST)
    assert policy_files.read(found["yaml"]).rules == policy(REST)
    assert api("viewer").get("policies/9").error["message"] == "There is no policy version 9."


def test_a_check_tells_lines_what_is_never_reached_and_what_would_change(api: Ask) -> None:
    make_policy(rules=policy(REST))
    wrong = api("viewer").post("policies/check", {"yaml": "rules: []"}).body
    assert wrong["errors"][0] == "line 1: default: is missing; add it."
    good = api("viewer").post("policies/check", {"rules": policy(REST, HARDWARE)}).body
    assert good["errors"] == []
    assert good["warnings"] == ["rules[1]: hardware is never reached: rest decides before it; move it up or remove it."]
    assert "+- name: hardware" in good["changes"]
    assert PolicyVersion.objects.count() == 1


@pytest.mark.parametrize("body", [{}, {"yaml": "rules: []", "rules": {}}])
def test_a_draft_comes_in_one_way(body: dict[str, Any], api: Ask) -> None:
    answer = api("viewer").post("policies/check", body)
    assert (answer.status, answer.error["message"]) == (400, "Send the policy either as yaml or as rules.")


def test_a_policy_is_saved_with_its_reason_once(api: Ask) -> None:
    body = {"yaml": policy_files.write(policy(REST)), "reason": "change 4711", "base": 0}
    saved = api("admin").post("policies/apply", body)
    assert (saved.status, saved.body["number"], saved.body["reason"]) == (201, 1, "change 4711")
    again = api("admin").post("policies/apply", {**body, "base": 1})
    assert (again.status, again.body["number"]) == (200, 1)
    late = api("admin").post("policies/apply", {**body, "rules": policy(HARDWARE)} | {"yaml": body["yaml"], "base": 0})
    assert late.status == 400
    late = api("admin").post("policies/apply", {"rules": policy(HARDWARE), "reason": "x", "base": 0})
    assert (late.status, late.error["code"]) == (409, "out_of_date")
    assert PolicyVersion.objects.count() == 1


def test_a_wrong_policy_is_refused_with_its_lines(api: Ask) -> None:
    answer = api("admin").post("policies/apply", {"yaml": "rules: []", "reason": "x"})
    assert answer.status == 400
    assert "line 1: default: is missing; add it." in answer.error["fields"]["yaml"]


def test_a_policy_is_saved_by_those_alone_whose_role_is_for_everything() -> None:
    person = make_person(Role.POLICY_ADMIN, Scope.CLUSTER, cluster=make_cluster(name="own"))
    api = with_token(make_token(user=person))
    assert api.post("policies/apply", {"rules": policy(REST), "reason": "x"}).status == 403
    assert api.post("policies/replay", {"days": 7}).status == 403


def test_why_tells_the_rule_and_those_passed_over(api: Ask) -> None:
    make_policy(rules=policy(HARDWARE, REST))
    asked = {"failure_class": "gpu_hardware", "user": "b", "labels": {"team": "x"}, "gpus": 8}
    assert api("viewer").post("policies/why", asked).body == {
        "rule": "rest", "mode": "approve", "shadow": False,
        "passed_over": [{"rule": "hardware", "why": "the user is b, not a"}],
    }  # fmt: skip
    assert "failure_class" in api("viewer").post("policies/why", {}).error["fields"]


def test_a_draft_is_replayed(api: Ask) -> None:
    row = make_recommendation(incident=make_incident(diagnosis={
        "failure_class": "gpu_hardware", "restart": "yes", "exclude": "nodes", "nodes": ["gpu-02"], "confidence": 0.9,
        "reason": "A GPU fell off the bus.",
    }))  # fmt: skip
    make_decision(recommendation=row, kind=DecisionKind.REJECT)
    draft = {**HARDWARE, "match": {}}
    breaker = {**DEFAULT_RULES["breaker"], "max_excluded_percent": 100.0}
    row.incident.run.cluster.nodes.create(name="gpu-02", state="up", changed_at=ago(60))
    found = api("admin").post("policies/replay", {"rules": {**policy(draft), "breaker": breaker}, "days": 7}).body
    assert (found["count"], found["by_mode"]["auto"]) == (1, 1)
    assert found["against_people"] == [row.incident_id]
    assert found["cases"][0]["decision"] == "reject"
    assert api("admin").post("policies/replay", {}).body["by_mode"]["observe"] == 1
    assert "number" in api("admin").post("policies/replay", {"number": 9}).error["fields"]


def test_scorecards_come_with_how_sure_they_are(api: Ask) -> None:
    incident = make_incident(failure_class=FailureClass.GPU_HARDWARE)
    make_decision(recommendation=make_recommendation(incident=incident, rule="hardware"))
    (card,) = api("viewer").get("scorecards").body
    assert (card["rule"], card["agreement"]) == ("hardware", {"hits": 1, "of": 1, "least": 0.2065, "most": 1.0})
    assert api("viewer").get("scorecards?days=0").status == 400
    person = make_person(Role.VIEWER, Scope.CLUSTER, cluster=make_cluster(name="own"))
    assert with_token(make_token(user=person)).get("scorecards").body == []


def test_a_promotion_is_decided_by_who_may_change_the_policy(api: Ask, admin: User) -> None:
    version = make_policy(rules=policy(REST))
    first = Promotion.objects.create(rule="rest", policy=version, reason="20 of 20", proposed_at=ago(60))
    assert [row["id"] for row in api("viewer").get("promotions?open=true").rows] == [first.pk]
    rejected = api("admin").post(f"promotions/{first.pk}/reject", {"reason": "not yet"}).body
    assert (rejected["decided_by"], rejected["made_version"]) == ("admin", None)
    second = Promotion.objects.create(rule="rest", policy=version, reason="40 of 40", proposed_at=ago(0))
    accepted = api("admin").post(f"promotions/{second.pk}/accept", {"reason": "well earned"}).body
    assert accepted["made_version"] == 2
    assert api("viewer").get("promotions?open=true").rows == []
    assert api("admin").post(f"promotions/{second.pk}/accept", {"reason": "again"}).status == 400
    assert api("viewer").get(f"promotions/{first.pk}").body["decision_reason"] == "not yet"
