"""Agreements, freezes and the short list over the API; and what people stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery.core.policy import DEFAULT_RULES, Approval
from recovery.models import Action, Decision, Incident, KillSwitch, PolicyVersion, Recommendation
from tests.api.conftest import Answer, Api
from tests.factories import ago, make_recommendation

Ask = Callable[[str], Api]


@pytest.fixture
def asked(db: None) -> Recommendation:
    return make_recommendation(rule="hardware", passed_over=[{"rule": "nights", "why": "it is day"}])


def approve(api: Api, row: Recommendation, **body: Any) -> Answer:
    return api.post(f"recommendations/{row.pk}/approve", {"hash": row.hash, **body})


def test_an_agreement_says_how_many_are_missing(api: Ask, asked: Recommendation) -> None:
    asked.approval = asdict(Approval(count=2))
    asked.save()
    answer = approve(api("approver"), asked, comment="looks right")
    assert (answer.status, answer.body["decided"], answer.body["missing"]) == (200, False, 1)
    told = api("viewer").get(f"recommendations/{asked.pk}").body
    assert (told["approval"]["count"], told["missing"], told["decision"]) == (2, 1, None)
    assert [(each["actor_name"], each["comment"]) for each in told["agreements"]] == [("approver", "looks right")]
    assert (told["rule"], told["shadow"]) == ("hardware", False)
    assert told["passed_over"] == [{"rule": "nights", "why": "it is day"}]
    answer = approve(api("admin"), asked)
    assert (answer.body["decided"], answer.body["missing"], answer.body["kind"]) == (True, 0, "approve")
    assert api("viewer").get(f"recommendations/{asked.pk}").body["missing"] == 0


def test_a_comment_that_the_policy_asks_for_is_named(api: Ask, asked: Recommendation) -> None:
    asked.approval = asdict(Approval(comment=True))
    asked.save()
    answer = approve(api("approver"), asked)
    assert (answer.status, list(answer.error["fields"])) == (400, ["comment"])


def test_a_freeze_answers_frozen_and_its_role_overrides_it(api: Ask, asked: Recommendation) -> None:
    cluster = asked.incident.run.cluster.name
    week = {
        "name": "launch week", "from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z", "override": "admin",
        "clusters": [cluster],
    }  # fmt: skip
    rules = {**DEFAULT_RULES, "freezes": [week]}
    PolicyVersion.objects.create(number=1, rules=rules, author="admin", reason="x", created_at=ago(60))
    answer = approve(api("approver"), asked, override="please")
    assert (answer.status, answer.error["code"]) == (409, "frozen")
    assert answer.error["message"].startswith("launch week: nothing is done until")
    assert approve(api("admin"), asked, override="the launch needs it").status == 200
    assert api("viewer").get(f"recommendations/{asked.pk}").body["decision"]["overrode"] == "launch week"


def test_a_rejection_has_a_code_and_other_needs_words(api: Ask, asked: Recommendation) -> None:
    path = f"recommendations/{asked.pk}/reject"
    answer = api("approver").post(path, {"hash": asked.hash})
    assert (answer.status, list(answer.error["fields"])) == (400, ["reason"])
    assert api("approver").post(path, {"hash": asked.hash, "rejection": "because"}).status == 400
    answer = api("approver").post(path, {"hash": asked.hash, "rejection": "wrong_node"})
    assert (answer.status, answer.body["rejection"]) == (200, "wrong_node")


def test_a_decision_is_withdrawn_while_it_is_not_begun(api: Ask, asked: Recommendation) -> None:
    approve(api("approver"), asked)
    path = f"actions/{Action.objects.get().pk}/withdraw"
    assert api("approver").post(path, {"reason": ""}).status == 400
    answer = api("approver").post(path, {"reason": "wrong tab"})
    assert (answer.status, answer.body["state"]) == (200, "refused")
    answer = api("approver").post(path, {"reason": "again"})
    assert (answer.status, answer.error["code"]) == (409, "out_of_date")
    assert Decision.objects.count() == 1


def test_a_run_is_taken_over_and_given_back(api: Ask, asked: Recommendation) -> None:
    run = f"runs/{asked.incident.run_id}"
    answer = api("operator").post(f"{run}/take-over", {"reason": "I debug it"})
    assert (answer.status, answer.body["hands_off_by"]) == (200, "operator")
    assert api("operator").post(f"{run}/take-over", {"reason": "me too"}).status == 400
    assert Incident.objects.get().state == "watching"
    answer = api("operator").post(f"{run}/give-back", {"reason": "done"})
    assert (answer.status, answer.body["hands_off_at"]) == (200, None)


def test_a_question_is_snoozed_at_most_a_day(api: Ask, asked: Recommendation) -> None:
    path = f"incidents/{asked.incident_id}/snooze"
    until = timezone.now() + timedelta(hours=2)
    answer = api("operator").post(path, {"until": until.isoformat()})
    assert (answer.status, answer.body["snoozed_by"]) == (200, "operator")
    answer = api("operator").post(path, {"until": (until + timedelta(days=1)).isoformat()})
    assert (answer.status, list(answer.error["fields"])) == (400, ["until"])
    assert api("operator").post(path, {"until": None}).body["snoozed_until"] is None
    assert api("operator").post(path, {}).status == 400


def test_the_kill_switch_is_pulled_and_reset(api: Ask) -> None:
    assert api("viewer").get("kill-switch").body["pulled"] is False
    assert api("operator").post("kill-switch/pull", {"reason": ""}).status == 400
    answer = api("operator").post("kill-switch/pull", {"reason": "the fabric is repaired"})
    assert (answer.status, answer.body["pulled"], answer.body["pulled_by"]) == (200, True, "operator")
    assert api("operator").post("kill-switch/pull", {"reason": "again"}).status == 400
    assert api("operator").post("kill-switch/reset", {"reason": "over"}).status == 403
    assert api("admin").post("kill-switch/reset", {"reason": "over"}).body["pulled"] is False
    assert not KillSwitch.objects.exists()
