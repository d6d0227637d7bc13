"""A hold that somebody else placed is never released, also on a job that we held before."""

from __future__ import annotations

from recovery.core.lifecycle import ActionState
from recovery.core.types import ActionKind, JobState
from recovery.models import Action
from recovery.pipeline import propose
from recovery.pipeline.subject import held_by_us
from tests.pipeline.cases import Case


def held(case: Case) -> Action:
    """Our hold on the running job, which Slurm has put back since."""
    action = case.do(ActionKind.HOLD)
    assert action.state == ActionState.CONVERGED
    case.desk.slurm.requeue("1", hold=False)
    case.desk.slurm.change("1", held=True, state_reason="JobHeldAdmin")
    case.desk.tick(times=2)
    return action


def hold_of_an_admin(case: Case) -> None:
    case.desk.slurm.change("1", state=JobState.PENDING, held=True, state_reason="JobHeldAdmin")
    case.desk.tick(times=2)


def job_is_ours(case: Case) -> bool:
    job = case.desk.incident.attempt.job
    job.refresh_from_db()
    return held_by_us(job)


def test_our_hold_on_a_running_job_is_ours_when_it_takes_effect(hanging: Case) -> None:
    action = held(hanging)
    assert job_is_ours(hanging)
    assert propose.undoing(action, now=hanging.desk.now) is not None


def test_a_hold_on_a_job_that_was_let_go_and_ran_is_not_ours(hanging: Case) -> None:
    action = held(hanging)
    hanging.desk.slurm.release("1")
    hanging.desk.start()
    hanging.desk.tick(times=2)
    hanging.desk.slurm.requeue("1", hold=False)
    hold_of_an_admin(hanging)
    assert not job_is_ours(hanging)
    assert propose.undoing(action, now=hanging.desk.now) is None


def test_a_hold_that_we_released_is_not_ours_again_when_an_admin_holds_the_job(hanging: Case) -> None:
    action = held(hanging)
    hanging.do(ActionKind.RELEASE)  # as a proposal of its own, which names no action that it undoes
    hold_of_an_admin(hanging)
    assert propose.undoing(action, now=hanging.desk.now) is None
