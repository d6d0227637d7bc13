"""Slurm drops an ended job after MinJobAge, while the question about it is still open."""

from __future__ import annotations

import pytest

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, JobState
from recovery.models import Decision
from recovery.pipeline.decide import OutOfDate
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


def test_nobody_approves_what_takes_a_job_that_slurm_has_dropped(case: Case) -> None:
    drop(case)
    poll(case.desk)
    with pytest.raises(OutOfDate, match="it can only be submitted again"):
        case.approve()
    assert not Decision.objects.exists()


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
