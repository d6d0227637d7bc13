"""The whole path, from a fault to the next complete checkpoint, stage by stage in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from recovery.access import actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, DecisionKind, FailureClass, JobState, Mode, Outcome
from recovery.models import Action, Agreement, Cluster, Decision, Event, Incident, PolicyVersion
from recovery.pipeline import decide, reconcile
from recovery.pipeline.report import incident_report
from recovery.slurm.base import HELD_BY_REQUEUE, Operation, SlurmRefused
from tests.pipeline.conftest import ECC, Desk

Policy = Callable[..., PolicyVersion]


def approve(desk: Desk, approver: object) -> Decision | Agreement:
    row = desk.recommendation
    actor = actor_for(approver)  # type: ignore[arg-type]
    return decide.approve(row.pk, shown_hash=row.hash, actor=actor, now=desk.now)


def restart(desk: Desk, *, nodes: tuple[str, ...] = ("n1", "n3"), load: int | None = 10) -> None:
    desk.tick(times=2)
    desk.start(nodes=nodes)
    desk.tick()
    if load is None:
        desk.start_from_scratch()
    else:
        desk.load(load)
    desk.tick()


def test_an_approved_restart_is_followed_to_the_next_checkpoint(desk: Desk, policy: Policy, approver: object) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()

    incident = desk.incident
    assert incident.state == IncidentState.AWAITING_DECISION
    assert incident.failure_class == FailureClass.GPU_HARDWARE
    assert desk.recommendation.action == ActionKind.REQUEUE_EXCLUDING
    assert desk.recommendation.exclude_nodes == ["n2"]
    assert desk.recommendation.restore_step == 10
    assert desk.recommendation.steps_at_stake == 2
    assert desk.slurm.calls == []

    approve(desk, approver)
    desk.tick()
    assert desk.slurm.calls == ["requeue_hold", "set_admin_comment", "set_excluded_nodes", "release"]
    assert desk.slurm.table["1"].excluded_nodes == ("n2",)
    assert desk.incident.state == IncidentState.RESTORING

    restart(desk)
    assert desk.incident.state == IncidentState.AWAITING_CHECKPOINT
    assert desk.incident.restored_step == 10
    assert desk.attempt.places["tracker"]["step"] == 10  # noted though nothing in the folder had changed

    desk.train(11, 19)
    assert desk.incident.state == IncidentState.AWAITING_CHECKPOINT
    desk.step(20)
    desk.save(20)
    desk.tick(times=4)

    incident = desk.incident
    assert incident.state == IncidentState.CLOSED
    assert incident.outcome == Outcome.RECOVERED
    assert incident.next_checkpoint_step == 20
    report = incident_report(incident, now=timezone.now())
    assert report.steps_lost == 2
    assert report.total_s is not None
    assert report.total_s > 0
    assert desk.slurm.calls.count("requeue_hold") == 1


def test_an_automatic_policy_needs_no_click_and_waits_for_late_facts(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    desk.say(ECC)
    desk.slurm.end()
    desk.tick()
    assert desk.incident.state == IncidentState.RECOMMENDED
    desk.tick_until(lambda: desk.incident.state == IncidentState.RESTORING)
    assert Decision.objects.get().kind == DecisionKind.AUTO
    restart(desk)
    desk.train(11, 19)
    desk.save(20)
    desk.tick(times=4)
    assert desk.incident.outcome == Outcome.RECOVERED


def test_a_fresh_installation_observes_and_does_nothing(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick(times=5)
    assert desk.incident.state == IncidentState.WATCHING
    assert desk.recommendation.mode == Mode.OBSERVE
    assert desk.slurm.calls == []
    assert not Action.objects.exists()


def test_what_the_back_end_has_no_call_for_is_left_to_a_person_and_verified(desk: Desk, policy: Policy) -> None:
    """As with slurmrestd before 26.05 alone: it can't put a job back into the queue."""
    policy(gpu_hardware="auto")
    desk.slurm.denied |= {Operation.REQUEUE, Operation.REQUEUE_HOLD}
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick_until(lambda: desk.incident.state == IncidentState.WATCHING)
    said = desk.recommendation
    assert (said.action, said.operations, said.headline[:20]) == (ActionKind.NOTHING, [], "To do by hand: Reque")
    assert "This controller has no requeue_hold. Use another back end." in said.reasons[-1]
    assert not any("by Slurm's default" in reason for reason in said.reasons)
    desk.slurm.denied.clear()
    desk.slurm.requeue("1", hold=False)  # the administrator, by hand
    restart(desk)
    desk.train(11, 19)
    desk.save(20)
    desk.tick(times=4)
    assert (desk.incident.outcome, desk.incident.resolved_by_others) == (Outcome.RECOVERED, True)
    reconcile.work_on_incident(desk.incident.pk, client_for=lambda cluster: desk.slurm, clock=lambda: desk.now)
    assert (desk.incident.error, desk.incident.next_look_at) == ("", None)  # it was closed since it was found due


def test_a_new_policy_asks_again_about_a_case_that_was_only_observed(desk: Desk, policy: Policy) -> None:
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    policy(gpu_hardware="approve")
    desk.tick(times=3)
    assert desk.incident.state == IncidentState.AWAITING_DECISION


def test_a_hang_is_restarted_after_approval(desk: Desk, policy: Policy, approver: object) -> None:
    policy(hang_silent="approve")
    desk.run_with_checkpoint()
    desk.tick_until(lambda: Incident.objects.exists(), within=90)
    desk.tick()
    assert desk.incident.failure_class == FailureClass.HANG_SILENT
    assert desk.recommendation.action == ActionKind.REQUEUE
    approve(desk, approver)
    desk.tick(times=2)
    assert desk.slurm.calls == ["set_admin_comment", "requeue"]
    restart(desk, nodes=("n1", "n2"))
    desk.train(11, 19)
    desk.save(20)
    desk.tick(times=4)
    assert Incident.objects.count() == 1
    assert desk.incident.outcome == Outcome.RECOVERED


def test_a_hang_that_moves_again_is_a_false_alarm_and_nothing_is_done(desk: Desk, policy: Policy) -> None:
    policy(hang_silent="approve")
    desk.run_with_checkpoint()
    desk.tick_until(lambda: Incident.objects.exists(), within=90)
    desk.step(13)
    desk.tick(times=2)
    assert desk.incident.outcome == Outcome.FALSE_ALARM
    assert desk.slurm.calls == []


def test_a_traceback_is_not_restarted_whatever_the_policy(desk: Desk, policy: Policy) -> None:
    policy(user_code="auto")
    desk.run_with_checkpoint()
    desk.say(
        "n1:100:100 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0",
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "train.py", line 7, in <module>',
        "[rank0]: KeyError: 'tokens'",
    )
    desk.slurm.end()
    desk.tick(times=8)
    assert desk.incident.failure_class == FailureClass.USER_CODE
    assert desk.recommendation.action == ActionKind.NOTHING
    assert desk.incident.state == IncidentState.WATCHING
    assert desk.slurm.calls == []
    assert desk.incident.diagnosis["coverage"]["ranks"] == "lines of rank 0 read, of 2; nothing of rank 1"


def test_a_job_that_its_user_cancelled_is_never_restarted(desk: Desk, policy: Policy) -> None:
    policy(external_cancel="auto", unknown="auto")
    desk.run_with_checkpoint()
    desk.slurm.end(state=JobState.CANCELLED, exit_code=0, reason="None")
    desk.tick(times=8)
    assert desk.incident.outcome == Outcome.STOPPED_ON_PURPOSE
    assert not desk.incident.recommendations.exists()
    assert desk.slurm.calls == []


def test_a_restart_from_scratch_is_an_alarm_and_does_not_close(desk: Desk, policy: Policy, approver: object) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    approve(desk, approver)
    desk.tick()
    restart(desk, load=None)
    desk.train(1, 5)
    incident = desk.incident
    assert incident.state == IncidentState.NEEDS_PERSON
    assert "from scratch" in incident.alarm
    desk.save(20)
    desk.tick(times=4)
    assert desk.incident.state == IncidentState.NEEDS_PERSON


def test_an_older_checkpoint_than_expected_is_an_alarm(desk: Desk, policy: Policy, approver: object) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    approve(desk, approver)
    desk.tick()
    restart(desk, load=5)
    assert desk.incident.state == IncidentState.NEEDS_PERSON
    assert "older" in desk.incident.alarm


def test_a_case_with_an_alarm_goes_on_when_somebody_starts_the_run_again(
    desk: Desk, policy: Policy, approver: object
) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    approve(desk, approver)
    desk.tick()
    restart(desk, load=None)
    desk.slurm.requeue("1", hold=False)
    restart(desk)
    assert desk.incident.state == IncidentState.AWAITING_CHECKPOINT


def test_a_case_whose_action_failed_goes_on_when_somebody_restarts_the_run(
    desk: Desk, policy: Policy, approver: object
) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()

    def refuse(operation: str) -> None:
        raise SlurmRefused("Access/permission denied", tried=f"scontrol {operation} 1", permanent=True)

    desk.slurm.before_write = refuse
    approve(desk, approver)
    desk.tick(times=3)
    assert desk.incident.state == IncidentState.NEEDS_PERSON
    desk.slurm.before_write = None
    desk.slurm.requeue("1", hold=False)  # the administrator, by hand
    restart(desk)
    assert desk.incident.state == IncidentState.AWAITING_CHECKPOINT
    assert desk.incident.resolved_by_others
    desk.train(11, 19)
    desk.save(20)
    desk.tick(times=4)
    assert desk.incident.outcome == Outcome.RECOVERED


def test_a_released_job_that_is_held_again_is_left_to_a_person_and_goes_on_when_it_starts(
    desk: Desk, policy: Policy
) -> None:
    """A controller that is killed within seconds of a release comes back without it."""
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick_until(lambda: desk.incident.state == IncidentState.RESTORING)
    desk.slurm.change("1", held=True, state_reason=HELD_BY_REQUEUE)
    calls = list(desk.slurm.calls)
    desk.tick_until(lambda: desk.incident.state == IncidentState.NEEDS_PERSON)
    assert "scontrol release 1" in desk.incident.alarm
    assert desk.slurm.calls == calls
    desk.slurm.change("1", held=False, state_reason="Resources")
    desk.start(nodes=("n1", "n3"))
    desk.load(10)
    desk.tick_until(lambda: desk.incident.state == IncidentState.AWAITING_CHECKPOINT)
    assert desk.incident.alarm == ""


def test_a_second_failure_before_the_next_checkpoint_ends_the_case_without_success(
    desk: Desk, policy: Policy, approver: object
) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    approve(desk, approver)
    desk.tick()
    restart(desk)
    desk.train(11, 12)
    desk.say("[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    desk.slurm.end()
    desk.tick(times=3)
    first, second = Incident.objects.order_by("pk")
    assert first.outcome == Outcome.SAME_FAILURE
    assert "Don't restart it again as it is: it fails at step 12 each time." in first.advice
    assert second.previous_id == first.pk
    assert second.attempt.number == 1


def test_the_same_failure_at_the_same_step_stops_automation(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick_until(lambda: desk.incident.state == IncidentState.RESTORING)
    restart(desk)
    desk.train(11, 12)
    desk.say("[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    desk.slurm.end()
    desk.tick(times=10)
    assert Incident.objects.count() == 2
    assert desk.recommendation.action == ActionKind.NOTHING
    assert "step 12 before" in desk.incident.reason
    assert desk.slurm.calls.count("requeue_hold") == 1


def test_a_node_failure_that_slurm_requeues_itself_is_watched_to_the_next_checkpoint(
    desk: Desk, policy: Policy
) -> None:
    policy(node_fault="auto")
    desk.run_with_checkpoint()
    desk.slurm.lose_node("n2")
    desk.slurm.end(state=JobState.NODE_FAIL, exit_code=0, reason="NodeDown")
    desk.slurm.requeue("1", hold=False)
    desk.slurm.calls.clear()
    desk.tick(times=3)
    assert desk.incident.failure_class == FailureClass.NODE_FAULT
    assert desk.recommendation.action == ActionKind.NOTHING
    restart(desk)
    desk.train(11, 19)
    desk.save(20)
    desk.tick(times=4)
    assert desk.incident.outcome == Outcome.RECOVERED
    assert desk.incident.resolved_by_others
    assert desk.slurm.calls == []


def test_a_job_that_slurm_is_about_to_requeue_after_a_lost_node_is_left_to_slurm(desk: Desk, policy: Policy) -> None:
    policy(node_fault="auto")
    desk.run_with_checkpoint()
    desk.tick_until(lambda: Incident.objects.exists(), within=90)  # it hangs: nobody noticed yet that a node is gone
    desk.slurm.lose_node("n2")
    desk.tick()
    assert desk.incident.failure_class == FailureClass.NODE_FAULT
    desk.slurm.requeue("1", hold=False)  # Slurm itself, in the next moment
    desk.slurm.calls.clear()
    desk.tick(times=4)
    assert desk.slurm.calls == []
    assert desk.recommendation.action == ActionKind.NOTHING


def test_a_node_that_goes_down_after_the_crash_changes_the_verdict(desk: Desk, policy: Policy) -> None:
    policy(node_fault="auto")
    desk.run_with_checkpoint()
    desk.say("[rank0]: torch.distributed.DistBackendError: NCCL error: ncclRemoteError: remote process exited")
    desk.slurm.end()
    desk.tick(times=2)
    assert desk.incident.failure_class != FailureClass.NODE_FAULT
    assert desk.slurm.calls == []
    desk.slurm.lose_node("n2")
    desk.tick_until(lambda: desk.incident.state == IncidentState.RESTORING)
    assert desk.incident.failure_class == FailureClass.NODE_FAULT
    assert "requeue" in desk.slurm.calls[0]


def test_every_change_of_a_case_is_one_event_with_its_reason(desk: Desk, policy: Policy, approver: object) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    approve(desk, approver)
    desk.tick()
    moves = Event.objects.filter(subject_kind="incident").order_by("id")
    assert [event.new for event in moves] == [
        IncidentState.DETECTED,
        IncidentState.DIAGNOSED,
        IncidentState.RECOMMENDED,
        IncidentState.AWAITING_DECISION,
        IncidentState.ACTING,
        IncidentState.RESTORING,
    ]
    assert all(event.reason for event in moves)
    assert moves[4].actor_name == "approver"
    assert Action.objects.get().state == ActionState.CONVERGED


def test_a_comment_cannot_join_another_users_run(desk: Desk) -> None:
    desk.submit("1")
    desk.submit("2", user="mallory")
    desk.tick()
    assert len({job.run_id for job in desk.cluster.jobs.all()}) == 2


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"health_at": None}, False),
        ({"min_job_age_s": None, "requeue_delay_s": 121}, False),
        ({"min_job_age_s": None, "requeue_delay_s": 6}, True),
        ({"min_job_age_s": 300, "requeue_delay_s": 121}, True),
    ],
)
def test_a_requeue_delay_that_is_only_assumed_is_said_to_be(fields: dict[str, Any], told: bool) -> None:
    """slurmrestd's health tells neither the delay nor MinJobAge."""
    assert Cluster(**{"health_at": timezone.now(), **fields}).tells_its_delay is told
