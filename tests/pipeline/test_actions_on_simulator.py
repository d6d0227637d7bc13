"""Actions that people propose, on the simulated cluster in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from recovery.access import actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, JobState, Outcome
from recovery.models import Action
from recovery.pipeline import propose
from recovery.slurm.simulator import Fault, FaultKind
from tests.pipeline.sim_desk import RHYTHM, SimDesk, make_policy


@pytest.fixture
def hung(db: None, tmp_path: Path, settings: Settings) -> SimDesk:
    """A job that stands still at step 33 and waits for a decision."""
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    for name, value in RHYTHM.items():
        setattr(settings, name, value)
    make_policy({"name": "all", "classes": "*", "mode": "approve"})
    sim = SimDesk(tmp_path)
    sim.submit(Fault(kind=FaultKind.HANG, step=33, rank=0))
    sim.run_until(sim.in_state(IncidentState.AWAITING_DECISION))
    return sim


def do(sim: SimDesk, kind: ActionKind, people: tuple[User, User], **parameters: Any) -> Action:
    operator, approver = people
    propose.propose(
        sim.incident.pk, action=kind, parameters=parameters, exclude_nodes=(), reason="it must be",
        actor=actor_for(operator), client=sim.client, now=sim.now,
    )  # fmt: skip
    sim.approve(approver)
    sim.run_until(lambda: Action.objects.latest("pk").observed_at is not None)
    action = Action.objects.latest("pk")
    assert action.state == ActionState.CONVERGED, action.detail
    return action


def test_a_hung_job_is_submitted_again_and_the_old_one_ended(hung: SimDesk, operator: User, approver: User) -> None:
    old = hung.incident.attempt.job
    action = do(hung, ActionKind.RESUBMIT, (operator, approver))
    new = hung.client.job(action.calls[0]["answer"])
    assert hung.client.job(old.job_id).state is JobState.CANCELLED
    assert (new.held, new.user, new.name, new.comment) == (False, old.user, old.name, old.comment)
    assert f"recovery-desk:{action.key}" in new.admin_comment


def test_a_node_is_drained_and_the_job_on_it_cancelled(hung: SimDesk, operator: User, approver: User) -> None:
    name = hung.incident.attempt.nodes[0]
    drained = do(hung, ActionKind.DRAIN, (operator, approver), node=name)
    (node,) = [node for node in hung.client.nodes() if node.name == name]
    assert drained.key in node.reason
    do(hung, ActionKind.CANCEL, (operator, approver))
    assert hung.incident.outcome == Outcome.STOPPED_ON_PURPOSE
