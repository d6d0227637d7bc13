"""An action is done once, on the facts that were approved, whatever fails in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from pytest_django import Settings

from recovery.access import actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import JobState, Outcome
from recovery.models import Action, Cluster, Event, Incident, PolicyVersion
from recovery.pipeline import decide, pauses
from recovery.slurm.base import JobRecord, SlurmRefused, SlurmUnreachable
from tests.pipeline.conftest import ECC, Desk
from tests.pipeline.fake_slurm import no_answer

Policy = Callable[..., PolicyVersion]
REQUEUES = ("requeue", "requeue_hold")


class Killed(BaseException):
    """The process dies here: nothing after it runs, no handler sees it."""


@pytest.fixture
def approved(desk: Desk, policy: Policy, approver: object) -> Desk:
    """An approved action whose execution has not begun."""
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    row = desk.recommendation
    decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(approver), now=desk.now)  # type: ignore[arg-type]
    return desk


def requeues(desk: Desk) -> int:
    return sum(call in REQUEUES for call in desk.slurm.calls)


def settle(desk: Desk) -> None:
    """Long enough for leases to end, late answers to be given up on, and the action to be finished."""
    for _ in range(30):
        desk.tick(seconds=10)


OPERATIONS = ["requeue_hold", "set_admin_comment", "set_excluded_nodes", "release"]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("moment", ["before_write", "after_write"])
def test_a_process_killed_around_a_call_leaves_exactly_one_effect(approved: Desk, operation: str, moment: str) -> None:
    def die(now: str) -> None:
        if now == operation:
            raise Killed

    setattr(approved.slurm, moment, die)
    with pytest.raises(Killed):
        approved.tick()
    setattr(approved.slurm, moment, None)
    settle(approved)
    assert requeues(approved) == 1
    assert approved.slurm.table["1"].excluded_nodes == ("n2",)
    assert not approved.slurm.table["1"].held
    assert Action.objects.get().state == ActionState.CONVERGED


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("moment", ["before_write", "after_write"])
def test_a_call_without_an_answer_leaves_exactly_one_effect(approved: Desk, operation: str, moment: str) -> None:
    failed: list[str] = []

    def lose(now: str) -> None:
        if now == operation and not failed:
            failed.append(now)
            raise no_answer()

    setattr(approved.slurm, moment, lose)
    settle(approved)
    assert requeues(approved) == 1
    assert approved.slurm.table["1"].excluded_nodes == ("n2",)
    assert Action.objects.get().state == ActionState.CONVERGED


def test_a_call_that_is_carried_out_after_its_time_out_is_not_made_again(approved: Desk) -> None:
    def lose(operation: str) -> None:
        raise no_answer()

    approved.slurm.before_write = lose
    approved.tick()
    approved.slurm.before_write = None
    approved.tick(times=3)
    assert requeues(approved) == 0
    approved.slurm.requeue("1", hold=True)  # the late effect
    settle(approved)
    assert requeues(approved) == 1
    assert Action.objects.get().state == ActionState.CONVERGED


def test_an_unreachable_controller_means_no_action_and_then_a_person(approved: Desk) -> None:
    approved.slurm.silent = no_answer()
    settle(approved)
    assert approved.slurm.calls == []
    assert approved.incident.state == IncidentState.NEEDS_PERSON
    assert "trustworthy" in approved.incident.alarm


def test_a_refusal_of_slurm_is_shown_and_not_repeated_for_ever(approved: Desk) -> None:
    asked: list[str] = []

    def refuse(operation: str) -> None:
        asked.append(operation)
        raise SlurmRefused("Access/permission denied", tried=f"scontrol {operation} 1", permanent=True)

    approved.slurm.before_write = refuse
    settle(approved)
    assert asked == ["requeue_hold", "requeue_hold"]
    assert approved.incident.state == IncidentState.NEEDS_PERSON
    assert "permission denied" in approved.incident.alarm


def test_a_job_cancelled_after_the_approval_is_left_alone(approved: Desk) -> None:
    approved.slurm.change("1", state=JobState.CANCELLED)
    approved.tick(times=3)
    assert approved.slurm.calls == []
    assert approved.incident.outcome == Outcome.STOPPED_ON_PURPOSE


def test_a_job_requeued_by_somebody_else_is_not_requeued_again(approved: Desk) -> None:
    approved.slurm.requeue("1", hold=False)
    approved.slurm.calls.clear()
    approved.tick(times=2)
    assert approved.slurm.calls == []
    assert approved.incident.state == IncidentState.RESTORING
    assert approved.incident.resolved_by_others


def test_a_reused_job_id_is_never_acted_on(approved: Desk) -> None:
    approved.slurm.enter("1", name="other", state=JobState.FAILED, nodes=("n1", "n2"), started_at=approved.now)
    approved.tick(times=3)
    assert approved.slurm.calls == []


def test_a_job_that_left_the_controllers_memory_is_not_waited_for(approved: Desk) -> None:
    """A whole list and the question about it both lack it; nobody kept its script."""
    del approved.slurm.table["1"]
    approved.slurm.enter("2")
    approved.tick(times=3)
    assert approved.slurm.calls == []
    assert "MinJobAge" in Action.objects.get().detail
    assert approved.recommendation.headline.startswith("Slurm no longer knows this job")
    assert approved.incident.state == IncidentState.WATCHING


def test_a_list_without_the_job_alone_ends_nothing(approved: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be half a list: the question about the job itself is not answered."""

    def silent(job_id: str) -> JobRecord:
        raise SlurmUnreachable("no answer", tried=f"show job {job_id}")

    monkeypatch.setattr(approved.slurm, "job", silent)
    del approved.slurm.table["1"]
    approved.slurm.enter("2")
    approved.tick(times=5)
    assert Action.objects.get().state == ActionState.INTENDED
    assert approved.incident.state == IncidentState.ACTING


def test_a_hold_that_an_admin_puts_on_top_is_not_released(approved: Desk) -> None:
    def admin_holds(operation: str) -> None:
        if operation == "set_excluded_nodes":
            approved.slurm.change("1", state_reason="JobHeldAdmin")

    approved.slurm.after_write = admin_holds
    approved.tick(times=2)
    assert "release" not in approved.slurm.calls
    assert approved.slurm.table["1"].held
    assert approved.incident.state == IncidentState.NEEDS_PERSON


def test_the_jobs_own_exclusions_are_kept(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    desk.submit(excluded_nodes=("n4",), node_count=1)
    desk.tick()
    desk.start(nodes=("n1",))
    desk.train(1, 2)
    desk.save(2)
    desk.tick(times=3)
    desk.say("[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    desk.slurm.end()
    desk.tick(times=8)
    assert desk.slurm.table["1"].excluded_nodes == ("n1", "n4")


def test_paused_automation_stops_an_automatic_action_that_has_not_begun(
    desk: Desk, policy: Policy, operator: object
) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    desk.say(ECC)
    desk.slurm.end()
    desk.tick()
    pauses.pause(desk.cluster.pk, reason="maintenance", actor=actor_for(operator), now=desk.now)  # type: ignore[arg-type]
    desk.tick(times=8)
    assert desk.slurm.calls == []
    assert desk.incident.state == IncidentState.AWAITING_DECISION
    assert "paused" in desk.recommendation.mode_reason.lower()


def test_a_stale_picture_means_no_action(approved: Desk) -> None:
    Cluster.objects.update(error="Unable to contact slurm controller", next_look_at=approved.now + timedelta(hours=1))
    approved.tick(times=3)
    assert approved.slurm.calls == []
    assert "too old" in Action.objects.get().detail


def test_each_call_is_recorded_before_and_after_it_is_made(approved: Desk) -> None:
    approved.tick()
    calls = Action.objects.get().calls
    assert [call["operation"] for call in calls] == OPERATIONS
    assert all(call["result"] == "accepted" and call["command"].startswith("fake ") for call in calls)
    verbs = list(Event.objects.filter(subject_kind="action").order_by("id").values_list("verb", flat=True))
    assert verbs[0] == "action.called"
    assert verbs.count("action.call_ended.requeue_hold") == 1
    assert verbs[-1] == "action.converged"


def test_two_workers_on_one_case_call_the_scheduler_once(approved: Desk, settings: Settings) -> None:
    incident = Incident.objects.get()
    first, second = Incident.objects.get(), Incident.objects.get()
    assert first.take_lease(approved.now)
    assert not second.take_lease(approved.now)
    assert second.take_lease(approved.now + timedelta(seconds=settings.LEASE_S + 1))
    first.give_back(next_look_at=None)  # too late: the lease is somebody else's
    incident.refresh_from_db()
    assert incident.leased_until is not None
