"""The run was submitted anew, or goes on in a chain: the old job is never restarted beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, JobState
from recovery.models import Action, Job, PolicyVersion
from recovery.pipeline import decide
from recovery.pipeline.invalid import Invalid
from tests.pipeline.cases import Case
from tests.pipeline.conftest import ECC, Desk

Policy = Callable[..., PolicyVersion]


def anew(desk: Desk, job_id: str = "2", **fields: Any) -> None:
    """The user submits the run again."""
    desk.submit(job_id, stdout=str(desk.folder / f"job-{job_id}.out"), **fields)


def restarts(desk: Desk) -> list[str]:
    return [call for call in desk.slurm.calls if call != "set_admin_comment"]


def test_nothing_is_recommended_where_the_user_has_queued_the_run_already(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    anew(desk)
    desk.crash_with_ecc()
    desk.tick(times=5)
    assert desk.recommendation.action == ActionKind.NOTHING
    assert "job 2 of this run already waits in the queue" in desk.recommendation.headline
    assert desk.incident.state == IncidentState.WATCHING
    assert desk.slurm.calls == []


def test_when_the_other_job_is_gone_the_case_is_looked_at_again(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    anew(desk)
    desk.crash_with_ecc()
    desk.slurm.end("2", JobState.CANCELLED, 0, "")
    desk.tick(times=4)
    assert desk.recommendation.action == ActionKind.REQUEUE_EXCLUDING
    assert desk.incident.state == IncidentState.AWAITING_DECISION


def test_a_recommendation_is_withdrawn_when_the_user_submits_the_run_again(case: Case) -> None:
    shown = case.desk.recommendation
    anew(case.desk)
    case.desk.tick(times=3)
    assert case.desk.recommendation.action == ActionKind.NOTHING
    with pytest.raises(decide.OutOfDate):
        case.approve(shown)


def test_nobody_approves_it_before_the_case_was_looked_at_again(case: Case) -> None:
    anew(case.desk)
    case.desk.cluster.refresh_from_db()
    case.desk.incident.__class__.objects.update(next_look_at=None)
    case.desk.tick()
    with pytest.raises(decide.OutOfDate, match="Job 2 of this run"):
        case.approve()


def test_a_job_that_appears_between_decision_and_call_is_seen_in_time(case: Case) -> None:
    case.approve()
    anew(case.desk)
    case.desk.cluster.__class__.objects.update(next_look_at=None)  # no picture is taken before the call
    case.desk.tick()
    action = Action.objects.get()
    assert action.state == ActionState.REFUSED
    assert "job 2 of this run already waits" in action.detail
    assert restarts(case.desk) == []


def test_a_person_can_not_propose_a_second_start_either(case: Case) -> None:
    anew(case.desk)
    case.desk.tick(times=3)
    with pytest.raises(Invalid, match="Job 2 of this run already waits"):
        case.propose(ActionKind.REQUEUE)
    assert case.propose(ActionKind.NOTHING).action == ActionKind.NOTHING


def test_a_job_that_ran_beside_the_failed_one_does_not_stand_in_the_way(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    anew(desk)
    desk.slurm.start("2", nodes=("n3",))
    desk.tick(times=2)
    desk.train(13, 14)
    desk.crash_with_ecc()
    assert desk.recommendation.action == ActionKind.REQUEUE_EXCLUDING


def test_the_next_of_a_chain_that_still_waits_is_normal(desk: Desk, policy: Policy, approver: Any) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    anew(desk, state_reason="Dependency")
    desk.crash_with_ecc()
    desk.tick(times=8)
    assert restarts(desk)[0] == "requeue_hold"


def test_the_next_of_a_chain_that_may_start_goes_on_with_the_run(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    anew(desk, state_reason="Dependency")
    desk.crash_with_ecc()
    desk.slurm.change("2", state_reason="Priority")  # afterany: the failed one has ended
    desk.tick(times=8)
    assert restarts(desk) == []
    desk.slurm.start("2", nodes=("n3", "n4"))
    desk.tick(times=2)
    assert desk.incident.state == IncidentState.RESTORING
    assert desk.incident.resolved_by_others


def test_a_resubmission_would_set_the_next_of_a_chain_free(hanging: Case) -> None:
    anew(hanging.desk, state_reason="Dependency")
    hanging.desk.tick(times=2)
    with pytest.raises(Invalid, match="Job 2 of this run waits for another one"):
        hanging.propose(ActionKind.RESUBMIT)


def test_a_job_of_another_user_or_run_does_not_stand_in_the_way(case: Case) -> None:
    anew(case.desk, user="eve")
    anew(case.desk, "3", comment='{"recovery": {"run": "other"}}')
    case.desk.tick(times=3)
    case.approve()
    assert case.settle().state == ActionState.CONVERGED


def test_the_second_component_of_a_heterogeneous_job_is_requeued_by_the_first(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="approve")
    desk.submit("1+0", stdout=str(desk.folder / "first.out"))
    desk.submit("1+1")
    desk.tick()
    desk.slurm.start("1+0", nodes=("n3",))
    desk.start("1+1", nodes=("n1", "n2"))
    desk.tick()
    desk.train(1, 3)
    desk.say(ECC)
    desk.slurm.end("1+1")
    desk.slurm.end("1+0", JobState.COMPLETED, 0, "")
    desk.tick(times=3)
    row = desk.recommendation
    assert (row.action, row.exclude_nodes) == (ActionKind.REQUEUE, [])
    assert row.operations[0] == "fake requeue 1+0"


def test_a_chain_that_was_submitted_within_one_second_goes_on(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    anew(desk, state_reason="Dependency")
    desk.run_with_checkpoint()
    Job.objects.update(first_submitted_at=desk.now)
    desk.crash_with_ecc()
    desk.slurm.start("2", nodes=("n3", "n4"))
    desk.tick(times=3)
    assert restarts(desk) == []
    assert desk.incident.new_attempt is not None
    assert desk.incident.new_attempt.job.job_id == "2"
