"""Proposing an action, and the undoing of one, over the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, JobState
from recovery.models import Action, Event, Incident, Node, Recommendation
from tests.api.conftest import Answer, Api
from tests.factories import ago, make_action, make_incident, make_recommendation

Ask = Callable[[str], Api]


@pytest.fixture
def open_case(db: None) -> Incident:
    recommendation = make_recommendation()
    incident = recommendation.incident
    for name in incident.attempt.nodes:
        Node.objects.get_or_create(
            cluster=incident.run.cluster,
            name=name,
            defaults={"state": "up", "raw_state": "IDLE", "changed_at": ago(900)},
        )
    return incident


def propose(api: Api, incident: Incident, action: str, **body: Any) -> Answer:
    return api.post(f"incidents/{incident.pk}/proposals", {"action": action, "reason": "third error", **body})


def test_an_operator_proposes_and_an_approver_decides(api: Ask, open_case: Incident) -> None:
    node = open_case.attempt.nodes[0]
    made = propose(api("operator"), open_case, "drain", parameters={"node": node})
    assert made.status == 201
    assert (made.body["action"], made.body["proposed_by"], made.body["mode"]) == ("drain", "operator", "approve")
    assert made.body["parameters"]["node"] == node
    assert "State=DRAIN" in made.body["operations"][0]
    assert Recommendation.objects.filter(superseded_at=None).count() == 1
    forbidden = api("operator").post(f"recommendations/{made.body['id']}/approve", {"hash": made.body["hash"]})
    assert forbidden.status == 403
    decided = api("approver").post(f"recommendations/{made.body['id']}/approve", {"hash": made.body["hash"]})
    assert decided.status == 200
    assert Action.objects.get().parameters["node"] == node


def test_the_audit_trail_names_who_proposed_it_and_why(api: Ask, open_case: Incident) -> None:
    propose(api("operator"), open_case, "requeue")
    event = Event.objects.filter(incident_id=open_case.pk).latest("pk")
    assert event.actor_name == "operator"
    assert "third error" in event.reason


def test_nothing_needs_no_decision(api: Ask, open_case: Incident) -> None:
    assert propose(api("operator"), open_case, "nothing").status == 201
    assert Incident.objects.get().state == IncidentState.WATCHING


@pytest.mark.parametrize(
    ("action", "body", "field"),
    [
        ("drain", {"parameters": {"node": "gpu-99"}}, "parameters.node"),
        ("extend_time_limit", {"parameters": {"seconds": 3600}}, "action"),
        ("restore_older", {"parameters": {"step": "x"}}, "parameters.step"),
        ("resubmit", {}, "action"),
        ("requeue_excluding", {}, "exclude_nodes"),
        ("explode", {}, "action"),
        ("requeue", {"reason": ""}, "reason"),
    ],
)
def test_what_can_not_be_is_refused_by_field(
    api: Ask, open_case: Incident, action: str, body: dict[str, Any], field: str
) -> None:
    answer = propose(api("operator"), open_case, action, **body)
    assert (answer.status, answer.error["code"]) == (400, "invalid")
    assert list(answer.error["fields"]) == [field]
    assert Recommendation.objects.count() == 1


def test_a_closed_case_takes_no_proposal(api: Ask, open_case: Incident) -> None:
    Incident.objects.update(state=IncidentState.CLOSED)
    assert propose(api("operator"), open_case, "requeue").status == 400


def test_a_case_that_acts_is_out_of_date_for_a_proposal(api: Ask, open_case: Incident) -> None:
    Incident.objects.update(state=IncidentState.ACTING)
    assert propose(api("operator"), open_case, "requeue").error["code"] == "out_of_date"


def converged(**fields: Any) -> Action:
    incident = make_incident(state=IncidentState.WATCHING)
    recommendation = make_recommendation(incident=incident, action=fields["kind"], exclude_nodes=[])
    return make_action(recommendation=recommendation, state=ActionState.CONVERGED, observed_at=ago(60), **fields)


def test_an_extension_is_undone_while_the_job_has_not_reached_the_old_limit(api: Ask, db: None) -> None:
    action = converged(
        kind=ActionKind.EXTEND_TIME_LIMIT, parameters={"key": "k", "seconds": 90_000.0, "from_s": 86_400.0}
    )
    attempt = action.incident.attempt
    type(attempt).objects.update(state=JobState.RUNNING, started_at=ago(600))
    type(attempt.job).objects.update(state=JobState.RUNNING, time_limit_s=90_000.0)
    seen = api("viewer").get(f"incidents/{action.incident_id}")
    assert seen.body["undoable"] == [action.pk]
    made = api("operator").post(f"actions/{action.pk}/undo", {"reason": "not needed"})
    assert made.status == 201
    assert (made.body["parameters"]["seconds"], made.body["parameters"]["undoes"]) == (86_400.0, action.pk)


def test_what_can_not_be_undone_says_so(api: Ask, db: None) -> None:
    action = converged(kind=ActionKind.REQUEUE, parameters={})
    assert api("viewer").get(f"incidents/{action.incident_id}").body["undoable"] == []
    answer = api("operator").post(f"actions/{action.pk}/undo", {"reason": "please"})
    assert answer.status == 400
    assert "can't be undone" in answer.error["message"]
