"""Nodes that go down, are drained and come back, and what that does to jobs."""

from __future__ import annotations

import re

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import NodeRecord, SlurmRefused
from recovery.slurm.simulator import FaultKind
from tests.slurm.simulator.virtual import Sim, failing, train


def node(sim: Sim, name: str) -> NodeRecord:
    return next(n for n in sim.client.nodes() if n.name == name)


def test_slurm_requeues_a_job_by_itself_when_its_node_fails(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=2))
    sim.run(20)
    sim.cluster.fail_node("gpu-02", reason="fan", by="root")
    assert sim.client.job(job).restart_count == 1
    record = sim.until(job, JobState.RUNNING)
    assert record.nodes == ("gpu-01", "gpu-03")
    first = sim.attempts(job)[0]
    assert (first.state, first.exit_code, first.nodes) == (JobState.NODE_FAIL, 0, ("gpu-01", "gpu-02"))


def test_a_job_that_may_not_be_requeued_ends_with_its_node(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=2, requeueable=False))
    sim.run(20)
    sim.cluster.fail_node("gpu-02")
    record = sim.until(job, JobState.NODE_FAIL)
    assert (record.state_reason, record.restart_count) == ("NodeDown", 0)
    assert "srun: error: Node failure on gpu-02" in sim.log(job)
    assert "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***" in sim.log(job)


def test_when_the_batch_host_dies_nobody_is_left_to_write(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=2, requeueable=False))
    sim.run(20)
    sim.cluster.fail_node("gpu-01")
    sim.until(job, JobState.NODE_FAIL)
    assert "iteration" in sim.log(job).splitlines()[-1]


def test_a_power_cut_is_silent_until_slurm_notices(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=2))
    sim.run(20)
    sim.cluster.crash_node("gpu-02")
    silent = sim.steps(job)
    sim.run(10)
    assert sim.client.job(job).state is JobState.RUNNING
    assert node(sim, "gpu-02").state is NodeState.UP
    assert sim.steps(job) == silent
    sim.run(2)
    down = node(sim, "gpu-02")
    assert (down.state, down.reason, down.reason_by) == (NodeState.DOWN, "Not responding", "slurm")
    assert down.reason_at == sim.clock.now.replace(second=31)
    assert sim.client.job(job).restart_count == 1


def test_a_node_that_is_back_before_slurm_notices_leaves_a_silent_job(sim: Sim) -> None:
    """Measured on 22.05: the job stays RUNNING, and slurmctld never remarks on it."""
    job = sim.cluster.submit(train(nodes=2))
    sim.run(20)
    sim.cluster.crash_node("gpu-02")
    sim.run(3)
    sim.cluster.restore_node("gpu-02")
    silent = sim.steps(job)
    sim.run(120)
    assert sim.client.job(job).state is JobState.RUNNING
    assert sim.steps(job) == silent
    sim.client.requeue(job, hold=False)
    assert sim.until(job, JobState.RUNNING).restart_count == 1


@pytest.mark.parametrize(("dead", "greets"), [("gpu-01", []), ("gpu-02", ["gpu-01"])])
def test_a_job_that_starts_on_a_dead_node_is_silent_until_slurm_notices(sim: Sim, dead: str, greets: list[str]) -> None:
    sim.cluster.crash_node(dead)
    job = sim.cluster.submit(train(nodes=2))
    sim.run(10)
    assert sim.client.job(job).nodes == ("gpu-01", "gpu-02")
    assert sorted(set(re.findall(r"host (\S+) pid", sim.log(job)))) == greets
    assert sim.steps(job) == []
    record = sim.until_true(job, lambda record: record.state is JobState.RUNNING and record.restart_count == 1)
    assert dead not in record.nodes


def test_a_node_comes_back_by_itself_after_its_repair(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.NODE_DOWN, 15, node="gpu-02", seconds=60, nodes=2))
    sim.until_true(job, lambda record: record.restart_count == 1)
    assert node(sim, "gpu-02").state is NodeState.DOWN
    sim.run(61)
    back = node(sim, "gpu-02")
    assert (back.state, back.reason, back.reason_at) == (NodeState.UP, "", None)


def test_every_job_on_a_failing_node_is_lost_and_no_other(sim: Sim) -> None:
    jobs = [sim.cluster.submit(train(name=f"half-{n}", gpus_per_node=4)) for n in range(3)]
    sim.run(20)
    sim.cluster.fail_node("gpu-01")
    assert [sim.client.job(job).restart_count for job in jobs] == [1, 1, 0]


def test_a_drained_node_finishes_its_job_and_takes_no_other(sim: Sim) -> None:
    job = sim.cluster.submit(train(total_steps=15))
    sim.run(5)
    sim.cluster.drain_node("gpu-01", reason="replace the fan", by="root")
    draining = node(sim, "gpu-01")
    assert (draining.state, draining.raw_state) == (NodeState.DRAINING, "ALLOCATED+DRAIN")
    sim.until(job, JobState.COMPLETED)
    drained = node(sim, "gpu-01")
    assert (drained.state, drained.raw_state, drained.reason) == (NodeState.DRAINED, "IDLE+DRAIN", "replace the fan")
    other = sim.cluster.submit(train(name="other"))
    assert sim.until(other, JobState.RUNNING).nodes == ("gpu-02",)


def test_a_node_that_an_admin_drained_stays_so_when_it_comes_back(sim: Sim) -> None:
    sim.cluster.drain_node("gpu-02", reason="replace the fan", by="root")
    sim.cluster.crash_node("gpu-02", back_after_s=30)
    sim.run(12)
    assert node(sim, "gpu-02").state is NodeState.DOWN
    sim.run(31)
    back = node(sim, "gpu-02")
    assert (back.state, back.reason, back.reason_by) == (NodeState.DRAINED, "replace the fan", "root")


def test_jobs_that_waited_start_when_a_node_is_restored(sim: Sim) -> None:
    for name in ("gpu-01", "gpu-02"):
        sim.cluster.drain_node(name)
    job = sim.cluster.submit(train(nodes=3))
    sim.run(10)
    assert sim.client.job(job).state is JobState.PENDING
    sim.cluster.restore_node("gpu-01")
    assert sim.until(job, JobState.RUNNING, within_s=2).nodes == ("gpu-01", "gpu-03", "gpu-04")


@pytest.mark.parametrize("what", ["fail_node", "crash_node", "drain_node", "restore_node"])
def test_an_unknown_node_is_refused(sim: Sim, what: str) -> None:
    with pytest.raises(SlurmRefused, match="Invalid node name"):
        getattr(sim.cluster, what)("gpu-99")
