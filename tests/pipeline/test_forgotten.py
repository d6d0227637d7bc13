"""Slurm drops an ended job after MinJobAge, while the question about it is still open."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, JobState
from recovery.models import Action, Attempt, Decision
from recovery.pipeline.decide import OutOfDate
from recovery.slurm.base import SlurmUnreachable
from tests.pipeline.cases import Case
from tests.pipeline.polling import poll


def drop(case: Case) -> None:
    case.desk.slurm.enter("9", state=JobState.COMPLETED, comment="")  # so that the next id is a new one
    del case.desk.slurm.table["1"]


def test_once_slurm_has_dropped_the_job_it_is_to_be_submitted_again(case: Case) -> None:
    desk = case.desk
    requeue = desk.recommendation
    assert requeue.action == ActionKind.REQUEUE_EXCLUDING
    drop(case)
    desk.tick(times=3)
    asked = desk.recommendation
    assert (asked.action, asked.parameters["forgotten"]) == (ActionKind.RESUBMIT, True)
    assert asked.exclude_nodes == requeue.exclude_nodes
    assert desk.incident.state == IncidentState.AWAITING_DECISION
    case.approve()
    action = case.settle()
    assert action.state == ActionState.CONVERGED, action.detail
    assert [job for job in desk.slurm.table if job != "9"]


def test_how_long_slurm_keeps_an_ended_job_is_stored_with_the_rest_of_its_configuration(case: Case) -> None:
    attempt = case.desk.incident.attempt
    assert attempt.ended_at is not None
    assert attempt.job.cluster.min_job_age_s == 300
    assert attempt.forgotten_at == attempt.ended_at + timedelta(seconds=300)
    drop(case)
    poll(case.desk)
    assert Attempt.objects.get(pk=attempt.pk).forgotten_at is None


def test_nobody_approves_what_takes_a_job_that_slurm_has_dropped(case: Case) -> None:
    drop(case)
    poll(case.desk)
    with pytest.raises(OutOfDate, match="it can only be submitted again"):
        case.approve()
    assert not Decision.objects.exists()


@pytest.mark.parametrize("action", [ActionKind.REQUEUE, ActionKind.RESUBMIT])
def test_what_was_decided_ends_when_slurm_drops_the_job_before_it_is_begun(case: Case, action: ActionKind) -> None:
    """It would wait in vain until its time is over: the controller answers, and knows no such job."""
    desk = case.desk
    case.approve(case.propose(action))
    drop(case)
    desk.tick(times=2)
    done = Action.objects.latest("pk")
    assert (done.state, done.calls) == (ActionState.REFUSED, [])
    assert done.detail == (
        "Nothing was done: Slurm has dropped the job, which has ended (MinJobAge): the case is looked at again."
    )
    desk.tick(times=3)
    asked = desk.recommendation
    assert (asked.action, asked.parameters["forgotten"]) == (ActionKind.RESUBMIT, True)


def test_a_controller_that_does_not_answer_has_dropped_nothing(case: Case) -> None:
    case.approve(case.propose(ActionKind.REQUEUE))
    drop(case)
    case.desk.slurm.silent = SlurmUnreachable("no answer", tried="squeue")
    case.desk.tick(times=5)
    assert Action.objects.latest("pk").state == ActionState.INTENDED


@pytest.mark.parametrize("action", [ActionKind.REQUEUE, ActionKind.RESUBMIT])
def test_a_persons_proposal_gives_way_too(case: Case, action: ActionKind) -> None:
    row = case.propose(action)
    drop(case)
    case.desk.tick(times=4)
    row.refresh_from_db()
    assert row.superseded_at is not None
    assert case.desk.recommendation.parameters["forgotten"]


def test_where_its_script_is_not_known_that_is_said_once(case: Case) -> None:
    drop(case)
    case.desk.slurm.scripts.clear()
    case.desk.incident.attempt.job.batch_script.delete()
    case.desk.tick(times=3)
    row = case.desk.recommendation
    assert row.action == ActionKind.NOTHING
    assert row.headline.startswith("Slurm no longer knows this job")
    case.desk.tick(times=3)
    assert case.desk.recommendation == row
