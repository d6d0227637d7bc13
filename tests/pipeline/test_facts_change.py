"""Between a finding, a decision and a call the world goes on: what was true is asked again before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from pytest_django import Settings

from recovery.access import actor_for
from recovery.core.blindness import MUTE
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import FindingKind, JobState, Outcome
from recovery.models import Action, Attempt, Cluster, Incident, Job, PolicyVersion
from recovery.pipeline import decide, pauses
from tests.pipeline.conftest import ECC, Desk
from tests.pipeline.fake_slurm import no_answer

Policy = Callable[..., PolicyVersion]


def hang(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.tick_until(Incident.objects.exists, within=90)


def approve(desk: Desk, user: object) -> None:
    row = desk.recommendation
    decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(user), now=desk.now)  # type: ignore[arg-type]


def test_a_hang_that_resolves_itself_before_the_automatic_call_is_not_restarted(
    desk: Desk, policy: Policy, settings: Settings
) -> None:
    settings.SETTLE_S = 10
    policy(hang_silent="auto")
    hang(desk)
    desk.step(13)
    desk.tick(times=20)
    assert desk.slurm.calls == []
    assert Incident.objects.first().outcome == Outcome.FALSE_ALARM  # type: ignore[union-attr]


def test_a_hung_job_that_completes_after_the_approval_is_not_requeued(
    desk: Desk, policy: Policy, approver: object
) -> None:
    policy(hang_silent="approve")
    hang(desk)
    desk.tick()
    approve(desk, approver)
    desk.slurm.end(state=JobState.COMPLETED, exit_code=0, reason="")
    desk.tick(times=4)
    assert desk.slurm.calls == []


def test_after_a_refusal_nothing_is_proposed_until_slurm_was_seen_again(
    desk: Desk, policy: Policy, settings: Settings
) -> None:
    policy(hang_silent="auto")
    hang(desk)
    desk.slurm.end()
    # a worker that was killed in the middle of a poll: nobody looks until its lease runs out
    Cluster.objects.update(leased_until=desk.now + timedelta(seconds=30))
    desk.tick_until(lambda: Action.objects.filter(state=ActionState.REFUSED).exists())
    desk.tick(times=5)
    assert Action.objects.count() == 1
    assert desk.incident.state == IncidentState.DETECTED
    desk.tick_until(lambda: desk.incident.kind == FindingKind.CRASH)
    assert desk.slurm.calls == []


def test_a_call_that_had_no_effect_is_not_repeated_on_a_job_that_trains_again(
    desk: Desk, policy: Policy, approver: object
) -> None:
    policy(hang_silent="approve")
    hang(desk)
    desk.tick()

    def lose(operation: str) -> None:
        raise no_answer()

    desk.slurm.before_write = lose
    approve(desk, approver)
    desk.tick()
    desk.slurm.before_write = None
    desk.train(13, 60)
    assert desk.slurm.calls == []


def test_a_restart_of_the_workers_within_the_attempt_is_progress(desk: Desk, policy: Policy) -> None:
    policy(hang_silent="auto")
    desk.run_with_checkpoint()
    desk.train(13, 40)
    desk.load(10)  # the launcher started its workers anew
    desk.train(11, 38)
    desk.tick(times=5)
    assert not Incident.objects.exists()


def test_a_log_that_grows_in_an_unknown_format_is_blind_and_not_hung(desk: Desk, settings: Settings) -> None:
    settings.HANG_FIRST_STEP_S = 60
    desk.submit()
    desk.start()
    for number in range(60):
        desk.say(f"working on shard {number} of many")
        desk.tick()
    assert "known format" in Attempt.objects.get().blind_reason
    assert not Incident.objects.exists()


def test_lightning_with_a_bar_that_leaves_nothing_in_the_log_is_blind_and_not_hung(
    desk: Desk, settings: Settings
) -> None:
    settings.HANG_FIRST_STEP_S = 60
    desk.submit()
    desk.start()
    desk.say("GPU available: True (cuda), used: True")
    desk.say("┃   ┃ Name  ┃ Type   ┃ Params ┃ Mode  ┃")
    desk.tick(times=60)
    attempt = Attempt.objects.get()
    assert attempt.blind_reason == MUTE
    assert "TQDMProgressBar" in attempt.blind_remedy
    assert not Incident.objects.exists()


def test_a_silent_job_that_never_asked_to_be_watched_is_not_hung(desk: Desk, settings: Settings) -> None:
    settings.HANG_FIRST_STEP_S = 20
    desk.submit(comment="")
    desk.start()
    desk.tick(times=60)
    assert not Incident.objects.exists()


def test_lines_of_the_attempt_before_prove_no_restore(desk: Desk, policy: Policy, approver: object) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    approve(desk, approver)
    desk.tick(times=2)
    desk.step(12)  # the old attempt's last words, appended late and long before the new one starts
    desk.load(10)
    desk.now += timedelta(minutes=1)
    desk.slurm.start(nodes=("n1", "n3"))
    desk.step(1)
    desk.start_from_scratch()
    desk.tick(times=3)
    assert desk.incident.state == IncidentState.NEEDS_PERSON


def test_a_job_that_ran_beside_the_failed_one_is_not_its_restart(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.submit("2", stdout=str(desk.folder / "other.out"))
    desk.slurm.start("2", nodes=("n3", "n4"))
    desk.tick(times=2)
    desk.crash_with_ecc()
    desk.tick(times=3)
    assert desk.incident.state == IncidentState.AWAITING_DECISION


def test_a_running_job_that_somebody_holds_is_not_put_back_and_released(
    desk: Desk, policy: Policy, approver: object
) -> None:
    policy(hang_silent="approve")
    hang(desk)
    desk.tick()
    approve(desk, approver)
    desk.slurm.change("1", state_reason="JobHeldAdmin")
    desk.tick(times=4)
    assert desk.slurm.calls == []


def test_what_a_person_rejected_is_not_done_by_policy_later(
    desk: Desk, policy: Policy, approver: object, admin: object
) -> None:
    policy(gpu_hardware="auto")
    pauses.pause(desk.cluster.pk, reason="maintenance", actor=actor_for(approver), now=desk.now)  # type: ignore[arg-type]
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick(times=4)
    row = desk.recommendation
    decide.reject(row.pk, shown_hash=row.hash, actor=actor_for(approver), reason="mine", now=desk.now)  # type: ignore[arg-type]
    pauses.arm(desk.cluster.pk, reason="done", actor=actor_for(admin), now=desk.now)  # type: ignore[arg-type]
    desk.slurm.change("1", requeueable=False)
    desk.tick(times=4)
    desk.slurm.change("1", requeueable=True)
    desk.tick(times=8)
    assert desk.slurm.calls == []


def test_too_few_nodes_left_at_the_call_refuse_the_exclusion(desk: Desk, policy: Policy, approver: object) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    approve(desk, approver)
    for name in ("n3", "n4"):
        desk.slurm.lose_node(name)
    desk.tick(times=2)
    assert desk.slurm.calls == []
    assert "eligible nodes" in Action.objects.get().detail


@pytest.mark.parametrize("field", ["stdout", "work_dir", "account", "partition"])
def test_one_jobs_long_text_does_not_blind_the_cluster(desk: Desk, field: str) -> None:
    desk.submit("1", **{field: "/" + "x" * 3000})
    desk.submit("2", name="other")
    desk.tick()
    assert Job.objects.count() == 2


def test_a_run_that_completes_without_another_checkpoint_is_not_called_recovered(
    desk: Desk, policy: Policy, approver: object
) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.say(ECC)
    desk.slurm.end()
    desk.tick(times=3)
    approve(desk, approver)
    desk.tick(times=3)
    desk.start(nodes=("n1", "n3"))
    desk.load(10)
    desk.train(11, 14)
    desk.slurm.end(state=JobState.COMPLETED, exit_code=0, reason="")
    desk.tick(times=4)
    assert desk.incident.outcome == Outcome.STOPPED_ON_PURPOSE
    assert "no further checkpoint" in desk.incident.outcome_reason
