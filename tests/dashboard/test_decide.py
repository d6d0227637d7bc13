from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from recovery.core.lifecycle import ActionState
from recovery.core.types import ActionKind
from recovery.models import Action, Attempt, Cluster, Decision, Event, Incident, Job, Recommendation
from tests.dashboard.conftest import HTMX, Question, text_of
from tests.factories import ago, make_action, make_attempt, make_decision, make_job, make_recommendation, make_run


def press(client: Client, path: str, question: Question, *, htmx: bool = True, **fields: str) -> tuple[int, str]:
    data = {"hash": question.recommendation.hash, **fields}
    response = client.post(path, data, headers=HTMX if htmx else {})
    return response.status_code, text_of(response)


def test_the_box_names_the_effect_the_operations_and_what_is_at_stake(as_approver: Client, question: Question) -> None:
    page = text_of(as_approver.get(question.page))
    job = question.incident.attempt.job.job_id
    assert page.count("Approve: requeue without gpu-02") == 2  # what opens the form, and what sends it
    assert f"scontrol update JobId={job} ExcNodeList=gpu-02" in page
    assert f"Job {job} ({question.incident.run.name}, mira) is put back into the queue" in page
    assert "It will not run on <strong>gpu-02</strong> again." in page
    assert "It is expected to restore step 840 and to repeat 12 steps." in page
    assert "64 GPUs idle: 1.1 GPU-hours a minute." in page
    assert "Rule gpu_hardware: a person approves." in page
    assert f'name="hash" value="{question.recommendation.hash}"' in page


def test_a_running_job_is_said_to_be_ended(as_approver: Client, question: Question) -> None:
    Attempt.objects.filter(pk=question.incident.attempt_id).update(state="running")
    assert "<strong>its running processes are ended</strong>" in text_of(as_approver.get(question.page))


def test_an_approval_is_stored_with_its_intent(as_approver: Client, approver: User, question: Question) -> None:
    status, box = press(as_approver, question.approve, question, comment="seen it before")
    assert status == 200
    assert "Approved: requeue without gpu-02." in box
    decision = Decision.objects.get()
    assert (decision.kind, decision.actor, decision.reason) == ("approve", approver, "seen it before")
    assert decision.hash == question.recommendation.hash
    assert Action.objects.get().state == ActionState.INTENDED
    assert question.state == "acting"
    assert "data-answer" in box  # the answer takes the focus
    assert question.approve not in box  # and there is nothing more to press


def test_a_rejection_needs_a_reason_and_loses_nothing(as_approver: Client, question: Question) -> None:
    status, box = press(as_approver, question.reject, question, reason="   ")
    assert status == 422
    assert "Give a reason" in box
    assert question.state == "awaiting_decision"
    status, box = press(as_approver, question.reject, question, reason="The user debugs it.")
    assert status == 200
    assert "Rejected. Nothing is done to the job" in box
    assert Decision.objects.get().reason == "The user debugs it."
    assert question.state == "watching"
    assert not Action.objects.exists()


def test_another_hash_than_the_one_shown_is_out_of_date_and_keeps_the_comment(
    as_approver: Client, question: Question
) -> None:
    status, box = press(as_approver, question.approve, question, hash="0" * 64, comment="my long thought")
    assert status == 409
    assert "reload the page and decide on what it says now" in box
    assert "my long thought" in box
    assert not Decision.objects.exists()


def test_no_hash_at_all_decides_nothing(as_approver: Client, question: Question) -> None:
    response = as_approver.post(question.approve, {}, headers=HTMX)
    assert response.status_code == 409
    assert not Decision.objects.exists()


def test_who_comes_second_is_told_who_was_first(as_approver: Client, as_admin: Client, question: Question) -> None:
    assert press(as_admin, question.reject, question, reason="Wait for the fabric.")[0] == 200
    status, box = press(as_approver, question.approve, question)
    assert status == 409
    assert "admin decided first" in box
    assert Decision.objects.count() == 1
    assert not Action.objects.exists()


def test_a_second_press_does_nothing_twice(as_approver: Client, question: Question) -> None:
    press(as_approver, question.approve, question)
    assert press(as_approver, question.approve, question)[0] == 409
    assert Action.objects.count() == 1


def test_a_superseded_recommendation_is_out_of_date(as_approver: Client, question: Question) -> None:
    Recommendation.objects.filter(pk=question.recommendation.pk).update(superseded_at=timezone.now())
    newer = make_recommendation(incident=question.incident, headline="Requeue, restoring step 840.")
    status, box = press(as_approver, question.approve, question)
    assert status == 409
    assert "read the newer recommendation" in box
    assert newer.headline in box  # and it is there to be read


def test_an_expired_recommendation_is_not_carried_out(as_approver: Client, question: Question) -> None:
    Recommendation.objects.filter(pk=question.recommendation.pk).update(expires_at=ago(1))
    status, box = press(as_approver, question.approve, question)
    assert status == 409
    assert "expired" in box


def test_a_job_that_has_changed_since_is_not_touched(as_approver: Client, question: Question) -> None:
    Attempt.objects.filter(pk=question.incident.attempt_id).update(state="running")
    status, box = press(as_approver, question.approve, question)
    assert status == 409
    assert "The job has changed since this was recommended" in box
    assert not Action.objects.exists()


def test_nothing_is_decided_on_a_stale_picture(as_approver: Client, question: Question) -> None:
    Cluster.objects.update(error="squeue: no answer within 10 s")
    status, box = press(as_approver, question.approve, question)
    assert status == 409
    assert "too old to act on" in box


def test_a_stale_picture_is_said_before_anybody_presses(as_approver: Client, question: Question) -> None:
    fresh = text_of(as_approver.get(question.page))
    assert "is not live" not in fresh
    assert "disabled" not in fresh
    Cluster.objects.update(error="squeue: no answer within 10 s")
    page = text_of(as_approver.get(question.page))
    assert "Nothing can be decided until Slurm answers again. squeue: no answer within 10 s" in page
    assert page.count('type="submit" disabled aria-describedby="why-not"') == 2  # approve and reject


def test_a_viewer_reads_everything_and_learns_who_decides(as_viewer: Client, question: Question) -> None:
    page = text_of(as_viewer.get(question.page))
    assert "scontrol release" in page
    assert "You may look, not decide." in page
    assert "<strong>admin, approver</strong>" in page
    assert question.approve not in page


def test_a_viewer_who_posts_anyway_is_told_who_can(as_viewer: Client, question: Question) -> None:
    status, box = press(as_viewer, question.approve, question)
    assert status == 422  # so that htmx shows it in the box
    assert "viewer may not approve and reject recommendations" in box
    assert press(as_viewer, question.approve, question, htmx=False)[0] == 403


def test_without_javascript_an_approval_leads_back_to_the_page(as_approver: Client, question: Question) -> None:
    response = as_approver.post(question.approve, {"hash": question.recommendation.hash}, follow=True)
    assert response.redirect_chain == [(question.page, 302)]
    assert "Approved: requeue without gpu-02." in text_of(response)


def test_without_javascript_a_refusal_is_the_page_with_the_reason(as_approver: Client, question: Question) -> None:
    status, page = press(as_approver, question.approve, question, htmx=False, hash="0" * 64)
    assert status == 409
    assert "<!doctype html>" in page
    assert "decide on what it says now" in page


def test_a_recommendation_that_never_was_is_not_found(as_approver: Client) -> None:
    assert as_approver.post("/recommendations/999/approve/").status_code == 404


def test_an_unchanged_box_is_not_sent_again(as_approver: Client, question: Question) -> None:
    page = text_of(as_approver.get(question.page))
    version = page.split('id="decide-version" name="shown" value="')[1].split('"')[0]
    again = as_approver.get(question.page, {"part": "decide", "shown": version}, headers=HTMX)
    assert again.status_code == 204


def test_a_box_that_changed_while_it_was_read_says_so(as_approver: Client, question: Question) -> None:
    Recommendation.objects.filter(pk=question.recommendation.pk).update(superseded_at=timezone.now())
    make_recommendation(incident=question.incident)
    box = text_of(as_approver.get(question.page, {"part": "decide", "shown": "an older one"}, headers=HTMX))
    assert "This changed while you had it open. Read it again before you decide." in box


def test_the_box_shows_what_was_done_and_what_came_of_it(as_viewer: Client, question: Question) -> None:
    make_decision(recommendation=question.recommendation, reason="go")
    calls = [
        {"operation": "requeue_hold", "command": "scontrol requeuehold 1", "ended_at": "x", "result": "accepted"},
        {"operation": "release", "command": "scontrol release 1", "begun_at": "x"},
    ]
    make_action(recommendation=question.recommendation, state=ActionState.CALLED, calls=calls)
    Incident.objects.update(state="acting")
    page = text_of(as_viewer.get(question.page))
    assert 'scontrol requeuehold 1<span class="result">accepted</span>' in page
    assert "begun; its effect is being observed" in page
    assert "approver" in page


def test_a_checkpoint_that_is_gone_by_now_is_an_alarm(as_approver: Client, question: Question) -> None:
    question.incident.run.checkpoints.update(state="torn", detail="shard 3 of 8 is empty")
    page = text_of(as_approver.get(question.page))
    assert "Checkpoint 840 is no longer complete." in page
    assert "shard 3 of 8 is empty" in page


# --- closing by hand


def close(client: Client, question: Question, **fields: str) -> tuple[int, str]:
    response = client.post(f"{question.page}close/", fields, headers=HTMX)
    return response.status_code, text_of(response)


def test_an_operator_closes_a_case_with_outcome_and_reason(clients: dict[str, Client], question: Question) -> None:
    status, box = close(clients["operator"], question, outcome="stopped_on_purpose", reason="The run is over.")
    assert status == 200
    assert "Closed by hand." in box
    incident = Incident.objects.get()
    assert (incident.state, incident.outcome, incident.outcome_reason) == (
        "closed", "stopped_on_purpose", "The run is over.",
    )  # fmt: skip
    assert Event.objects.latest("id").actor_name == "operator"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"outcome": "", "reason": "my reason"}, "Choose how it ended."),
        ({"outcome": "false_alarm", "reason": " "}, "Give a reason"),
        ({"outcome": "recovered", "reason": "my reason"}, "Select a valid choice"),
    ],
)
def test_an_incomplete_closing_says_what_is_missing_and_loses_nothing(
    fields: dict[str, str], said: str, clients: dict[str, Client], question: Question
) -> None:
    status, box = close(clients["operator"], question, **fields)
    assert status == 422
    assert said in box
    assert fields["reason"].strip() in box
    assert question.state == "awaiting_decision"


def test_a_case_is_not_closed_in_the_middle_of_an_action(clients: dict[str, Client], question: Question) -> None:
    press(clients["approver"], question.approve, question)
    status, box = close(clients["operator"], question, outcome="gave_up", reason="I do it myself.")
    assert status == 422
    assert "An action is under way" in box
    assert "I do it myself." in box


def test_a_closed_case_offers_no_closing(clients: dict[str, Client], question: Question) -> None:
    close(clients["operator"], question, outcome="gave_up", reason="I do it myself.")
    page = text_of(clients["operator"].get(question.page))
    assert "Close by hand" not in page
    assert "I do it myself." in page


def test_closing_what_never_was_is_not_found(clients: dict[str, Client]) -> None:
    assert clients["operator"].post("/incidents/999/close/", {}).status_code == 404


def test_an_expiry_in_the_future_is_shown_with_its_deadline(as_viewer: Client, question: Question) -> None:
    expires = timezone.now() + timedelta(minutes=59)
    Recommendation.objects.update(expires_at=expires)
    assert expires.strftime("%Y-%m-%dT%H:%M:%S") in text_of(as_viewer.get(question.page))


def test_until_when_slurm_keeps_the_job_that_would_be_requeued(question: Question, read: Callable[[str], str]) -> None:
    said = "from then on it can only be submitted again"
    assert said not in read(question.page)  # MinJobAge was not told
    attempt = question.incident.attempt
    Cluster.objects.update(min_job_age_s=600)
    page = read(question.page)
    assert said in page
    assert attempt.ended_at is not None
    gone = attempt.ended_at + timedelta(seconds=600)
    assert f'<dt>Slurm forgets it</dt><dd>at about <time datetime="{gone:%Y-%m-%dT%H:%M:%S}' in page
    Job.objects.filter(pk=attempt.job_id).update(listed=False)
    assert said not in read(question.page)
    Job.objects.filter(pk=attempt.job_id).update(listed=True)
    Recommendation.objects.update(action=ActionKind.RESUBMIT)
    assert said not in read(question.page)


def test_who_runs_on_the_node_that_is_to_be_drained(question: Question, read: Callable[[str], str]) -> None:
    cluster = question.incident.run.cluster
    box = f"{question.page}?part=decide"
    Recommendation.objects.update(action=ActionKind.DRAIN, parameters={"node": "gpu-02"}, exclude_nodes=[])
    other = make_attempt(job=make_job(run=make_run(cluster=cluster)), nodes=["gpu-02", "gpu-09"])
    make_attempt(job=make_job(run=make_run(cluster=cluster)), nodes=["gpu-09"])
    make_attempt(nodes=["gpu-02"])  # of another cluster
    assert f"Other jobs run on gpu-02: {other.job.job_id}." in read(box)
    Attempt.objects.filter(pk=other.pk).update(closed_at=timezone.now())
    assert "Other jobs run" not in read(box)
