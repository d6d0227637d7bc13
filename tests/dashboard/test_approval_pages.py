"""What people see and press while deciding takes more than one press of one person."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dashboard.views.queue import SPANS
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.policy import DEFAULT_RULES, Approval
from recovery.models import Action, Agreement, Attempt, Cluster, Decision, Incident, KillSwitch, PolicyVersion, Run
from tests.dashboard.conftest import HTMX, Question, make_question, text_of
from tests.factories import ago, make_outbreak, make_recommendation


def asks(question: Question, **approval: Any) -> None:
    question.recommendation.approval = asdict(Approval(**approval))
    question.recommendation.save()


def freeze(question: Question, *, role: str = "admin") -> None:
    week = {
        "name": "launch week", "from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z", "override": role,
        "clusters": [question.incident.run.cluster.name],
    }  # fmt: skip
    rules = {**DEFAULT_RULES, "freezes": [week]}
    PolicyVersion.objects.create(number=1, rules=rules, author="admin", reason="x", created_at=ago(60))


def press(client: Client, path: str, question: Question, **fields: str) -> tuple[int, str]:
    response = client.post(path, {"hash": question.recommendation.hash, **fields}, headers=HTMX)
    return response.status_code, text_of(response)


# --- the decide box ---------------------------------------------------------------------------------------------------
def test_the_box_says_who_must_agree_who_has_and_who_is_missing(
    as_approver: Client, approver: User, question: Question
) -> None:
    asks(question, count=2, four_eyes=True, comment=True)
    page = text_of(as_approver.get(question.page))
    assert "○ 2 approvers" in page
    assert "Four eyes: not mira alone" in page
    assert "2 people have to agree" in page
    assert press(as_approver, question.approve, question)[0] == 422
    status, box = press(as_approver, question.approve, question, comment="seen before")
    assert status == 200
    assert "You agree: requeue without gpu-02. 1 more has to, before anything is done." in box
    assert "● approver" in box
    assert "seen before" in box
    assert "○ one more approver" in box
    assert question.approve not in box, "one person agrees once"
    assert question.reject in box
    assert (Agreement.objects.count(), Decision.objects.count()) == (1, 0)


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "○ an approver, or mira, whose job it is"), (2, "○ 2 approvers; mira, whose job it is, counts as one")],
)
def test_the_jobs_owner_is_one_of_those_who_agree_not_all_of_them(
    count: int, said: str, as_approver: Client, question: Question
) -> None:
    asks(question, count=count, owner=True)
    assert said in text_of(as_approver.get(question.page))


def test_who_lacks_the_role_may_reject_and_learns_who_approves(
    as_approver: Client, admin: User, question: Question
) -> None:
    asks(question, role="admin")
    page = text_of(as_approver.get(question.page))
    assert "You may reject, not approve: the policy asks for the role administrator here." in page
    assert "<strong>admin</strong>" in page
    assert question.approve not in page
    assert question.reject in page


def test_a_freeze_is_named_and_its_role_gives_a_reason(
    as_approver: Client, as_admin: Client, question: Question
) -> None:
    freeze(question)
    page = text_of(as_approver.get(question.page))
    assert "launch week: nothing is approved until" in page
    assert question.approve not in page
    status, box = press(as_approver, question.approve, question, override="please")
    assert (status, "launch week: nothing is done until 2100-01-01 00:00 UTC." in box) == (409, True)
    page = text_of(as_admin.get(question.page))
    assert "Why in spite of launch week?" in page
    assert press(as_admin, question.approve, question)[0] == 409
    assert press(as_admin, question.approve, question, override="the launch needs it")[0] == 200
    assert Decision.objects.get().overrode == "launch week"


def test_a_rejection_chooses_from_the_short_list(as_approver: Client, question: Question) -> None:
    assert press(as_approver, question.reject, question, rejection="other")[0] == 422
    status, box = press(as_approver, question.reject, question, rejection="user_is_on_it")
    assert status == 200
    assert "Its user is on it" in box


def test_the_refusal_of_an_old_approval_says_what_changed(as_approver: Client, question: Question) -> None:
    old = question.recommendation
    old.superseded_at, old.superseded_reason = ago(5), "The case was looked at again."
    old.save()
    fresh = make_recommendation(incident=question.incident, action="requeue", exclude_nodes=[], restore_step=820)
    status, box = press(as_approver, question.approve, question, comment="mine")
    assert status == 409
    assert "You had read: requeue without gpu-02. Now it is: requeue." in box
    assert "It would restore step 820, not step 840." in box
    assert f"/recommendations/{fresh.pk}/approve/" in box
    assert "mine" in box


def test_the_refusal_says_where_the_job_stands_now(as_approver: Client, question: Question) -> None:
    Attempt.objects.filter(pk=question.incident.attempt_id).update(state="running")
    status, box = press(as_approver, question.approve, question)
    assert status == 409
    assert f"Slurm says now: job {question.incident.attempt.job.job_id} is running" in box


def test_a_decision_is_withdrawn_before_it_is_begun(as_approver: Client, as_viewer: Client, question: Question) -> None:
    box = press(as_approver, question.approve, question)[1]
    action = Action.objects.get()
    path = f"/actions/{action.pk}/withdraw/"
    assert path in box
    assert path not in text_of(as_viewer.get(question.page))
    assert press(as_approver, path, question, reason=" ")[0] == 422
    status, box = press(as_approver, path, question, reason="wrong tab")
    assert (status, "Withdrawn before anything was done." in box) == (200, True)
    action.refresh_from_db()
    assert action.state == ActionState.REFUSED
    assert path not in box
    assert press(as_approver, path, question, reason="again")[0] == 409


def test_a_run_is_taken_over_and_given_back(clients: dict[str, Client], question: Question) -> None:
    run, client = question.incident.run_id, clients["operator"]
    back = {"next": question.page}
    page = text_of(client.post(f"/runs/{run}/take-over/", {"reason": "I debug it", **back}, follow=True))
    assert "You have taken over" in page
    for path in (question.page, f"/runs/{run}/"):
        page = text_of(client.get(path))
        assert "operator has taken over" in page
        assert "I debug it" in page
        assert f"/runs/{run}/give-back/" in page
    page = text_of(client.post(f"/runs/{run}/take-over/", {"reason": "me too", **back}, follow=True))
    assert "Operator has taken over already." in page
    page = text_of(client.post(f"/runs/{run}/give-back/", {"reason": " ", **back}, follow=True))
    assert "Say why; it stands in the audit trail." in page
    client.post(f"/runs/{run}/give-back/", {"reason": "done", **back})
    assert Run.objects.get(pk=run).hands_off_at is None


# --- the queue --------------------------------------------------------------------------------------------------------
def test_the_queue_puts_danger_first_then_what_waiting_costs_and_filters_by_class(as_approver: Client) -> None:
    cheap, dear = make_question(), make_question(failure_class="host_oom")
    danger = make_question(danger_at=ago(-600), danger_step=840, danger="The next save overwrites it.")
    dear.recommendation.gpus_idle = 512
    dear.recommendation.save()
    page = text_of(as_approver.get("/approvals/"))
    places = [page.index(f'id="case-{each.incident.pk}"') for each in (danger, dear, cheap)]
    assert places == sorted(places)
    assert ">All 3</a>" in page
    assert "GPU hardware 2</a>" in page
    page = text_of(as_approver.get("/approvals/?class=host_oom"))
    assert f"case-{dear.incident.pk}" in page
    assert f"case-{cheap.incident.pk}" not in page


def test_a_press_in_the_queue_takes_the_row_away_and_a_refusal_leaves_it(
    as_approver: Client, question: Question
) -> None:
    row = f'<li id="case-{question.incident.pk}"'
    status, answer = press(as_approver, question.reject, question, **{"from": "queue"})
    assert (status, row in answer, "Give a reason" in answer) == (422, True, True)
    status, answer = press(as_approver, question.approve, question, **{"from": "queue"})
    assert (status, row in answer, "Approved: requeue without gpu-02." in answer) == (200, False, True)


def test_a_question_is_snoozed_and_woken(clients: dict[str, Client], question: Question) -> None:
    client, path = clients["operator"], f"/incidents/{question.incident.pk}/snooze/"
    assert client.post(path, {"for": "for ever"}, headers=HTMX).status_code == 422
    answer = text_of(client.post(path, {"for": "4h", "zone": "Europe/Berlin"}, headers=HTMX))
    assert "Out of the queue for 4" in answer
    page = text_of(client.get("/approvals/"))
    assert "Snoozed: 1" in page
    assert "Nothing waits for a decision that is not snoozed." in page
    assert client.post(path, {"for": "undo"}, headers=HTMX).status_code == 200
    assert Incident.objects.get(pk=question.incident.pk).snoozed_until is None


@pytest.mark.parametrize(("hour", "hours"), [(3, 5), (8, 24), (22, 10)])
def test_until_8_is_the_next_8_oclock(hour: int, hours: int) -> None:
    now = timezone.now().replace(hour=hour, minute=0, second=0, microsecond=0)
    assert SPANS["morning"](now) - now == timedelta(hours=hours)


def test_one_press_approves_those_that_are_checked_each_by_itself(as_approver: Client) -> None:
    good, moved, left = make_question(), make_question(), make_question()
    outbreak = make_outbreak(incidents=[each.incident for each in (good, moved, left)])
    path = f"/outbreaks/{outbreak.pk}/approve/"
    shown = [f"{each.recommendation.pk}:{each.recommendation.hash}" for each in (good, moved)]
    page = text_of(as_approver.get(f"/outbreaks/{outbreak.pk}/"))
    assert all(f'value="{each}"' in page for each in shown)
    assert as_approver.post(path, {}).status_code == 422
    Attempt.objects.filter(pk=moved.incident.attempt_id).update(state="running")
    page = text_of(as_approver.post(path, {"approve": [*shown, "1000000:x", "x"], "comment": "the fabric is back"}))
    assert "Approved: requeue without gpu-02." in page
    assert "The job has changed since this was recommended" in page
    assert (good.state, moved.state, left.state) == (
        IncidentState.ACTING,
        IncidentState.AWAITING_DECISION,
        IncidentState.AWAITING_DECISION,
    )
    assert Decision.objects.get().reason == "the fabric is back"


def test_what_belongs_to_another_outbreak_is_not_approved(as_approver: Client, question: Question) -> None:
    outbreak = make_outbreak(incidents=[make_question().incident])
    one = f"{question.recommendation.pk}:{question.recommendation.hash}"
    as_approver.post(f"/outbreaks/{outbreak.pk}/approve/", {"approve": one})
    assert not Decision.objects.exists()


# --- the kill switch --------------------------------------------------------------------------------------------------
def test_the_kill_switch_is_pulled_from_any_page_and_stands_on_every_page(clients: dict[str, Client]) -> None:
    make_question()
    operator, admin = clients["operator"], clients["admin"]
    assert "/automation/stop/" in text_of(operator.get("/nodes/"))
    assert "/automation/stop/" not in text_of(clients["viewer"].get("/nodes/"))
    operator.post("/automation/stop/", {"reason": "the fabric is repaired", "next": "/nodes/"})
    for path in ("/", "/nodes/", "/shell/"):
        page = text_of(clients["viewer"].get(path))
        assert "Automation is stopped everywhere" in page
        assert "by operator since" in page
        assert "the fabric is repaired" in page
    assert "/automation/arm/" not in text_of(operator.get("/admin/"))
    assert "/automation/arm/" in text_of(admin.get("/admin/"))
    admin.post("/automation/arm/", {"reason": "over", "next": "/admin/"})
    assert not KillSwitch.objects.exists()
    assert "Automation is stopped everywhere" not in text_of(operator.get("/"))


def test_a_trip_of_the_breaker_stands_on_every_page_for_an_hour(as_viewer: Client, question: Question) -> None:
    Cluster.objects.update(tripped_at=ago(60), tripped_reason="6 actions in the last hour, 6 are allowed.")
    page = text_of(as_viewer.get("/nodes/"))
    assert f"The breaker holds automation back on {question.incident.run.cluster.name}" in page
    assert "6 actions in the last hour, 6 are allowed." in page
    Cluster.objects.update(tripped_at=ago(3601))
    assert "The breaker holds" not in text_of(as_viewer.get("/nodes/"))


def test_the_queue_says_who_has_no_say_in_it(clients: dict[str, Client], question: Question) -> None:
    assert "You may look, not decide." in text_of(clients["viewer"].get("/approvals/"))
    assert "You may look" not in text_of(clients["approver"].get("/approvals/"))
    asks(question, role="admin")
    assert "You may reject, not approve." in text_of(clients["approver"].get("/approvals/"))


# --- what somebody typed ----------------------------------------------------------------------------------------------
TYPED = "typed with care & <patience>"
KEPT = "typed with care &amp; &lt;patience&gt;</textarea>"


def test_a_reason_that_failed_is_in_the_form_again_with_why(clients: dict[str, Client], question: Question) -> None:
    run = question.incident.run_id
    refused = {
        "/automation/stop/": "The kill switch was pulled already.",
        f"/runs/{run}/take-over/": "Viewer has taken over already.",
        "/automation/arm/": "The kill switch is not pulled.",
        f"/runs/{run}/give-back/": "Nobody has taken this run over.",
    }
    KillSwitch.objects.create(pk=1, pulled_at=ago(60), pulled_by="viewer", reason="x")
    Run.objects.filter(pk=run).update(hands_off_at=ago(60), hands_off_by="viewer", hands_off_reason="x")
    for path, why in refused.items():
        if "arm" in path or "give" in path:
            KillSwitch.objects.all().delete()
            Run.objects.filter(pk=run).update(hands_off_at=None)
        response = clients["admin"].post(path, {"reason": TYPED, "next": question.page})
        page = text_of(response)
        assert (response.status_code, why in page, KEPT in page) == (422, True, True), path
        assert f'action="{path}"' in page
        assert f'value="{question.page}"' in page, "the page that they came from"
    page = text_of(clients["admin"].post("/automation/stop/", {"reason": " ", "next": question.page}))
    assert "Say why; it stands in the audit trail." in page


def test_a_refused_decision_keeps_all_that_was_typed_and_chosen_in_its_own_form(
    as_approver: Client, question: Question
) -> None:
    freeze(question, role="approver")
    asks(question, comment=True)
    box = press(as_approver, question.approve, question, override=TYPED)[1]
    assert f'name="override" maxlength="300" rows="2" required>{KEPT}' in box
    old = question.recommendation
    old.superseded_at, old.superseded_reason = ago(5), "The case was looked at again."
    old.save()
    make_recommendation(incident=question.incident)
    status, box = press(as_approver, question.reject, question, reason=TYPED, rejection="wrong_node")
    assert (status, box.count(KEPT)) == (409, 1), "not in the comment of an approval"
    assert '<option value="wrong_node" selected>' in box


def test_a_comment_for_several_stays_where_one_of_them_is_refused(as_approver: Client, question: Question) -> None:
    outbreak = make_outbreak(incidents=[question.incident])
    path = f"/outbreaks/{outbreak.pk}/approve/"
    assert KEPT in text_of(as_approver.post(path, {"comment": TYPED}))
    stale = f"{question.recommendation.pk}:stale"
    assert KEPT in text_of(as_approver.post(path, {"comment": TYPED, "approve": stale}))


def test_what_was_snoozed_is_in_nobodys_number_and_still_on_the_first_page(
    as_approver: Client, question: Question
) -> None:
    other = make_question(cluster=question.incident.run.cluster)
    assert "2<span" in text_of(as_approver.get("/shell/"))
    Incident.objects.filter(pk=other.incident.pk).update(snoozed_until=ago(-3000), snoozed_by="operator")
    assert '>1<span class="spoken"> need a person' in text_of(as_approver.get("/shell/"))
    page = text_of(as_approver.get("/"))
    assert "<h1>1 incident needs a person." in page
    followed = page.split('id="following-title"')[1]
    assert f'href="{other.page}"' in followed.split("</section>")[0]
    assert "snoozed until" in followed
    assert other.page not in text_of(as_approver.get("/incidents/?show=person"))
    Incident.objects.filter(pk=other.incident.pk).update(snoozed_until=ago(1))
    assert '>2<span class="spoken"> need a person' in text_of(as_approver.get("/shell/"))
