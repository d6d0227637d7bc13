"""A job is cancelled and submitted again: one new job, whatever is lost or killed in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, JobState, Outcome
from recovery.models import Action, BatchScript, Incident, PolicyVersion
from recovery.pipeline.invalid import Invalid
from tests.pipeline.cases import SCRIPT, Case
from tests.pipeline.conftest import Desk
from tests.pipeline.fake_slurm import no_answer

Policy = Callable[..., PolicyVersion]


class Killed(BaseException):
    """The process dies here."""


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
