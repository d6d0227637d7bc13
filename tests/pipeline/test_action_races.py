"""Somebody acts in the moments between our look, our call and the next look: nothing of theirs is undone or claimed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, FindingKind, JobState, Outcome
from recovery.models import Action
from recovery.pipeline import propose
from recovery.slurm.base import SlurmRefused
from tests.pipeline.cases import Case
from tests.pipeline.conftest import Desk
from tests.pipeline.fake_slurm import no_answer


def at(desk: Desk, moment: str, operation: str, act: Callable[[], None]) -> None:
    """Once, right before or after our call of `operation`; `act` may raise."""
    done: list[str] = []

    def hook(now: str) -> None:
        if now == operation and not done:
            done.append(now)
            act()

    setattr(desk.slurm, moment, hook)


def refused(message: str) -> SlurmRefused:
    return SlurmRefused(message, tried="scontrol", permanent=True)


def test_an_admins_requeue_in_held_state_right_before_ours_is_not_released(case: Case) -> None:
    desk = case.desk

    def admin() -> None:
        desk.slurm._requeue("1", hold=True)
        raise refused("Job is pending execution")

    at(desk, "before_write", "requeue_hold", admin)
    case.approve()
    action = case.settle()
    assert "release" not in desk.slurm.calls
    assert desk.slurm.table["1"].held
    assert action.state == ActionState.REFUSED
    assert desk.incident.resolved_by_others


def test_a_job_that_slurm_requeues_right_before_our_call_was_requeued_by_others(case: Case) -> None:
    desk = case.desk
    row = case.propose(ActionKind.REQUEUE)

    def slurm() -> None:
        desk.slurm._requeue("1", hold=False)
        raise refused("Job is pending execution")

    at(desk, "before_write", "requeue", slurm)
    case.approve(row)
    action = case.settle()
    assert action.state == ActionState.REFUSED
    assert "Somebody else" in action.detail
    assert desk.incident.resolved_by_others


def test_an_admins_hold_right_before_ours_is_theirs(hanging: Case) -> None:
    desk = hanging.desk

    def admin() -> None:
        desk.slurm.change("1", state_reason="JobHeldAdmin")
        raise refused("it is held already")

    at(desk, "before_write", "hold", admin)
    action = hanging.do(ActionKind.HOLD)
    assert action.state == ActionState.REFUSED
    assert "not by us" in action.detail


def test_a_user_who_cancels_right_before_our_cancel_has_done_it(hanging: Case) -> None:
    desk = hanging.desk

    def user() -> None:
        desk.slurm.end("1", JobState.CANCELLED, 0, "")
        raise refused("Job/step already completing or completed")

    at(desk, "before_write", "cancel", user)
    action = hanging.do(ActionKind.CANCEL)
    assert action.state == ActionState.REFUSED
    assert "Somebody else" in action.detail
    assert desk.incident.outcome == Outcome.STOPPED_ON_PURPOSE


def held_by_us(case: Case) -> Action:
    """Our hold has taken effect on a job that waits."""
    held, desk = case.do(ActionKind.HOLD), case.desk
    desk.slurm.end()
    desk.slurm.change("1", state=JobState.PENDING, restart_count=1, submitted_at=desk.now, nodes=(), started_at=None,
                      held=True, state_reason="JobHeldAdmin", ended_at=None, exit_code=None)  # fmt: skip
    desk.tick(times=3)
    return held


def test_an_admins_hold_after_our_release_was_accepted_stays(hanging: Case) -> None:
    desk, held = hanging.desk, held_by_us(hanging)
    desk.tick_until(lambda: propose.undoing(held, now=desk.now) is not None)

    def admin() -> None:
        desk.slurm.change("1", held=True, state_reason="JobHeldAdmin")

    at(desk, "after_write", "release", admin)
    action = hanging.undo(held)
    assert desk.slurm.calls.count("release") == 1
    assert desk.slurm.table["1"].held
    assert action.state == ActionState.FAILED


def test_a_users_hold_on_the_new_job_after_our_release_was_accepted_stays(hanging: Case) -> None:
    desk = hanging.desk

    def user() -> None:
        desk.slurm.change("2", held=True, state_reason="JobHeldUser")

    at(desk, "after_write", "release", user)
    action = hanging.do(ActionKind.RESUBMIT)
    assert desk.slurm.calls.count("release") == 1
    assert desk.slurm.table["2"].held
    assert action.state == ActionState.FAILED


def test_a_user_who_cancels_between_our_held_requeue_and_the_exclusion_is_told_so(case: Case) -> None:
    desk = case.desk
    at(desk, "after_write", "requeue_hold", lambda: desk.slurm.end("1", JobState.CANCELLED, 0, ""))
    case.approve()
    action = case.settle()
    assert "cancelled" in action.detail
    assert "released it first" not in action.detail
    for _ in range(80):
        desk.tick(seconds=5)
    assert desk.incident.outcome == Outcome.STOPPED_ON_PURPOSE
    assert "release" not in desk.slurm.calls


def test_a_cancel_after_the_tracker_was_written_does_not_say_that_nothing_was_done(case: Case) -> None:
    desk = case.desk
    tracker = desk.checkpoints / "latest_checkpointed_iteration.txt"
    tracker.write_text("20")
    at(desk, "before_write", "requeue", lambda: None)

    seen: list[str] = []
    real = desk.slurm.job

    def job(job_id: str) -> Any:
        if tracker.read_text() == "10" and not seen:
            seen.append(job_id)
            desk.slurm.end("1", JobState.CANCELLED, 0, "")
        return real(job_id)

    desk.slurm.job = job  # type: ignore[method-assign]
    action = case.do(ActionKind.RESTORE_OLDER, step=10)
    assert "Nothing was done" not in action.detail
    assert action.state == ActionState.FAILED


def test_after_a_refusal_an_unanswered_call_is_still_waited_for(hanging: Case) -> None:
    desk = hanging.desk
    told: list[str] = []

    def hook(operation: str) -> None:
        if operation != "submit":
            return
        told.append(operation)
        if len(told) == 1:
            raise refused("Slurm temporarily unable to accept job")
        if len(told) == 2:
            raise no_answer()

    desk.slurm.before_write = hook
    hanging.approve(hanging.propose(ActionKind.RESUBMIT))
    for _ in range(6):
        desk.tick(seconds=2)
    assert len(told) == 2


def test_an_extension_of_a_job_that_completes_meanwhile_leaves_no_case_behind(hanging: Case) -> None:
    desk = hanging.desk
    at(desk, "after_write", "set_time_limit", lambda: desk.slurm.end("1", JobState.COMPLETED, 0, ""))
    action = hanging.do(ActionKind.EXTEND_TIME_LIMIT, seconds=7200)
    assert action.state == ActionState.REFUSED
    desk.tick(times=6)
    assert (desk.incident.state, desk.incident.outcome) == (IncidentState.CLOSED, Outcome.STOPPED_ON_PURPOSE)


def test_an_extension_of_a_job_that_fails_meanwhile_is_judged_as_a_crash(hanging: Case) -> None:
    desk = hanging.desk
    at(desk, "after_write", "set_time_limit", lambda: desk.slurm.end())
    hanging.do(ActionKind.EXTEND_TIME_LIMIT, seconds=7200)
    desk.tick_until(lambda: desk.incident.kind == FindingKind.CRASH)
    assert "set_time_limit" in desk.slurm.calls


def test_a_hung_job_that_completes_is_not_proposed_to_be_started_again(hanging: Case) -> None:
    desk = hanging.desk
    assert desk.recommendation.action == ActionKind.REQUEUE
    desk.slurm.end("1", JobState.COMPLETED, 0, "")
    desk.tick(times=6)
    assert desk.incident.outcome == Outcome.STOPPED_ON_PURPOSE
    assert "completed" in desk.incident.outcome_reason


def test_a_policy_starts_no_hung_job_again_that_has_completed(hanging: Case, policy: Any) -> None:
    desk = hanging.desk
    desk.slurm.end("1", JobState.COMPLETED, 0, "")
    policy(hang_silent="auto")
    desk.tick(times=6)
    assert desk.slurm.calls == []
    assert desk.incident.state == IncidentState.CLOSED


def test_a_job_that_moves_again_needs_nobody_because_a_call_was_refused(hanging: Case) -> None:
    desk = hanging.desk

    def refuse(operation: str) -> None:
        raise refused("Access/permission denied")

    desk.slurm.before_write = refuse
    assert hanging.do(ActionKind.REQUEUE).state == ActionState.FAILED
    assert desk.incident.state == IncidentState.NEEDS_PERSON
    desk.train(15, 18)
    assert desk.incident.outcome == Outcome.FALSE_ALARM


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ActionKind.REQUEUE, {}), (ActionKind.CANCEL, {}), (ActionKind.HOLD, {}), (ActionKind.RESUBMIT, {}),
        (ActionKind.EXTEND_TIME_LIMIT, {"seconds": 7200}),
    ],
)  # fmt: skip
def test_what_is_done_to_a_running_job_is_what_was_shown(
    hanging: Case, kind: ActionKind, given: dict[str, Any]
) -> None:
    assert shown_and_done(hanging.do(kind, **given))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ActionKind.REQUEUE_EXCLUDING, {}), (ActionKind.DRAIN, {"node": "n2"}), (ActionKind.RESUBMIT, {}),
        (ActionKind.RESTORE_OLDER, {"step": 10}),
    ],
)  # fmt: skip
def test_what_is_done_to_a_job_that_ended_is_what_was_shown(
    case: Case, kind: ActionKind, given: dict[str, Any]
) -> None:
    (case.desk.checkpoints / "latest_checkpointed_iteration.txt").write_text("20")
    nodes = ("n2",) if kind is ActionKind.REQUEUE_EXCLUDING else ()
    assert shown_and_done(case.do(kind, nodes=nodes, **given))


def shown_and_done(action: Action) -> bool:
    """Word for word, but for the id of a new job, which nobody knows beforehand."""
    done = [call["command"] for call in action.calls]
    shown = list(action.recommendation.operations)
    if action.kind == ActionKind.RESUBMIT:
        assert "of the new job" in shown.pop()
        assert done.pop() == "fake release 2"
    assert action.state == ActionState.CONVERGED
    return done == shown


def test_an_exclusion_that_would_leave_too_few_nodes_by_now_is_not_set_and_the_job_can_be_released(case: Case) -> None:
    desk = case.desk

    def lose() -> None:
        for name in ("n3", "n4"):
            desk.slurm.lose_node(name)
        desk.slurm.change("1", state=JobState.COMPLETING, restart_count=1)

    at(desk, "after_write", "requeue_hold", lose)
    case.approve()
    desk.tick(times=3)
    desk.slurm.change("1", state=JobState.PENDING)
    action = case.settle()
    assert action.state == ActionState.FAILED
    assert "only 1 eligible nodes would remain" in action.detail
    assert "propose its release" in desk.incident.alarm
    assert "set_excluded_nodes" not in desk.slurm.calls
    desk.tick(times=2)
    released = case.do(ActionKind.RELEASE)
    assert released.state == ActionState.CONVERGED
    assert not desk.slurm.table["1"].held


def test_a_hung_job_that_moves_again_is_not_ended_by_a_resubmission_half_way(hanging: Case) -> None:
    desk = hanging.desk

    def lose() -> None:
        desk.step(99)
        raise no_answer()

    at(desk, "before_write", "cancel", lose)
    action = hanging.do(ActionKind.RESUBMIT)
    assert action.state == ActionState.FAILED
    assert "moves again" in action.detail
    assert "cancel" not in desk.slurm.calls
    assert desk.slurm.table["2"].held
