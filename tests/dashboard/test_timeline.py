from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.reads.cases import incidents, rows
from dashboard.timeline import Mark, Stage
from recovery.access import Actor, Permission
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, DecisionKind, Outcome
from recovery.models import Incident
from tests.factories import ago, make_action, make_decision, make_incident, make_recommendation

pytestmark = pytest.mark.django_db

S = IncidentState
SOMEBODY = Actor(kind="system", name="somebody", user_id=None, permissions=frozenset(Permission))
KEYS = ("detected", "recommended", "acted", "restored", "checkpoint")


def stages(incident: Incident) -> dict[str, Stage]:
    (row,) = rows(incidents(None, actor=SOMEBODY).filter(pk=incident.pk))
    assert tuple(stage.key for stage in row.stages) == KEYS
    return {stage.key: stage for stage in row.stages}


def marks(incident: Incident) -> str:
    """The five marks as they stand in a list."""
    return "".join(stage.glyph for stage in stages(incident).values())


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (S.DETECTED, "●◌○○○"),
        (S.DIAGNOSED, "●◌○○○"),
        (S.RECOMMENDED, "●●○○○"),
        (S.AWAITING_DECISION, "●●◌○○"),
        (S.WATCHING, "●●–◌○"),
        (S.ACTING, "●●◌○○"),
        (S.RESTORING, "●●●◌○"),
        (S.AWAITING_CHECKPOINT, "●●●●◌"),
        (S.CLOSED, "●●●●●"),
    ],
)
def test_each_state_shows_how_far_the_case_has_come(state: IncidentState, shown: str) -> None:
    incident = make_incident(state=state)
    make_recommendation(incident=incident)
    assert marks(incident) == shown


def test_the_gaps_are_the_seconds_between_what_happened() -> None:
    incident = make_incident(
        state=S.AWAITING_CHECKPOINT,
        detected_at=ago(200),
        recommended_at=ago(196),
        acted_at=ago(66),
        restored_at=ago(60),
    )
    gaps = {key: stage.gap_s for key, stage in stages(incident).items()}
    assert gaps["detected"] == pytest.approx(4, abs=0.5)
    assert gaps["recommended"] == pytest.approx(130, abs=0.5)
    assert gaps["acted"] == pytest.approx(6, abs=0.5)
    assert gaps["restored"] is None
    assert stages(incident)["restored"].running_since == incident.restored_at


def test_a_wait_for_a_decision_ends_when_the_recommendation_expires() -> None:
    incident = make_incident()
    recommendation = make_recommendation(incident=incident)
    acted = stages(incident)["acted"]
    assert acted.word == "waiting for a decision"
    assert acted.deadline == recommendation.expires_at


def test_a_rejection_says_who_and_why() -> None:
    incident = make_incident(state=S.WATCHING)
    make_decision(
        recommendation=make_recommendation(incident=incident),
        kind=DecisionKind.REJECT,
        reason="It is mine, I debug it.",
    )
    acted = stages(incident)["acted"]
    assert acted.mark is Mark.NOT_NEEDED
    assert acted.detail == "rejected by approver: It is mine, I debug it."


def test_an_expired_question_is_no_action() -> None:
    incident = make_incident(state=S.WATCHING)
    make_decision(recommendation=make_recommendation(incident=incident), kind=DecisionKind.EXPIRE)
    assert stages(incident)["acted"].detail == "nobody decided in time"


def test_a_recommendation_to_do_nothing_needs_no_action() -> None:
    incident = make_incident(state=S.WATCHING)
    make_recommendation(incident=incident, action=ActionKind.NOTHING)
    assert stages(incident)["acted"].hint == "not needed: nothing should be done to the job"


def test_a_restart_by_somebody_else_is_not_called_ours() -> None:
    incident = make_incident(state=S.AWAITING_CHECKPOINT, resolved_by_others=True)
    acted = stages(incident)["acted"]
    assert acted.mark is Mark.NOT_NEEDED
    assert acted.detail == "somebody else restarted the job"
    assert acted.gap_s is not None


@pytest.mark.parametrize("state", [ActionState.FAILED, ActionState.REFUSED])
def test_an_action_that_did_not_work_shows_its_reason(state: ActionState) -> None:
    incident = make_incident(state=S.NEEDS_PERSON, acted_at=None, restored_at=None)
    make_action(recommendation=make_recommendation(incident=incident), state=state, detail="Slurm said no.")
    assert marks(incident) == "●●✕○○"
    assert stages(incident)["acted"].detail == "Slurm said no."


def test_an_action_that_restarts_nothing_is_said_to_be_done() -> None:
    incident = make_incident(state=S.WATCHING)
    recommendation = make_recommendation(incident=incident, action=ActionKind.DRAIN)
    make_action(
        recommendation=recommendation, kind=ActionKind.DRAIN, state=ActionState.CONVERGED, observed_at=ago(5),
        detail="Slurm shows gpu-02 drained, for our reason.",
    )  # fmt: skip
    acted = stages(incident)["acted"]
    assert (acted.mark, acted.detail) == (Mark.DONE, "Slurm shows gpu-02 drained, for our reason.")


def test_an_older_checkpoint_than_expected_is_a_failed_restore() -> None:
    incident = make_incident(state=S.NEEDS_PERSON, restored_at=ago(60), restored_step=600, expected_step=840)
    assert marks(incident) == "●●●✕○"
    assert stages(incident)["restored"].detail == "at step 600; step 840 was expected"


@pytest.mark.parametrize("restored_step", [0, None])
def test_a_start_from_scratch_is_said_as_such(restored_step: int | None) -> None:
    incident = make_incident(state=S.NEEDS_PERSON, restored_at=ago(60), restored_step=restored_step, expected_step=840)
    assert stages(incident)["restored"].detail == "from scratch; step 840 was expected"


def test_a_start_from_scratch_is_right_where_there_was_nothing_to_restore() -> None:
    incident = make_incident(state=S.AWAITING_CHECKPOINT, restored_step=0, expected_step=None)
    assert stages(incident)["restored"].mark is Mark.DONE


def test_a_wait_shows_by_when_it_is_expected_to_end() -> None:
    deadline = timezone.now() + timedelta(minutes=9)
    incident = make_incident(state=S.AWAITING_CHECKPOINT, deadline_at=deadline)
    assert stages(incident)["checkpoint"].deadline == deadline


def test_a_case_that_gave_up_after_acting_failed_at_what_it_did_not_reach() -> None:
    incident = make_incident(
        state=S.CLOSED,
        outcome=Outcome.GAVE_UP,
        outcome_reason="It crashed three times.",
        restored_at=None,
        checkpoint_at=None,
        next_checkpoint_step=None,
    )
    assert marks(incident) == "●●●✕✕"
    assert stages(incident)["restored"].detail == "It crashed three times."


def test_a_case_closed_as_a_false_alarm_failed_at_nothing() -> None:
    incident = make_incident(
        state=S.CLOSED,
        outcome=Outcome.FALSE_ALARM,
        recommended_at=None,
        acted_at=None,
        restored_at=None,
        checkpoint_at=None,
    )
    assert marks(incident) == "●––––"
