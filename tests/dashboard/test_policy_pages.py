"""The draft of a policy, why a rule decides, what rules have earned, and a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from recovery import policy_files
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import DecisionKind, FailureClass, Outcome, Rejection
from recovery.models import Event, Incident, PolicyVersion, Promotion
from recovery.models.access import Role, Scope
from recovery.pipeline import rehearse
from tests.access.people import make_person
from tests.dashboard.conftest import text_of
from tests.factories import (
    ago,
    make_action,
    make_attempt,
    make_cluster,
    make_decision,
    make_incident,
    make_job,
    make_policy,
    make_recommendation,
)

pytestmark = pytest.mark.django_db

HARDWARE: dict[str, Any] = {
    "name": "hardware",
    "classes": ["gpu_hardware"],
    "mode": "auto",
    "match": {"users": ["ada"]},
}
REST: dict[str, Any] = {"name": "rest", "classes": "*", "mode": "approve"}


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {**DEFAULT_RULES, "rules": list(rules)}


def text(*rules: dict[str, Any]) -> str:
    return policy_files.write(policy(*rules))


@pytest.fixture
def draft(as_admin: Client) -> Callable[..., Any]:
    def post(rules: str, do: str, to: str = "/policies/advanced/", **more: Any) -> Any:
        return as_admin.post(to, {"rules": rules, "do": do, "reason": "my reason", "base": "0", **more})

    return post


# --- the draft -------------------------------------------------------------------------------------------------------


def test_a_check_shows_what_would_change_and_what_is_never_reached_and_saves_nothing(draft: Callable[..., Any]) -> None:
    make_policy(rules=policy(REST))
    response = draft(text(REST, HARDWARE), "check")
    page = text_of(response)
    assert response.status_code == 200
    assert '<div class="added">+- name: hardware</div>' in page
    assert "line 5: rules[1]: hardware is never reached: rest decides before it; move it up or remove it." in page
    assert 'value="my reason"' in page
    assert PolicyVersion.objects.count() == 1


@pytest.mark.parametrize(
    ("do", "names"),
    [("up 1", ["rest", "hardware"]), ("down 0", ["rest", "hardware"]), ("delete 0", ["rest"]), ("up 0", None),
     ("down 1", None), ("up 7", None), ("up x", None)],
)  # fmt: skip
def test_rules_are_moved_and_deleted_in_the_draft_alone(
    do: str, names: list[str] | None, draft: Callable[..., Any]
) -> None:
    changed = draft(text(HARDWARE, REST), do).context["draft"].rules["rules"]
    assert [rule["name"] for rule in changed] == (names or ["hardware", "rest"])
    assert not PolicyVersion.objects.exists()


def test_an_old_version_is_the_beginning_of_a_new_draft(as_admin: Client) -> None:
    make_policy(rules=policy(HARDWARE))
    make_policy(rules=policy(REST))
    page = text_of(as_admin.get("/policies/advanced/?version=1"))
    assert "- name: hardware" in page
    assert "Draft of version 3" in page
    assert as_admin.get("/policies/advanced/?version=9").status_code == 404


def test_a_version_is_downloaded_as_yaml(as_viewer: Client) -> None:
    make_policy(rules=policy(HARDWARE))
    response = as_viewer.get("/policies/1/yaml/")
    assert response.headers["Content-Disposition"] == 'attachment; filename="policy-1.yaml"'
    assert policy_files.read(text_of(response)).rules == policy(HARDWARE)
    assert as_viewer.get("/policies/2/yaml/").status_code == 404


# --- one rule --------------------------------------------------------------------------------------------------------


def test_a_rule_is_written_without_any_yaml_and_saved(draft: Callable[..., Any]) -> None:
    assert "A new rule" in text_of(draft(text(REST), "add", "/policies/rule/"))
    fields = {
        "name": "vision",
        "classes": ["gpu_hardware"],
        "mode": "auto",
        "match_accounts": "vision*",
        "before": "rest",
    }
    response = draft(text(REST), "put ", "/policies/rule/", **fields)
    changed = response.context["draft"]
    wanted = {"name": "vision", "classes": ["gpu_hardware"], "match": {"accounts": ["vision*"]}, "mode": "auto"}
    assert changed.rules["rules"] == [wanted, REST]
    assert draft(changed.text, "save").status_code == 302
    assert PolicyVersion.objects.get().rules == policy(wanted, REST)


def test_a_rule_of_the_draft_is_edited_in_its_place(draft: Callable[..., Any], as_admin: Client) -> None:
    page = text_of(draft(text(REST, HARDWARE), "edit 1", "/policies/rule/"))
    assert 'name="match_users" id="match_users" value="ada"' in page
    fields = {"name": "hardware", "classes": ["gpu_hardware"], "mode": "observe"}
    assert draft(text(REST, HARDWARE), "put 1", "/policies/rule/", **fields).context["draft"].rules["rules"] == [
        REST,
        {"name": "hardware", "classes": ["gpu_hardware"], "mode": "observe"},
    ]
    make_policy(rules=policy(HARDWARE))
    assert "Rule hardware" in text_of(as_admin.get("/policies/rule/?name=hardware"))


def test_a_wrong_rule_says_so_at_the_field_and_loses_nothing(draft: Callable[..., Any]) -> None:
    fields = {"name": "rest", "mode": "auto", "max_restarts": "lots", "match_users": "bob"}
    response = draft(text(REST), "put ", "/policies/rule/", **fields)
    page = text_of(response)
    assert response.status_code == 422
    assert set(response.context["wrong"]) == {"name", "classes", "max_restarts"}
    assert "rest is used twice; give each its own name." in page
    assert 'value="lots"' in page
    assert 'value="bob"' in page
    assert "- name: rest" in page


def test_a_rule_that_says_more_than_the_form_stays_in_the_text(draft: Callable[..., Any]) -> None:
    odd = {**REST, "name": "odd", "match": {"accounts": ["a, b"]}}
    response = draft(text(odd), "edit 0", "/policies/rule/")
    assert response.status_code == 422
    assert "odd says more than the form can: change it in the text." in text_of(response)


def test_no_form_is_opened_on_a_text_that_cannot_be_read(draft: Callable[..., Any]) -> None:
    response = draft("{broken", "add", "/policies/rule/")
    assert response.status_code == 422
    assert "{broken" in text_of(response)


# --- why -------------------------------------------------------------------------------------------------------------


def test_why_tells_the_rule_and_those_passed_over(read: Callable[[str], str]) -> None:
    make_policy(rules=policy(HARDWARE, REST))
    page = read("/policies/why/?failure_class=gpu_hardware&user=bob")
    assert "rest decides" in page
    assert "passed over: the user is bob, not ada" in page
    assert "hardware decides" in read("/policies/why/?failure_class=gpu_hardware&user=ada")
    assert "No rule matches" not in page


def test_without_a_class_each_one_is_told(read: Callable[[str], str]) -> None:
    make_policy(rules=policy(HARDWARE))
    page = read("/policies/why/?user=ada")
    assert page.count("1 before it") == len(FailureClass) - 1


def test_labels_of_the_comment_only_lower(read: Callable[[str], str]) -> None:
    raised = {"name": "raised", "classes": "*", "mode": "auto", "match": {"labels": {"team": "x"}}}
    make_policy(rules=policy(raised, REST))
    assert "rest decides" in read("/policies/why/?failure_class=numerics&labels=team%3Dx")


@pytest.mark.parametrize("asked", ["confidence=2", "gpus=x", "failure_class=bad_luck", "labels=team"])
def test_a_wrong_question_is_told(asked: str, as_viewer: Client) -> None:
    response = as_viewer.get(f"/policies/why/?{asked}")
    assert response.status_code == 422
    assert "be asked.</strong>" in text_of(response)


def test_a_job_and_an_incident_bring_what_is_known_of_them(read: Callable[[str], str]) -> None:
    make_policy(rules=policy(HARDWARE, REST))
    job = make_job(user="ada")
    incident = make_incident(attempt=make_attempt(job=job), failure_class=FailureClass.GPU_HARDWARE, confidence=0.9)
    assert "hardware decides" in read(f"/policies/why/?incident={incident.pk}")
    assert "hardware decides" in read(f"/policies/why/?job={job.pk}&failure_class=gpu_hardware")
    assert f'href="/policies/why/?incident={incident.pk}"' in read(f"/incidents/{incident.pk}/")
    assert f'href="/policies/why/?job={job.pk}"' in read(f"/jobs/{job.pk}/")


def test_nobody_learns_of_a_job_that_they_may_not_see(client: Client) -> None:
    client.force_login(make_person(Role.VIEWER, Scope.CLUSTER, cluster=make_cluster(name="own")))
    for asked in (f"job={make_job().pk}", f"incident={make_incident().pk}", "job=x", "incident=999999999999999999999"):
        assert client.get(f"/policies/why/?{asked}").status_code == 404


# --- what rules have earned ------------------------------------------------------------------------------------------


def past(kind: DecisionKind = DecisionKind.APPROVE, outcome: Outcome = Outcome.RECOVERED, **fields: Any) -> Incident:
    incident = make_incident(
        state=IncidentState.CLOSED, outcome=outcome, failure_class=FailureClass.GPU_HARDWARE, closed_at=ago(60),
        diagnosis={"failure_class": "gpu_hardware", "restart": "yes", "exclude": "nodes", "nodes": ["gpu-02"],
                   "confidence": 0.97, "reason": "A GPU fell off the bus."},
    )  # fmt: skip
    row = make_recommendation(incident=incident, rule="hardware", created_at=ago(3600))
    make_decision(recommendation=row, kind=kind, at=ago(3000), **fields)
    if kind is DecisionKind.APPROVE:
        make_action(recommendation=row, state=ActionState.CONVERGED, called_at=ago(2990), intended_at=ago(3000))
    return incident


def test_the_scorecard_tells_shares_with_how_sure_they_are(read: Callable[[str], str]) -> None:
    for _ in range(3):
        past()
    bad = past(outcome=Outcome.SAME_FAILURE)
    page = read("/policies/scorecard/")
    assert "4 of 4, 100\u00a0%" in page
    assert "(51–100\u00a0%)" in page
    assert "3 of 4, 75\u00a0%" in page
    assert f'href="/incidents/{bad.pk}/"' in page


def test_a_scorecard_takes_no_more_queries_for_more_cases(
    as_viewer: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(5):
        past()
    with django_assert_max_num_queries(20):
        as_viewer.get("/policies/scorecard/")


def test_a_reader_of_one_cluster_sees_the_record_of_its_cases_alone(client: Client) -> None:
    own = past()
    past(outcome=Outcome.SAME_FAILURE)
    Promotion.objects.create(rule="hardware", policy=make_policy(), reason="5 of 5", proposed_at=ago(60))
    client.force_login(make_person(Role.ADMIN, Scope.CLUSTER, cluster=own.run.cluster))
    page = text_of(client.get("/policies/scorecard/"))
    assert "1 of 1, 100\u00a0%" in page
    assert "of the incidents that you may see" in page
    assert "5 of 5" not in page


@pytest.fixture
def promotion() -> Promotion:
    version = make_policy(rules=policy({**REST, "name": "hardware", "promote": {}}))
    return Promotion.objects.create(rule="hardware", policy=version, reason="20 of 20 agreed", proposed_at=ago(60))


def test_a_promotion_is_accepted_with_a_reason_and_told(promotion: Promotion, as_admin: Client) -> None:
    address = f"/promotions/{promotion.pk}/accept/"
    refused = as_admin.post(address, {"reason": " "})
    assert refused.status_code == 422
    assert "reason: say why" in text_of(refused)
    page = text_of(as_admin.post(address, {"reason": "well earned"}, follow=True))
    assert "Version 2 holds from now on." in page
    assert "well earned" in page
    assert PolicyVersion.objects.get(number=2).rules["rules"][0]["mode"] == "auto"
    assert "decided on it already" in text_of(as_admin.post(address, {"reason": "again"}))


def test_a_promotion_is_rejected_and_the_rule_stays(promotion: Promotion, as_admin: Client, as_viewer: Client) -> None:
    assert "20 of 20 agreed" in text_of(as_viewer.get("/policies/scorecard/"))
    assert "Let hardware go" not in text_of(as_viewer.get("/policies/scorecard/"))
    page = text_of(as_admin.post(f"/promotions/{promotion.pk}/reject/", {"reason": "not yet"}, follow=True))
    assert "hardware stays as it is." in page
    assert "not yet" in page
    assert PolicyVersion.objects.count() == 1
    assert as_admin.post("/promotions/999/reject/", {"reason": "x"}).status_code == 404


def test_a_demotion_is_told_with_when_and_why(read: Callable[[str], str]) -> None:
    Event.objects.create(
        at=ago(60), actor_kind="system", actor_name="Recovery Desk", verb="policy.demoted", subject_kind="policy",
        new="1", reason="hardware asks again: Incident 7 ended as a wrongful action.",
    )  # fmt: skip
    make_policy()
    page = read("/policies/scorecard/")
    assert "hardware asks again: Incident 7" in page
    assert 'href="/policies/1/"' in page


# --- replay ----------------------------------------------------------------------------------------------------------


def test_a_draft_is_replayed_and_where_people_decided_otherwise_is_listed(draft: Callable[..., Any]) -> None:
    against = past(DecisionKind.REJECT, Outcome.GAVE_UP, rejection=Rejection.WRONG_NODE)
    response = draft(text({**HARDWARE, "match": {}}), "x", "/policies/replay/", days="30")
    page = text_of(response)
    assert response.status_code == 200
    assert "1 recommendation in 30 days" in page
    assert f'href="/incidents/{against.pk}/"' in page or "In no case" in page
    assert "my reason" in page  # it goes back to the draft
    assert not PolicyVersion.objects.exists()


def test_a_stored_version_is_replayed(as_admin: Client) -> None:
    make_policy(rules=policy(REST))
    past()
    page = text_of(as_admin.post("/policies/replay/", {"version": "1", "days": "7"}))
    assert "1 recommendation in 7 days" in page
    assert "In no case" in page
    assert as_admin.get("/policies/replay/?version=4").status_code == 404


@pytest.mark.parametrize("days", ["0", "367", "x", ""])
def test_a_wrong_number_of_days_is_told(days: str, draft: Callable[..., Any]) -> None:
    response = draft(text(REST), "x", "/policies/replay/", days=days)
    assert response.status_code == 422
    assert "days: give a whole number from 1 to 366." in text_of(response)
    assert "- name: rest" in text_of(response)


def test_more_than_can_be_waited_for_is_refused_with_the_way_out(
    draft: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearse, "MOST", 1)
    past()
    past()
    page = text_of(draft(text(REST), "x", "/policies/replay/", days="7"))
    assert "2 recommendations were made in that time, and at most 1 are replayed here" in page


def test_a_replay_is_for_those_whose_role_is_for_everything(client: Client) -> None:
    client.force_login(make_person(Role.POLICY_ADMIN, Scope.CLUSTER, cluster=make_cluster(name="own")))
    assert client.post("/policies/replay/", {"days": "7"}).status_code == 403
