"""Each action on the scripted controller: proposed, approved, carried out once, and what the case then does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from recovery.access import Forbidden, actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, JobState, NodeState, Outcome
from recovery.models import Action, BatchScript, Cluster, Incident, Node, PolicyVersion, Recommendation
from recovery.pipeline import decide, propose
from recovery.pipeline.by_hand import Invalid
from recovery.slurm.base import Operation, SlurmRefused
from tests.pipeline.conftest import Desk
from tests.pipeline.fake_slurm import no_answer

Policy = Callable[..., PolicyVersion]
SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n"
LAUNCH = "launch_failed_requeued_held"


class Killed(BaseException):
    """The process dies here."""


class Case:
    """An open case and the people around it."""

    def __init__(self, desk: Desk, operator: Any, approver: Any) -> None:
        self.desk, self.operator, self.approver = desk, actor_for(operator), actor_for(approver)

    def propose(self, action: ActionKind, *, nodes: tuple[str, ...] = (), **parameters: Any) -> Recommendation:
        return propose.propose(
            self.desk.incident.pk, action=action, parameters=parameters, exclude_nodes=nodes, reason="it must be",
            actor=self.operator, client=self.desk.slurm, now=self.desk.now,
        )  # fmt: skip

    def approve(self, row: Recommendation | None = None) -> None:
        row = row or self.desk.recommendation
        decide.approve(row.pk, shown_hash=row.hash, actor=self.approver, now=self.desk.now)

    def do(self, action: ActionKind, *, nodes: tuple[str, ...] = (), **parameters: Any) -> Action:
        self.approve(self.propose(action, nodes=nodes, **parameters))
        return self.settle()

    def settle(self) -> Action:
        for _ in range(20):
            self.desk.tick(seconds=5)
            action = Action.objects.latest("pk")
            if action.state not in (ActionState.INTENDED, ActionState.CALLED):
                return action
        raise AssertionError(f"the action does not end: {action.state}, {action.detail}")

    def undo(self, action: Action) -> Action:
        row = propose.undo(
            action.pk, reason="a mistake", actor=self.operator, client=self.desk.slurm, now=self.desk.now
        )
        self.approve(row)
        return self.settle()


@pytest.fixture
def case(desk: Desk, policy: Policy, operator: Any, approver: Any) -> Case:
    """A crash with a complete checkpoint, which waits for a decision; its script is kept."""
    policy(gpu_hardware="approve", not_a_failure="approve")
    desk.slurm.scripts["1"] = SCRIPT
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    return Case(desk, operator, approver)


@pytest.fixture
def hanging(desk: Desk, policy: Policy, operator: Any, approver: Any, settings: Settings) -> Case:
    """A job that runs, with a limit, and stands still."""
    settings.HANG_FLOOR_S, settings.HANG_FIRST_STEP_S = 20, 20
    policy(hang_silent="approve", unknown="approve")
    desk.slurm.scripts["1"] = SCRIPT
    desk.submit(time_limit_s=3600.0)
    desk.tick()
    desk.start()
    desk.tick()
    desk.train(1, 10)
    desk.save(10)
    desk.tick(times=3)
    desk.train(11, 14)
    desk.tick_until(lambda: Incident.objects.filter(state=IncidentState.AWAITING_DECISION).exists())
    return Case(desk, operator, approver)


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
    for _ in range(40):
        case.desk.tick(seconds=5)
        if Node.objects.get(name="n2").changed_at < case.desk.now - timedelta(minutes=1):
            break
    assert case.undo(action).state == ActionState.CONVERGED
    assert case.desk.slurm.node_table["n2"].state is NodeState.UP


def test_a_node_with_jobs_of_others_is_not_drained(case: Case) -> None:
    case.desk.slurm.enter("2", name="other", user="bob")
    case.desk.slurm.start("2", ("n2",))
    action = case.do(ActionKind.DRAIN, node="n2")
    assert action.state == ActionState.REFUSED
    assert "2" in action.detail
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
    assert decide.load_of(case.desk.incident, now=case.desk.now).excluded_nodes == 1


# --- resubmit ---------------------------------------------------------------------------------------------------------


def resubmitted(desk: Desk) -> Any:
    (job,) = [job for job_id, job in desk.slurm.table.items() if job_id != "1"]
    return job


def test_a_job_that_slurm_may_not_requeue_is_submitted_again(
    desk: Desk, policy: Policy, operator: Any, approver: Any
) -> None:
    policy(gpu_hardware="auto")
    desk.slurm.scripts["1"] = SCRIPT
    desk.submit(requeueable=False, work_dir="/work/ada")
    desk.tick()
    desk.start()
    desk.tick()
    desk.train(1, 10)
    desk.save(10)
    desk.tick(times=3)
    desk.train(11, 12)
    desk.crash_with_ecc()
    assert desk.recommendation.action == ActionKind.RESUBMIT
    assert desk.recommendation.exclude_nodes == ["n2"]
    assert desk.incident.state == IncidentState.AWAITING_DECISION, "it always needs a person"
    case = Case(desk, operator, approver)
    case.approve()
    assert case.settle().state == ActionState.CONVERGED
    new = resubmitted(desk)
    desk.slurm.change(new.job_id, stdout=str(desk.log))
    assert (new.held, new.user, new.excluded_nodes) == (False, "ada", ("n2",))
    assert new.comment == desk.slurm.table["1"].comment
    assert f"recovery-desk:{Action.objects.get().key}:" in desk.slurm.scripts[new.job_id]
    desk.slurm.start(new.job_id, ("n1", "n3"))
    desk.load(10)
    desk.train(11, 20)
    desk.save(20)
    desk.tick(times=4)
    assert Incident.objects.get().outcome == Outcome.RECOVERED


@pytest.mark.parametrize("operation", ["submit", "cancel", "release"])
@pytest.mark.parametrize("moment", ["before_write", "after_write"])
def test_a_resubmission_killed_around_a_call_leaves_one_new_job(hanging: Case, operation: str, moment: str) -> None:
    desk = hanging.desk

    def die(now: str) -> None:
        if now == operation:
            raise Killed

    hanging.approve(hanging.propose(ActionKind.RESUBMIT))
    setattr(desk.slurm, moment, die)
    with pytest.raises(Killed):
        desk.tick(times=3)
    setattr(desk.slurm, moment, None)
    desk.tick(seconds=61)
    assert hanging.settle().state == ActionState.CONVERGED
    assert not resubmitted(desk).held
    assert desk.slurm.table["1"].state is JobState.CANCELLED
    assert desk.slurm.calls.count("submit") == 1


def test_a_submission_whose_answer_is_lost_is_found_by_its_key(hanging: Case) -> None:
    def lose(operation: str) -> None:
        if operation == "submit":
            raise no_answer()

    hanging.desk.slurm.after_write = lose
    hanging.approve(hanging.propose(ActionKind.RESUBMIT))
    action = hanging.settle()
    assert action.state == ActionState.CONVERGED
    assert hanging.desk.slurm.calls.count("submit") == 1


def test_the_script_is_kept_as_soon_as_a_case_opens(case: Case) -> None:
    assert BatchScript.objects.get().text == SCRIPT


def test_a_script_that_slurm_does_not_keep_is_said_when_it_is_needed(case: Case) -> None:
    BatchScript.objects.update(text="", error="Slurm keeps no scripts.")
    with pytest.raises(Invalid, match="keeps no scripts"):
        case.propose(ActionKind.RESUBMIT)


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
        (ActionKind.DRAIN, {"node": "n9"}, "no node"),
        (ActionKind.DRAIN, {"node": "n4"}, "did not run on n4"),
        (ActionKind.RESTORE_OLDER, {"step": 11}, "no complete checkpoint"),
        (ActionKind.RESUBMIT, {"environment": {"a b": "1"}}, "no name of a variable"),
        (ActionKind.RESUBMIT, {"environment": {"A": "1\n#SBATCH"}}, "one line"),
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
