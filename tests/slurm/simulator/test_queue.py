"""Who waits for what, and who starts where."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import SlurmRefused
from recovery.slurm.simulator import NodeSpec, PartitionSpec, make_nodes
from tests.slurm.simulator.virtual import Sim, make_sim, train


def test_a_job_starts_a_moment_after_it_was_submitted(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=2))
    assert sim.client.job(job).state is JobState.PENDING
    sim.run(0.7)
    record = sim.client.job(job)
    assert (record.state, record.nodes) == (JobState.RUNNING, ("gpu-01", "gpu-02"))
    assert (record.gpus, record.node_count, record.batch_host) == (16, 2, "gpu-01")


def test_a_job_waits_for_nodes_and_takes_them_when_they_are_free(sim: Sim) -> None:
    first = sim.cluster.submit(train(name="first", nodes=3))
    second = sim.cluster.submit(train(name="second", nodes=2))
    sim.run(2)
    assert sim.client.job(second).state_reason == "Resources"
    sim.cluster.cancel(first, by="ada")
    assert sim.until(second, JobState.RUNNING, within_s=5).nodes == ("gpu-01", "gpu-02")


def test_the_first_that_waits_makes_later_ones_wait(sim: Sim) -> None:
    sim.cluster.submit(train(name="running", nodes=2))
    big = sim.cluster.submit(train(name="big", nodes=4))
    small = sim.cluster.submit(train(name="small", nodes=1, partition="main"))  # the default one, by name
    sim.run(2)
    assert [sim.client.job(j).state_reason for j in (big, small)] == ["Resources", "Priority"]


def test_a_job_that_can_never_run_stands_in_nobodys_way(sim: Sim) -> None:
    sim.cluster.drain_node("gpu-04")
    stuck = sim.cluster.submit(train(name="stuck", nodes=4))
    small = sim.cluster.submit(train(name="small", nodes=1))
    sim.run(2)
    assert sim.client.job(stuck).state_reason == "ReqNodeNotAvail, UnavailableNodes:gpu-04"
    assert sim.client.job(small).state is JobState.RUNNING


def test_excluded_nodes_are_never_used(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=2, excluded_nodes=("gpu-01", "gpu-03")))
    assert sim.until(job, JobState.RUNNING).nodes == ("gpu-02", "gpu-04")


def test_a_job_pinned_to_a_node_waits_for_exactly_that_node(sim: Sim) -> None:
    sim.cluster.drain_node("gpu-02")
    job = sim.cluster.submit(train(nodes=1, required_nodes=("gpu-02",)))
    sim.run(2)
    assert sim.client.job(job).state_reason == "ReqNodeNotAvail, UnavailableNodes:gpu-02"
    sim.cluster.restore_node("gpu-02")
    assert sim.until(job, JobState.RUNNING, within_s=3).nodes == ("gpu-02",)


def test_jobs_share_a_node_up_to_its_gpus(sim: Sim) -> None:
    jobs = [sim.cluster.submit(train(name=f"half-{n}", gpus_per_node=4)) for n in range(3)]
    sim.run(2)
    assert [sim.client.job(job).nodes for job in jobs] == [("gpu-01",), ("gpu-01",), ("gpu-02",)]
    states = {node.name: node.raw_state for node in sim.client.nodes()}
    assert (states["gpu-01"], states["gpu-02"], states["gpu-03"]) == ("ALLOCATED", "MIXED", "IDLE")


def test_a_job_stays_in_its_partition(tmp_path: Path) -> None:
    parts = (
        PartitionSpec(name="train", nodes=("gpu-01", "gpu-02")),
        PartitionSpec(name="debug", nodes=("gpu-02", "gpu-03")),
    )
    sim = make_sim(tmp_path, nodes=make_nodes(3), partitions=parts)
    job = sim.cluster.submit(train(nodes=2, partition="debug"))
    record = sim.until(job, JobState.RUNNING)
    assert (record.partition, record.nodes) == ("debug", ("gpu-02", "gpu-03"))
    default = sim.cluster.submit(train(name="other"))
    assert sim.client.job(default).partition == "train"
    assert {node.name: node.partitions for node in sim.client.nodes()}["gpu-02"] == ("train", "debug")


def test_a_full_partition_does_not_hold_up_another(tmp_path: Path) -> None:
    parts = (PartitionSpec(name="train", nodes=("gpu-01",)), PartitionSpec(name="debug", nodes=("gpu-02",)))
    sim = make_sim(tmp_path, nodes=make_nodes(2), partitions=parts)
    for name in ("first", "second"):
        sim.cluster.submit(train(name=name, partition="train"))
    debug = sim.cluster.submit(train(name="third", partition="debug"))
    assert sim.until(debug, JobState.RUNNING, within_s=2)


@pytest.mark.parametrize(
    "impossible",
    [
        {"nodes": 5},
        {"gpus_per_node": 16},
        {"partition": "nowhere"},
        {"nodes": 4, "excluded_nodes": ("gpu-01",)},
    ],
)
def test_a_job_that_no_node_could_ever_run_is_refused(sim: Sim, impossible: dict[str, object]) -> None:
    with pytest.raises(SlurmRefused, match=r"not available|Invalid partition"):
        sim.cluster.submit(train(**impossible))
    assert sim.client.jobs() == []


def test_nodes_with_too_few_gpus_are_passed_over(tmp_path: Path) -> None:
    nodes = (NodeSpec(name="old-1", gpus=4), *make_nodes(2))
    sim = make_sim(tmp_path, nodes=nodes)
    assert sim.until(sim.cluster.submit(train(nodes=2)), JobState.RUNNING).nodes == ("gpu-01", "gpu-02")


def test_a_held_job_does_not_start(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.cluster.admin_hold(job)
    sim.run(30)
    record = sim.client.job(job)
    assert (record.state, record.held, record.state_reason) == (JobState.PENDING, True, "JobHeldAdmin")
    sim.client.release(job)
    assert not sim.until(job, JobState.RUNNING, within_s=2).held
