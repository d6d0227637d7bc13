"""Each action on the scripted controller: proposed, approved, carried out once, and what the case then does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, JobState, NodeState, Outcome
from recovery.models import Action, Cluster, Incident, Node, PolicyVersion, Recommendation
from recovery.pipeline import propose, ruling
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.veto import IN_HEALTH
from recovery.slurm.base import Operation, SlurmRefused
from tests.pipeline.cases import Case
from tests.pipeline.conftest import Desk

Policy = Callable[..., PolicyVersion]
LAUNCH = "launch_failed_requeued_held"


# --- the key ----------------------------------------------------------------------------------------------------------


def test_the_key_is_left_beside_what_others_wrote_in_the_admin_comment(case: Case) -> None:
    case.desk.slurm.change("1", admin_comment="ticket=77 recovery-desk:incident-0-0")
    case.approve()
    action = case.settle()
    assert action.state == ActionState.CONVERGED
    assert case.desk.slurm.table["1"].admin_comment == f"ticket=77 recovery-desk:{action.key}"
    assert action.key == action.recommendation.parameters["key"]


def test_where_slurm_refuses_the_key_that_is_remembered_and_the_action_goes_on(case: Case) -> None:
    def refuse(operation: str) -> None:
        if operation == "set_admin_comment":
            raise SlurmRefused("Access/permission denied", tried="scontrol update", permanent=True)

    case.desk.slurm.before_write = refuse
    case.approve()
    assert case.settle().state == ActionState.CONVERGED
    cluster = Cluster.objects.get()
    assert "permission denied" in cluster.unmarked_reason
    case.desk.tick(times=2)
    row = case.propose(ActionKind.CANCEL)
    assert not any("set_admin_comment" in each for each in row.operations)


def test_a_back_end_without_admin_comments_is_not_asked_for_them(case: Case) -> None:
    case.desk.slurm.denied.add(Operation.SET_ADMIN_COMMENT)
    case.approve()
    assert case.settle().state == ActionState.CONVERGED
    assert "set_admin_comment" not in case.desk.slurm.calls


# --- release, hold ----------------------------------------------------------------------------------------------------


@pytest.fixture
def launch_failed(desk: Desk, policy: Policy, operator: Any, approver: Any) -> Case:
    """Slurm could not launch the job, put it back and holds it."""
    policy(scheduler_launch="approve")
    desk.submit()
    desk.tick()
    desk.slurm.change("1", restart_count=1, held=True, state_reason=LAUNCH, submitted_at=desk.now)
    desk.tick_until(lambda: Recommendation.objects.exists())
    return Case(desk, operator, approver)


def test_a_job_that_slurm_holds_after_a_failed_launch_is_released_and_verified(launch_failed: Case) -> None:
    desk = launch_failed.desk
    assert desk.recommendation.action == ActionKind.RELEASE
    launch_failed.approve()
    assert launch_failed.settle().state == ActionState.CONVERGED
    assert not desk.slurm.table["1"].held
    desk.start()
    desk.train(1, 10)
    desk.save(10)
    desk.tick(times=4)
    assert Incident.objects.get().outcome == Outcome.RECOVERED


def test_a_policy_may_release_the_first_failed_launch_by_itself(desk: Desk, policy: Policy) -> None:
    policy(scheduler_launch="auto")
    desk.submit()
    desk.tick()
    desk.slurm.change("1", restart_count=1, held=True, state_reason=LAUNCH, submitted_at=desk.now)
    desk.tick_until(lambda: "release" in desk.slurm.calls)


def test_a_hold_that_a_person_put_over_slurms_own_is_never_released(launch_failed: Case) -> None:
    launch_failed.approve()
    launch_failed.desk.slurm.change("1", state_reason="JobHeldAdmin")
    assert launch_failed.settle().state == ActionState.REFUSED
    assert "release" not in launch_failed.desk.slurm.calls


def test_our_hold_keeps_the_job_and_is_undone_by_releasing_it(hanging: Case) -> None:
    held = hanging.do(ActionKind.HOLD)
    assert (held.state, hanging.desk.incident.state) == (ActionState.CONVERGED, IncidentState.WATCHING)
    desk = hanging.desk
    desk.slurm.end()
    desk.slurm.change("1", state=JobState.PENDING, restart_count=1, submitted_at=desk.now, nodes=(), started_at=None,
                      held=True, state_reason="JobHeldAdmin", ended_at=None, exit_code=None)  # fmt: skip
    desk.tick(times=3)
    desk.tick_until(lambda: propose.undoing(held, now=desk.now) is not None)
    assert "we hold the job" in desk.recommendation.headline
    assert hanging.undo(held).state == ActionState.CONVERGED
    assert desk.slurm.calls.count("release") == 1


def test_a_crash_loop_that_slurm_feeds_is_held(desk: Desk, policy: Policy) -> None:
    policy(user_code="approve", unknown="approve")
    desk.submit()
    desk.tick()
    for number in range(3):
        desk.start()
        desk.tick(times=2)
        desk.train(1, 3)
        desk.slurm.end(exit_code=3)
        desk.slurm.change("1", state=JobState.PENDING, restart_count=number + 1, state_reason="BeginTime", nodes=(),
                          submitted_at=desk.now + timedelta(seconds=1), started_at=None, ended_at=None)  # fmt: skip
        desk.tick(times=6)
    assert desk.recommendation.action == ActionKind.HOLD
    assert "3 times" in desk.recommendation.headline


# --- cancel, extend ---------------------------------------------------------------------------------------------------


def test_a_cancelled_job_ends_its_case_as_stopped_on_purpose(hanging: Case) -> None:
    assert hanging.do(ActionKind.CANCEL).state == ActionState.CONVERGED
    assert hanging.desk.slurm.calls.count("cancel") == 1
    hanging.desk.tick(times=5)
    (incident,) = Incident.objects.all()
    assert incident.outcome == Outcome.STOPPED_ON_PURPOSE


def test_a_limit_is_extended_watched_and_set_back(hanging: Case) -> None:
    action = hanging.do(ActionKind.EXTEND_TIME_LIMIT, seconds=7200)
    assert (action.state, hanging.desk.incident.state) == (ActionState.CONVERGED, IncidentState.WATCHING)
    assert hanging.desk.slurm.table["1"].time_limit_s == 7200
    hanging.desk.tick(times=3)
    back = hanging.undo(action)
    assert (back.state, hanging.desk.slurm.table["1"].time_limit_s) == (ActionState.CONVERGED, 3600)


def test_a_limit_that_somebody_else_has_changed_since_is_left_alone(hanging: Case) -> None:
    row = hanging.propose(ActionKind.EXTEND_TIME_LIMIT, seconds=7200)
    hanging.approve(row)
    hanging.desk.slurm.change("1", time_limit_s=5400.0)
    assert hanging.settle().state == ActionState.REFUSED
    assert "set_time_limit" not in hanging.desk.slurm.calls


# --- drain, resume ----------------------------------------------------------------------------------------------------


def drained(case: Case, node: str = "n2") -> Action:
    action = case.do(ActionKind.DRAIN, node=node)
    assert action.state == ActionState.CONVERGED
    return action


def test_a_drained_node_names_the_incident_and_is_resumed_when_its_health_was_seen(case: Case) -> None:
    action = drained(case)
    record = case.desk.slurm.node_table["n2"]
    assert record.state is NodeState.DRAINED
    assert f"recovery-desk:incident-{case.desk.incident.pk}-" in record.reason
    assert record.reason.endswith(Recommendation.objects.get(carried_out=action).mode_reason.partition(": ")[2])
    for _ in range(40):
        case.desk.tick(seconds=5)
        if Node.objects.get(name="n2").changed_at < case.desk.now - timedelta(minutes=1):
            break
    assert case.undo(action).state == ActionState.CONVERGED
    assert case.desk.slurm.node_table["n2"].state is NodeState.UP


def test_the_undo_of_a_drain_is_offered_once_it_would_not_be_refused(case: Case) -> None:
    action = drained(case)
    case.desk.tick(times=3)  # our picture shows the drain, too
    node = Node.objects.get(name="n2")
    Node.objects.filter(pk=node.pk).update(changed_at=case.desk.now - IN_HEALTH + timedelta(seconds=1))
    assert propose.undoable(case.desk.incident, [action], now=case.desk.now) == []
    with pytest.raises(Invalid, match="when its health was seen again"):
        case.undo(action)
    Node.objects.filter(pk=node.pk).update(changed_at=case.desk.now - IN_HEALTH)
    assert propose.undoable(case.desk.incident, [action], now=case.desk.now) == [action]


def test_a_node_with_jobs_of_others_is_not_drained(case: Case) -> None:
    case.desk.slurm.enter("2", name="other", user="bob")
    case.desk.slurm.start("2", ("n2",))
    action = case.do(ActionKind.DRAIN, node="n2")
    assert action.state == ActionState.REFUSED
    assert action.detail == "Nothing was done: n2 runs other jobs, too: job 2."
    assert "drain_node" not in case.desk.slurm.calls


def test_a_node_that_somebody_else_drained_since_is_never_resumed_by_us(case: Case) -> None:
    action = drained(case)
    case.desk.slurm.change_node("n2", reason="vendor visit")
    case.desk.tick(times=3)
    assert propose.undoing(action, now=case.desk.now) is None
    with pytest.raises(Invalid, match="not drained by us"):
        case.propose(ActionKind.RESUME, node="n2")


def test_a_node_that_is_down_is_not_resumed(case: Case) -> None:
    action = drained(case)
    case.desk.slurm.change_node("n2", state=NodeState.DOWN, raw_state="DOWN+DRAIN")
    case.desk.tick(times=3)
    assert propose.undoing(action, now=case.desk.now) is None


def test_drains_count_like_exclusions(case: Case) -> None:
    drained(case)
    assert ruling.load_of(case.desk.incident, now=case.desk.now).excluded_nodes == 1
