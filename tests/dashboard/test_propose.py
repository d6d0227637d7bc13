from __future__ import annotations

import pytest
from django.test import Client

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, JobState
from recovery.models import Attempt, BatchScript, Incident, Job, Node, Recommendation
from tests.dashboard.conftest import HTMX, Question, text_of
from tests.factories import ago, make_action, make_incident, make_recommendation


def press(client: Client, question: Question, **fields: object) -> tuple[int, str]:
    data = {"why": "third error this week", **fields}
    response = client.post(f"{question.page}propose/", data, headers=HTMX)
    return response.status_code, text_of(response)


@pytest.fixture
def as_operator(clients: dict[str, Client]) -> Client:
    return clients["operator"]


@pytest.fixture
def nodes(question: Question) -> list[str]:
    names: list[str] = question.incident.attempt.nodes
    for name in names:
        Node.objects.get_or_create(
            cluster=question.incident.run.cluster, name=name,
            defaults={"state": "up", "raw_state": "IDLE", "changed_at": ago(900)},
        )  # fmt: skip
    return names


def test_the_form_offers_what_fits_where_the_job_stands(as_operator: Client, question: Question) -> None:
    page = text_of(as_operator.get(question.page))
    offered = [kind for kind in ActionKind if f'name="action" value="{kind}"' in page]
    assert offered == [
        ActionKind.REQUEUE, ActionKind.REQUEUE_EXCLUDING, ActionKind.RESUBMIT, ActionKind.DRAIN,
        ActionKind.RESTORE_OLDER, ActionKind.NOTHING,
    ]  # fmt: skip
    Attempt.objects.update(state=JobState.RUNNING)
    page = text_of(as_operator.get(question.page))
    assert 'value="cancel"' in page
    assert 'value="restore_older"' not in page


def test_a_viewer_is_offered_nothing(as_viewer: Client, question: Question) -> None:
    assert "Propose something else" not in text_of(as_viewer.get(question.page))


def test_a_proposal_replaces_the_recommendation_and_waits(
    as_operator: Client, question: Question, nodes: list[str]
) -> None:
    status, box = press(as_operator, question, action="drain", node=nodes[0])
    assert status == 200
    assert "Proposed." in box
    assert f"Take {nodes[0]} out of service (drain)." in box
    assert "Proposed by operator." in box
    assert "State=DRAIN" in box
    row = Recommendation.objects.get(superseded_at=None)
    assert (row.action, row.parameters["node"], row.proposed_by) == ("drain", nodes[0], "operator")
    assert question.state == "awaiting_decision"


def test_an_approver_reads_what_a_drain_does_and_how_it_is_undone(
    as_operator: Client, as_approver: Client, question: Question, nodes: list[str]
) -> None:
    press(as_operator, question, action="drain", node=nodes[0])
    page = text_of(as_approver.get(question.page))
    assert f"Approve: drain {nodes[0]}" in page
    assert "can be resumed when its health was seen again" in page
    assert "is put back into the queue" not in page


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"action": "drain"}, "has no node"),
        ({"action": "restore_older"}, "must be a number"),
        ({"action": "cancel"}, "does not fit where the job stands"),
        ({"action": "requeue_excluding"}, "name at least one node"),
        ({"action": "resubmit", "environment": "NCCL_DEBUG"}, "NAME=value"),
        ({"action": "requeue", "why": ""}, "Give a reason"),
    ],
)
def test_a_proposal_that_can_not_be_stays_open_with_what_is_wrong(
    as_operator: Client, question: Question, nodes: list[str], fields: dict[str, str], problem: str
) -> None:
    status, box = press(as_operator, question, **fields)
    assert status == 422
    assert "Nothing was proposed." in box
    assert problem in box
    assert Recommendation.objects.count() == 1


def test_undo_is_a_button_while_it_is_possible(as_operator: Client, db: None) -> None:
    incident = make_incident(state=IncidentState.WATCHING)
    Attempt.objects.update(state=JobState.PENDING)
    Job.objects.update(state=JobState.PENDING, held=True, state_reason="JobHeldAdmin")
    recommendation = make_recommendation(incident=incident, action=ActionKind.HOLD, exclude_nodes=[])
    action = make_action(
        recommendation=recommendation, kind=ActionKind.HOLD, state=ActionState.CONVERGED, observed_at=ago(60),
        parameters={"key": "k"},
    )  # fmt: skip
    page = text_of(as_operator.get(f"/incidents/{incident.pk}/"))
    assert "Undo: hold the job" in page
    response = as_operator.post(f"/actions/{action.pk}/undo/", {"why": "a mistake"}, headers=HTMX)
    assert response.status_code == 200
    assert Recommendation.objects.get(superseded_at=None).action == ActionKind.RELEASE
    Incident.objects.update(state=IncidentState.WATCHING)
    Job.objects.update(held=False, state_reason="Priority")
    assert "Undo: hold the job" not in text_of(as_operator.get(f"/incidents/{incident.pk}/"))
    refused = as_operator.post(f"/actions/{action.pk}/undo/", {"why": "a mistake"}, headers=HTMX)
    assert refused.status_code == 422


def test_what_came_to_nothing_is_told_beside_the_next_question(as_operator: Client, question: Question) -> None:
    tried = Recommendation.objects.get(superseded_at=None)
    make_action(
        recommendation=tried, kind=ActionKind.RESUME, parameters={"node": "gpu-02"}, state=ActionState.REFUSED,
        detail="Nothing was done: gpu-02 was not seen in health for 1 min yet.",
    )  # fmt: skip
    assert "Tried before" not in text_of(as_operator.get(question.page))
    Recommendation.objects.update(superseded_at=ago(1))
    make_recommendation(incident=question.incident)
    box = text_of(as_operator.get(question.page))
    assert "Tried before: resume gpu-02. Nothing was done: gpu-02 was not seen in health for 1 min yet." in box


def test_a_resubmission_takes_a_time_limit_and_variables(as_operator: Client, question: Question) -> None:
    BatchScript.objects.create(job=question.incident.attempt.job, text="#!/bin/bash\nsrun train\n", fetched_at=ago(60))
    status, box = press(as_operator, question, action="resubmit", limit_hours="2", environment="NCCL_DEBUG=INFO")
    assert status == 200, box
    row = Recommendation.objects.get(superseded_at=None)
    assert row.parameters["time_limit_s"] == 7200
    assert row.parameters["environment"] == {"NCCL_DEBUG": "INFO"}


def test_leaving_the_job_alone_asks_nobody(as_operator: Client, question: Question) -> None:
    status, box = press(as_operator, question, action="nothing")
    assert status == 200
    assert "nobody has to decide" in box
    assert "waits for a decision" not in box
    assert question.state == "watching"
