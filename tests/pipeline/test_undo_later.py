"""What was done in a case that is closed by now is undone in a case of its own."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, FindingKind, NodeState, Outcome
from recovery.models import Action, Event, Incident, Node
from recovery.pipeline import by_hand, decide, propose
from recovery.pipeline.invalid import Invalid
from tests.pipeline.cases import Case


@pytest.fixture
def drained(case: Case) -> Action:
    """A node that a closed case has drained, in health for a while."""
    action = case.do(ActionKind.DRAIN, node="n2")
    by_hand.close_incident(
        case.desk.incident.pk, outcome=Outcome.GAVE_UP, reason="the node is at the vendor's", actor=case.operator,
        now=case.desk.now,
    )  # fmt: skip
    for _ in range(30):
        case.desk.tick(seconds=5)
        if Node.objects.get(name="n2").changed_at < case.desk.now - timedelta(minutes=1):
            break
    return action


def test_a_node_is_given_back_after_its_case_was_closed(case: Case, drained: Action) -> None:
    closed = Incident.objects.get()
    assert propose.undoable(closed, [drained], now=case.desk.now) == [drained]
    assert case.undo(drained).state == ActionState.CONVERGED
    assert case.desk.slurm.node_table["n2"].state is NodeState.UP
    case.desk.tick(times=2)
    own = case.desk.incident
    assert (own.kind, own.previous, own.state, own.outcome) == (
        FindingKind.UNDOING, closed, IncidentState.CLOSED, Outcome.UNDONE,
    )  # fmt: skip
    assert propose.undoing(drained, now=case.desk.now) is None
    verbs = Event.objects.filter(incident_id=own.pk).order_by("pk").values_list("verb", flat=True)
    assert verbs[0] == "incident.detected"
    assert Incident.objects.count() == 2, "the crash is not told of again"


def test_it_stays_as_it_is_where_the_undoing_is_rejected(case: Case, drained: Action) -> None:
    row = propose.undo(drained.pk, reason="back?", actor=case.operator, client=case.desk.slurm, now=case.desk.now)
    decide.reject(row.pk, shown_hash=row.hash, actor=case.approver, reason="not yet", now=case.desk.now)
    case.desk.tick(times=3)
    assert (case.desk.incident.state, case.desk.incident.outcome) == (IncidentState.CLOSED, Outcome.GAVE_UP)
    assert "resume_node" not in case.desk.slurm.calls
    assert propose.undoing(drained, now=case.desk.now) is not None


def test_an_undoing_that_is_refused_ends_its_case(case: Case, drained: Action) -> None:
    row = propose.undo(drained.pk, reason="back", actor=case.operator, client=case.desk.slurm, now=case.desk.now)
    case.approve(row)
    case.desk.slurm.change_node("n2", reason="vendor visit")
    assert case.settle().state == ActionState.REFUSED
    case.desk.tick(times=2)
    assert case.desk.incident.outcome == Outcome.GAVE_UP
    with pytest.raises(Invalid, match="can't be undone"):
        case.undo(drained)


def test_a_failure_of_the_run_takes_the_place_of_an_undoing_that_waits(case: Case, drained: Action) -> None:
    desk = case.desk
    desk.submit("2", stdout=str(desk.log))
    desk.tick()
    desk.start("2", nodes=("n1", "n3"))
    desk.tick()
    desk.load(10)
    desk.train(11, 13)
    propose.undo(drained.pk, reason="back", actor=case.operator, client=desk.slurm, now=desk.now)
    desk.tick(times=2)
    assert desk.incident.kind == FindingKind.UNDOING
    desk.say("[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    desk.slurm.end("2")
    desk.tick(times=4)
    assert (desk.incident.kind, desk.incident.attempt.job.job_id) == (FindingKind.CRASH, "2")
    assert desk.incident.state == IncidentState.AWAITING_DECISION
    assert desk.recommendation.action == ActionKind.REQUEUE_EXCLUDING
