"""The same job ids, and not the same jobs: a controller that lost its state, or another one behind a cluster's name."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState, NodeState
from recovery.models import Cluster, Job, Node
from recovery.slurm.base import HELD_BY_REQUEUE, NodeRecord
from tests.pipeline.conftest import Desk
from tests.pipeline.polling import poll, the_cluster
from tests.pipeline.test_act import approved

__all__ = ["approved"]  # the fixture


@pytest.mark.parametrize("age_s", [-500, 500], ids=["newer", "older"])
def test_an_id_that_becomes_another_jobs_in_mid_action_is_left_alone(approved: Desk, age_s: float) -> None:
    """Held by its own user's requeue, restarted once: in everything but its owner the job that we hold."""

    def replace_job(operation: str) -> None:
        submitted = approved.now - timedelta(seconds=age_s)
        approved.slurm.enter(
            "1", name="other", user="bob", state=JobState.PENDING, held=True, state_reason=HELD_BY_REQUEUE,
            restart_count=1, submitted_at=submitted,
        )  # fmt: skip

    approved.slurm.after_write = replace_job
    approved.tick(times=6)
    assert approved.slurm.calls == ["requeue_hold"]
    assert approved.slurm.table["1"].held
    assert approved.incident.state == IncidentState.NEEDS_PERSON
    assert "another submission" in approved.incident.alarm


def test_an_older_job_of_somebody_else_under_the_id_does_not_leave_ours_running(desk: Desk) -> None:
    poll(desk)
    desk.slurm.enter("1")
    desk.slurm.start("1")
    poll(desk)
    desk.slurm.enter("1", name="other", user="bob", submitted_at=desk.now - timedelta(days=3), state=JobState.RUNNING)
    poll(desk, seconds=2)
    ours = Job.objects.get(user="ada")
    assert (ours.state, ours.listed) == (JobState.UNKNOWN, False)


def test_what_is_known_of_a_controller_is_asked_anew_where_another_one_answers(desk: Desk) -> None:
    poll(desk)
    desk.slurm.accounting = True
    Cluster.objects.update(options={"slurm_conf": "/etc/slurm/other.conf"})
    poll(desk)
    assert the_cluster().accounting


def test_a_node_that_is_listed_twice_or_has_an_endless_name_stops_no_poll(desk: Desk, monkeypatch: Any) -> None:
    nodes = [*desk.slurm.node_table.values(), NodeRecord(name="x" * 150, state=NodeState.UP)]
    monkeypatch.setattr(desk.slurm, "nodes", lambda: [*nodes, replace(nodes[0], state=NodeState.DOWN)])
    assert all(poll(desk).observed for _ in range(3))
    assert Node.objects.count() == len(nodes)
