"""What a call rests on is read at the call: what people changed since our last picture is kept, never overwritten."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, Finding, FindingKind
from recovery.models import Attempt, Checkpoint, Cluster, Incident, PolicyVersion
from recovery.pipeline import scripts, watch
from recovery.pipeline.beside import keep_for_later
from recovery.pipeline.scripts import find_submitted
from recovery.pipeline.subject import held_by_us
from recovery.slurm.base import SlurmError, SlurmRefused
from tests.pipeline.cases import SCRIPT, Case
from tests.pipeline.conftest import Desk
from tests.pipeline.fake_slurm import no_answer

Policy = Callable[..., PolicyVersion]


@pytest.fixture
def unseen(case: Case) -> Case:
    """From here on no picture is taken for a minute: only what an action itself reads is fresh."""
    Cluster.objects.update(poll_interval_s=60)
    case.desk.tick()
    return case


# --- exclusions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("since", [(), ("n4",)], ids=["lifted", "added"])
def test_an_exclusion_that_somebody_changed_since_the_picture_is_kept(
    desk: Desk, policy: Policy, operator: Any, approver: Any, since: tuple[str, ...]
) -> None:
    policy(gpu_hardware="approve")
    desk.submit(excluded_nodes=("n3",), node_count=1)
    desk.tick()
    desk.start(nodes=("n1",))
    desk.train(1, 2)
    desk.say("[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    desk.slurm.end()
    desk.tick_until(lambda: Incident.objects.filter(state=IncidentState.AWAITING_DECISION).exists())
    case = Case(desk, operator, approver)
    Cluster.objects.update(poll_interval_s=60)
    desk.tick()

    def somebody(operation: str) -> None:
        if operation == "requeue_hold":
            desk.slurm.change("1", excluded_nodes=since)

    desk.slurm.after_write = somebody
    case.approve()
    assert case.settle().state == ActionState.CONVERGED
    assert desk.slurm.table["1"].excluded_nodes == tuple(sorted({*since, "n1"}))


def test_nodes_that_its_user_excluded_since_the_picture_count_before_anything_is_done(unseen: Case) -> None:
    """Two of four are needed: without n2, and n3 and n4, there is one."""
    unseen.desk.slurm.change("1", excluded_nodes=("n3", "n4"))
    unseen.approve()
    action = unseen.settle()
    assert action.state == ActionState.REFUSED
    assert "only 1 eligible nodes would remain" in action.detail
    assert unseen.desk.slurm.calls == []


def test_the_job_is_submitted_again_as_it_is_now(unseen: Case) -> None:
    desk = unseen.desk
    row = unseen.propose(ActionKind.RESUBMIT)
    desk.slurm.change("1", time_limit_s=7200.0, partition="long", excluded_nodes=("n4",), qos="high")
    unseen.approve(row)
    assert unseen.settle().state == ActionState.CONVERGED
    (new,) = [record for job_id, record in desk.slurm.table.items() if job_id != "1"]
    assert (new.time_limit_s, new.excluded_nodes) == (7200.0, ("n4",))
    assert "#SBATCH --qos=high" in desk.slurm.scripts[new.job_id]


# --- restore older ----------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_is_gone_since_the_last_look_is_not_what_the_tracker_is_made_to_name(case: Case) -> None:
    desk = case.desk
    tracker = desk.checkpoints / "latest_checkpointed_iteration.txt"
    tracker.write_text("20")
    desk.tick_until(lambda: desk.attempt.closed_at is not None)
    case.approve(case.propose(ActionKind.RESTORE_OLDER, step=10))
    (desk.checkpoints / "iter_0000010" / "mp_rank_01" / "model_optim_rng.pt").unlink()
    assert Checkpoint.objects.get(step=10).state == "complete"
    action = case.settle()
    assert (action.state, tracker.read_text()) == (ActionState.REFUSED, "20")
    assert "no longer complete" in action.detail
    assert "requeue" not in desk.slurm.calls


def test_where_somebody_has_pointed_the_tracker_there_since_not_half_of_what_was_approved_is_done(case: Case) -> None:
    tracker = case.desk.checkpoints / "latest_checkpointed_iteration.txt"
    tracker.write_text("20")
    row = case.propose(ActionKind.RESTORE_OLDER, step=10)
    assert any(line.startswith("write 10 to") for line in row.operations)
    case.approve(row)
    tracker.write_text("10")
    assert case.settle().state == ActionState.REFUSED
    assert "requeue" not in case.desk.slurm.calls
    case.desk.tick_until(lambda: case.desk.incident.state == IncidentState.AWAITING_DECISION)
    assert not any(line.startswith("write") for line in case.desk.recommendation.operations)


# --- holds ------------------------------------------------------------------------------------------------------------


def held(case: Case) -> None:
    """Our hold on the hanging job takes effect when Slurm puts it back."""
    assert case.do(ActionKind.HOLD).state == ActionState.CONVERGED
    case.desk.slurm.requeue("1", hold=False)
    case.desk.slurm.change("1", held=True, state_reason="JobHeldAdmin")
    case.desk.tick(times=2)


def test_our_hold_is_ours_no_more_at_the_call_where_the_job_has_run_since_it_was_approved(hanging: Case) -> None:
    desk = hanging.desk
    held(hanging)
    row = hanging.propose(ActionKind.RELEASE)
    assert row.parameters["of"] == "us"
    hanging.approve(row)
    Attempt.objects.filter(job__job_id="1", number=0).update(started_at=desk.now)  # as a late answer of accounting
    assert hanging.settle().state == ActionState.REFUSED
    assert "release" not in desk.slurm.calls
    assert desk.slurm.table["1"].held


def test_the_hold_on_a_job_that_took_the_place_of_the_failed_one_is_known_as_ours(hanging: Case) -> None:
    desk = hanging.desk
    assert hanging.do(ActionKind.RESUBMIT).state == ActionState.CONVERGED
    desk.tick(times=3)
    new = Attempt.objects.exclude(job__job_id="1").get().job
    assert hanging.do(ActionKind.HOLD).state == ActionState.CONVERGED
    desk.tick(times=2)
    new.refresh_from_db()
    assert held_by_us(new)
    old = Attempt.objects.filter(job__job_id="1").latest("number").job
    old.state_reason = "JobHeldAdmin"
    assert not held_by_us(old), "it was the other job that we held"
    assert hanging.do(ActionKind.RELEASE).state == ActionState.CONVERGED


# --- our copy among others --------------------------------------------------------------------------------------------


def lose_the_answer(case: Case) -> None:
    def lose(operation: str) -> None:
        if operation == "submit":
            raise no_answer()

    case.desk.slurm.after_write = lose
    case.approve(case.propose(ActionKind.RESUBMIT))


def test_our_copy_is_found_among_many_newer_jobs_of_the_same_name(hanging: Case) -> None:
    slurm = hanging.desk.slurm

    def lose(operation: str) -> None:
        if operation == "submit":
            slurm.change("2", admin_comment="")  # as where we may write none
            for number in range(100, 200):
                slurm.enter(str(number), submitted_at=hanging.desk.now + timedelta(seconds=1))
                slurm.scripts[str(number)] = SCRIPT
            raise no_answer()

    slurm.after_write = lose
    hanging.approve(hanging.propose(ActionKind.RESUBMIT))
    assert hanging.settle().state == ActionState.CONVERGED
    assert slurm.calls.count("submit") == 1


def test_our_copy_is_found_though_it_was_renamed_and_a_job_without_a_script_lies_beside_it(hanging: Case) -> None:
    slurm = hanging.desk.slurm

    def lose(operation: str) -> None:
        if operation == "submit":
            slurm.change("2", admin_comment="", name="mine")
            slurm.enter("3", name="interactive")
            raise no_answer()

    slurm.after_write = lose
    hanging.approve(hanging.propose(ActionKind.RESUBMIT))
    assert hanging.settle().state == ActionState.CONVERGED
    assert slurm.calls.count("submit") == 1


def test_where_there_are_too_many_to_look_into_nothing_is_concluded(
    hanging: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = hanging.desk
    monkeypatch.setattr(scripts, "MOST_READ", 2)
    for number in ("7", "8", "9"):
        desk.slurm.enter(number)
        desk.slurm.scripts[number] = SCRIPT
    with pytest.raises(SlurmError, match="more than 2 others"):
        find_submitted(desk.attempt, "no-such-key", since=desk.now, client=desk.slurm)


def test_a_script_of_the_same_name_that_can_not_be_read_is_no_proof_that_it_is_not_ours(hanging: Case) -> None:
    desk = hanging.desk
    desk.slurm.enter("7")
    with pytest.raises(SlurmRefused):
        find_submitted(desk.attempt, "no-such-key", since=desk.now, client=desk.slurm)


# --- what is kept for later -------------------------------------------------------------------------------------------


def test_a_failure_that_waits_for_another_case_is_looked_at_though_slurm_forgot_the_job_long_ago(case: Case) -> None:
    desk = case.desk
    incident = desk.incident
    desk.submit("2")
    desk.tick(times=2)
    other = Attempt.objects.get(job__job_id="2")
    other.job.vanished_at = desk.now - 2 * watch.VANISHED
    finding = Finding(kind=FindingKind.CRASH, since=desk.now, reason="It failed too.", confidence=1.0)
    keep_for_later(incident, other, finding, now=desk.now)
    assert watch._next_look_at_attempt(other, now=desk.now) is not None
    Incident.objects.update(state=IncidentState.CLOSED, outcome="gave_up", closed_at=desk.now)
    assert watch._next_look_at_attempt(other, now=desk.now) is None
    assert Attempt.objects.get(pk=other.pk).closed_at == desk.now
