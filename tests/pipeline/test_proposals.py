"""What people put in the place of a recommendation, and restoring an older checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.access import Forbidden, actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, Outcome
from recovery.pipeline.invalid import Invalid
from recovery.slurm.base import Operation
from tests.pipeline.cases import Case
from tests.pipeline.polling import poll

# --- restore older ----------------------------------------------------------------------------------------------------


def test_the_trainer_is_pointed_at_an_older_checkpoint_and_back(case: Case) -> None:
    tracker = case.desk.checkpoints / "latest_checkpointed_iteration.txt"
    tracker.write_text("20")
    action = case.do(ActionKind.RESTORE_OLDER, step=10)
    assert (action.state, tracker.read_text()) == (ActionState.CONVERGED, "10")
    kept = case.desk.checkpoints / f"latest_checkpointed_iteration.txt.before-{action.key}"
    assert kept.read_text() == "20"
    assert case.desk.slurm.calls.count("requeue") == 1
    assert case.desk.incident.state == IncidentState.RESTORING
    case.desk.tick(times=2)
    assert case.undo(action).state == ActionState.CONVERGED
    assert tracker.read_text() == "20"


def test_what_the_tracker_names_already_is_not_restored(case: Case) -> None:
    (case.desk.checkpoints / "latest_checkpointed_iteration.txt").write_text("10")
    with pytest.raises(Invalid, match="says 10 already; requeue the job instead"):
        case.propose(ActionKind.RESTORE_OLDER, step=10)


@pytest.mark.parametrize(
    ("kind", "lacks", "given"),
    [
        (ActionKind.REQUEUE_EXCLUDING, Operation.RELEASE, {"nodes": ("n3",)}),
        (ActionKind.RESUBMIT, Operation.SUBMIT, {}),
        (ActionKind.RESTORE_OLDER, Operation.REQUEUE, {"step": 10}),
    ],
)
def test_what_the_back_end_has_no_call_for_is_not_proposed(
    kind: ActionKind, lacks: Operation, given: dict[str, Any], case: Case
) -> None:
    (case.desk.checkpoints / "latest_checkpointed_iteration.txt").write_text("20")
    case.desk.slurm.denied.add(lacks)
    with pytest.raises(Invalid, match=f"action: This controller has no {lacks}. Use another back end."):
        case.propose(kind, **given)
    case.desk.slurm.denied.clear()
    assert case.propose(kind, **given).action == kind


def test_a_job_that_has_ended_is_not_said_to_be_cancelled(case: Case) -> None:
    row = case.propose(ActionKind.RESUBMIT)
    assert row.headline == "Submit the job again."
    assert not any("cancel" in line for line in row.operations)


def test_the_checkpoint_that_a_person_chose_is_the_one_that_is_expected(case: Case) -> None:
    desk = case.desk
    desk.save(12)  # complete, but not wanted: its weights are spoilt, say
    desk.tick(times=3)
    assert case.do(ActionKind.RESTORE_OLDER, step=10).state == ActionState.CONVERGED
    assert desk.incident.expected_step == 10
    desk.start(nodes=("n1", "n3"))
    desk.load(10)
    desk.train(11, 12)
    assert (desk.incident.state, desk.incident.alarm) == (IncidentState.AWAITING_CHECKPOINT, "")
    assert desk.incident.expected_step == 10
    desk.train(13, 20)
    desk.save(20)
    desk.tick(times=4)
    assert desk.incident.outcome == Outcome.RECOVERED


def test_a_tracker_that_somebody_wrote_since_is_not_overwritten(case: Case) -> None:
    tracker = case.desk.checkpoints / "latest_checkpointed_iteration.txt"
    tracker.write_text("20")
    case.approve(case.propose(ActionKind.RESTORE_OLDER, step=10))
    tracker.write_text("15")
    assert case.settle().state == ActionState.REFUSED
    assert tracker.read_text() == "15"


# --- proposing --------------------------------------------------------------------------------------------------------


def test_a_proposal_takes_the_place_of_the_recommendation_and_waits_for_a_decision(case: Case) -> None:
    before = case.desk.recommendation
    row = case.propose(ActionKind.DRAIN, node="n2")
    before.refresh_from_db()
    assert before.superseded_at is not None
    assert (row.proposed_by, row.mode, row.hash != before.hash) == ("operator", "approve", True)
    case.desk.tick(times=5)
    assert case.desk.recommendation.pk == row.pk
    assert case.desk.incident.state == IncidentState.AWAITING_DECISION
    assert "drain_node" not in case.desk.slurm.calls


def test_who_is_on_the_node_is_said_when_its_drain_is_proposed(case: Case) -> None:
    alone = "It takes no new job then. Not done while jobs of others run on n2."
    assert case.propose(ActionKind.DRAIN, node="n2").reasons[1:] == [alone]
    case.desk.slurm.enter("2", name="other", user="bob")
    case.desk.slurm.start("2", ("n2", "n3"))
    poll(case.desk)
    seen = f"{case.desk.now:%H:%M:%S}"
    told = case.propose(ActionKind.DRAIN, node="n2").reasons
    assert told[1:] == [alone, f"At {seen} UTC Slurm showed job 2 on it: until they end it would be refused."]
    assert len(case.propose(ActionKind.DRAIN, node="n1").reasons) == 2


def test_nothing_is_recorded_with_its_reason_and_watched(case: Case) -> None:
    row = case.propose(ActionKind.NOTHING)
    assert "it must be" in row.reasons[0]
    assert case.desk.incident.state == IncidentState.WATCHING
    case.desk.tick(times=3)
    assert case.desk.slurm.calls == []


def test_a_viewer_proposes_nothing(case: Case, viewer: Any) -> None:
    case.operator = actor_for(viewer)
    with pytest.raises(Forbidden):
        case.propose(ActionKind.CANCEL)


@pytest.mark.parametrize(
    ("action", "parameters", "message"),
    [
        (ActionKind.HOLD, {}, "only for one that is"),
        (ActionKind.CANCEL, {"node": "n1"}, "no such parameter"),
        (ActionKind.RESUBMIT, {"exclude_nodes": ["n1"]}, "in exclude_nodes, beside parameters"),
        (ActionKind.DRAIN, {"node": "n9"}, "no node"),
        (ActionKind.DRAIN, {"node": "n4"}, "did not run on n4"),
        (ActionKind.RESTORE_OLDER, {"step": 11}, "no complete checkpoint"),
        (ActionKind.RESUBMIT, {"environment": {"a b": "1"}}, "no name of a variable"),
        (ActionKind.RESUBMIT, {"environment": {"A": "1\n#SBATCH"}}, "one line"),
        (ActionKind.RESUBMIT, {"time_limit_s": 10**400}, "must be a number"),
        (ActionKind.RESTORE_OLDER, {"step": 10**400}, "must be a number"),
        (ActionKind.RESTORE_OLDER, {"step": 10.7}, "whole number"),
        (ActionKind.DRAIN, {"node": "\ud800"}, "no node"),
        (ActionKind.RESUME, {"node": "n1\0"}, "no node"),
        (ActionKind.RELEASE, {}, "only for one that is"),
        (ActionKind.REQUEUE_EXCLUDING, {}, "at least one node"),
    ],
)
def test_a_proposal_that_makes_no_sense_is_refused_with_the_remedy(
    case: Case, action: ActionKind, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        case.propose(action, **parameters)


def test_what_the_back_end_has_no_call_for_is_said_before_it_is_tried(case: Case) -> None:
    case.desk.slurm.denied.add(Operation.DRAIN_NODE)
    with pytest.raises(Invalid, match="has no drain_node"):
        case.propose(ActionKind.DRAIN, node="n2")
