"""A more important job takes the nodes: what is done depends on whether Slurm puts the preempted one back."""

from __future__ import annotations

from pathlib import Path

from django.contrib.auth.models import User
from pytest_django import Settings

from recovery.core.lifecycle import IncidentState
from recovery.core.types import ActionKind, FailureClass, JobState, Outcome
from recovery.models import Action, Incident
from recovery.slurm.simulator import PartitionSpec, Preempt, make_nodes
from tests.pipeline.sim_desk import RHYTHM, SimDesk, make_policy


def preempted(tmp_path: Path, settings: Settings, mode: Preempt) -> SimDesk:
    """A job that has saved, and then has to make room for a minute."""
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    for name, value in RHYTHM.items():
        setattr(settings, name, value)
    settings.HANG_FIRST_STEP_S = 600.0
    make_policy({"name": "all", "classes": "*", "mode": "approve"})
    nodes = tuple(node.name for node in make_nodes(6))
    sim = SimDesk(
        tmp_path,
        partitions=(
            PartitionSpec(name="spare", nodes=nodes, preempt=mode),
            PartitionSpec(name="urgent", nodes=nodes, tier=2),
        ),
    )
    sim.submit(partition="spare", total_steps=100)
    sim.run(70)
    sim.submit(name="urgent", partition="urgent", nodes=6, total_steps=20)
    sim.run_until(Incident.objects.exists)
    return sim


def test_a_preempted_job_that_slurm_put_back_needs_nothing_and_is_verified(
    db: None, tmp_path: Path, settings: Settings
) -> None:
    sim = preempted(tmp_path, settings, Preempt.REQUEUE)
    sim.run_until(sim.in_state(IncidentState.WATCHING))
    assert sim.incident.failure_class == FailureClass.PREEMPTION
    assert sim.recommendation.action == ActionKind.NOTHING
    sim.run_until(sim.in_state(IncidentState.CLOSED), within=600)
    assert (sim.incident.outcome, sim.incident.resolved_by_others) == (Outcome.RECOVERED, True)
    assert not Action.objects.exists()


def test_a_preempted_job_that_stays_ended_is_requeued(
    db: None, tmp_path: Path, settings: Settings, approver: User
) -> None:
    sim = preempted(tmp_path, settings, Preempt.CANCEL)
    sim.run_until(sim.in_state(IncidentState.AWAITING_DECISION))
    assert sim.incident.attempt.state == JobState.PREEMPTED
    assert sim.recommendation.action == ActionKind.REQUEUE
    sim.approve(approver)
    sim.run_until(sim.in_state(IncidentState.CLOSED), within=600)
    assert sim.incident.outcome == Outcome.RECOVERED
    assert [call["operation"] for call in Action.objects.get().calls].count("requeue") == 1
