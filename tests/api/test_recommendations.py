"""Reading recommendations, and deciding on one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from recovery.access import Permission
from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState, Mode
from recovery.models import Action, Attempt, Decision, Event, Incident, Recommendation
from tests.api.conftest import Answer, Api, with_token
from tests.factories import (
    ago,
    make_decision,
    make_incident,
    make_policy,
    make_recommendation,
    make_token,
)

Ask = Callable[[str], Api]


@pytest.fixture
def open_question(db: None) -> Recommendation:
    """A recommendation that waits for a person."""
    return make_recommendation()


def approve(api: Api, row: Recommendation, **body: Any) -> Answer:
    return api.post(f"recommendations/{row.pk}/approve", {"hash": row.hash, **body})


def reject(api: Api, row: Recommendation, **body: Any) -> Answer:
    return api.post(f"recommendations/{row.pk}/reject", {"hash": row.hash, "reason": "the node is fine", **body})


# --- deciding


def test_an_approval_is_told_stored_and_leads_to_an_action(api: Ask, open_question: Recommendation) -> None:
    answer = approve(api("approver"), open_question, comment="gpu-02 is with the vendor")
    assert answer.status == 200
    assert answer.body["kind"] == "approve"
    assert (answer.body["actor_name"], answer.body["reason"]) == ("approver", "gpu-02 is with the vendor")
    assert answer.body["hash"] == open_question.hash
    assert Decision.objects.get().recommendation == open_question
    assert Action.objects.get().recommendation == open_question
    assert Incident.objects.get().state == IncidentState.ACTING


def test_a_comment_is_not_needed(api: Ask, open_question: Recommendation) -> None:
    assert approve(api("admin"), open_question).status == 200


def test_a_rejection_leaves_the_job_alone(api: Ask, open_question: Recommendation) -> None:
    answer = reject(api("approver"), open_question)
    assert (answer.status, answer.body["kind"], answer.body["reason"]) == (200, "reject", "the node is fine")
    assert not Action.objects.exists()
    assert Incident.objects.get().state == IncidentState.WATCHING


def test_a_decision_through_a_token_names_its_owner_and_the_token(
    approver: User, open_question: Recommendation
) -> None:
    script = with_token(make_token(user=approver, name="night shift", scopes=[Permission.DECIDE]))
    assert approve(script, open_question).body["actor_name"] == "approver (token night shift)"
    assert Decision.objects.get().actor == approver
    event = Event.objects.get(verb="incident.acting")
    assert (event.actor_kind, event.actor_name) == ("token", "approver (token night shift)")


@pytest.mark.parametrize("decide", [approve, reject])
@pytest.mark.parametrize("actor", ["anonymous", "outsider", "viewer", "operator"])
def test_who_may_not_decide_changes_nothing(
    api: Ask, open_question: Recommendation, actor: str, decide: Callable[..., Answer]
) -> None:
    assert decide(api(actor), open_question).status in (401, 403)
    assert not Decision.objects.exists()
    assert Incident.objects.get().state == IncidentState.AWAITING_DECISION


@pytest.mark.parametrize("decide", [approve, reject])
def test_the_second_to_decide_is_told_who_was_first(
    api: Ask, open_question: Recommendation, decide: Callable[..., Answer]
) -> None:
    approve(api("approver"), open_question)
    answer = decide(api("admin"), open_question)
    assert (answer.status, answer.error["code"]) == (409, "already_decided")
    assert "approver decided first" in answer.error["message"]
    assert Decision.objects.count() == Action.objects.count() == 1


def not_what_was_shown(row: Recommendation) -> None:
    row.hash = "0" * 64


def superseded(row: Recommendation) -> None:
    Recommendation.objects.filter(pk=row.pk).update(superseded_at=ago(1))


def expired(row: Recommendation) -> None:
    Recommendation.objects.filter(pk=row.pk).update(expires_at=ago(1))


def another_attempt(row: Recommendation) -> None:
    Attempt.objects.update(state=JobState.RUNNING)


def case_moved_on(row: Recommendation) -> None:
    Incident.objects.update(state=IncidentState.WATCHING)


@pytest.mark.parametrize("decide", [approve, reject])
@pytest.mark.parametrize("change", [not_what_was_shown, superseded, expired, another_attempt, case_moved_on])
def test_what_no_longer_holds_is_not_decided(
    api: Ask, open_question: Recommendation, change: Callable[[Recommendation], None], decide: Callable[..., Answer]
) -> None:
    change(open_question)
    answer = decide(api("approver"), open_question)
    assert (answer.status, answer.error["code"]) == (409, "out_of_date")
    assert answer.error["message"]
    assert not Decision.objects.exists()
    assert not Action.objects.exists()


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("approve", {}, "hash"),
        ("approve", {"hash": None}, "hash"),
        ("approve", {"hash": ""}, "hash"),
        ("approve", {"hash": 7}, "hash"),
        ("approve", {"hash": "x" * 64}, "hash"),
        ("approve", {"hash": ["0" * 64]}, "hash"),
        ("approve", {"hash": "0" * 64, "comment": "x" * 501}, "comment"),
        ("approve", {"hash": "0" * 64, "comment": {"a": 1}}, "comment"),
        ("approve", {"hash": "0" * 64, "comment": "a\x00b"}, "comment"),
        ("approve", {"hash": "0" * 64, "comment": "\ud800"}, "comment"),
        ("reject", {"hash": "0" * 64}, "reason"),
        ("reject", {"hash": "0" * 64, "reason": "  "}, "reason"),
        ("reject", {"hash": "0" * 64, "reason": None}, "reason"),
        ("reject", {"reason": "the node is fine"}, "hash"),
    ],
)
def test_a_wrong_body_is_refused_by_field(
    api: Ask, open_question: Recommendation, verb: str, body: Any, field: str
) -> None:
    answer = api("approver").post(f"recommendations/{open_question.pk}/{verb}", body)
    assert (answer.status, answer.error["code"]) == (400, "invalid")
    assert list(answer.error["fields"]) == [field]
    assert answer.error["message"].startswith(f"{field}: ")
    assert not Decision.objects.exists()


def test_the_refusal_of_a_missing_hash_says_what_to_send(api: Ask, open_question: Recommendation) -> None:
    answer = api("approver").post(f"recommendations/{open_question.pk}/approve", {})
    assert "Send the hash of the recommendation as you read it" in answer.error["message"]


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_there_is_nothing_to_decide_where_there_is_no_recommendation(api: Ask, verb: str) -> None:
    answer = api("approver").post(f"recommendations/404/{verb}", {"hash": "0" * 64, "reason": "no"})
    assert (answer.status, answer.error["code"]) == (404, "not_found")
    assert answer.error["message"] == "There is no such recommendation."


def test_a_session_needs_the_csrf_token_and_a_token_does_not(approver: User, open_question: Recommendation) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(approver)
    answer = approve(Api(browser), open_question)
    assert (answer.status, answer.error["code"]) == (403, "csrf_failed")
    assert "X-CSRFToken" in answer.error["message"]
    script = Client(enforce_csrf_checks=True, headers={"authorization": f"Bearer {make_token(user=approver)}"})
    assert approve(Api(script), open_question).status == 200


@pytest.mark.django_db(transaction=True)
def test_of_many_who_decide_at_once_one_wins(approver: User) -> None:
    row = make_recommendation()
    tokens = [make_token(user=approver) for _ in range(6)]
    ready = threading.Barrier(len(tokens))
    answers: list[Answer] = []

    def decide(token: str, verb: Callable[..., Answer]) -> None:
        ready.wait(timeout=30)
        try:
            answers.append(verb(with_token(token), row))
        finally:
            connection.close()

    threads = [
        threading.Thread(target=decide, args=(token, approve if i % 2 else reject)) for i, token in enumerate(tokens)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409, 409]
    assert Decision.objects.count() == 1
    assert Action.objects.count() == (Decision.objects.get().kind == "approve")
    assert Event.objects.filter(verb__in=["incident.acting", "incident.watching"]).count() == 1


# --- reading


def test_a_recommendation_tells_all_that_an_approver_must_know(api: Ask, open_question: Recommendation) -> None:
    policy = make_policy()
    Recommendation.objects.filter(pk=open_question.pk).update(policy=policy)
    body = api("viewer").get(f"recommendations/{open_question.pk}").body
    assert body["hash"] == open_question.hash
    assert (body["action"], body["exclude_nodes"]) == ("requeue_excluding", ["gpu-02"])
    assert body["operations"] == open_question.operations
    assert (body["restore_step"], body["steps_at_stake"], body["gpus_idle"]) == (840, 12, 64)
    assert (body["mode"], body["policy_version"]) == (Mode.APPROVE, policy.number)
    assert body["decision"] is None
    assert body["superseded_at"] is None


def test_a_decided_one_tells_by_whom_and_why(api: Ask) -> None:
    row = make_decision(reason="as agreed").recommendation
    decision = api("viewer").get(f"recommendations/{row.pk}").body["decision"]
    assert (decision["kind"], decision["actor_name"], decision["reason"]) == ("approve", "approver", "as agreed")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["other", "waiting", "decided", "old"]),
        ("current=true", ["other", "waiting", "decided"]),
        ("current=false", ["old"]),
        ("undecided=true", ["waiting"]),
        ("undecided=false", ["other", "decided", "old"]),
        ("action=nothing", ["other"]),
    ],
)
def test_recommendations_can_be_chosen(api: Ask, query: str, expected: list[str]) -> None:
    incident = make_incident(state=IncidentState.ACTING)
    rows = {
        "old": make_recommendation(incident=incident, superseded_at=ago(60), created_at=ago(400)),
        "decided": make_decision(
            recommendation=make_recommendation(incident=incident, created_at=ago(300))
        ).recommendation,
        "waiting": make_recommendation(created_at=ago(200)),
        "other": make_recommendation(
            incident=make_incident(state=IncidentState.WATCHING), action="nothing", created_at=ago(100)
        ),
    }
    names = {row.pk: name for name, row in rows.items()}
    assert [names[row["id"]] for row in api("viewer").get(f"recommendations?{query}").rows] == expected


def test_recommendations_can_be_chosen_by_incident_and_cluster(api: Ask, open_question: Recommendation) -> None:
    make_recommendation()
    viewer = api("viewer")
    cluster = open_question.incident.run.cluster.name
    for query in (f"incident={open_question.incident_id}", f"cluster={cluster}"):
        assert [row["id"] for row in viewer.get(f"recommendations?{query}").rows] == [open_question.pk]
