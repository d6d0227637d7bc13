"""Partitions, constraints, reservations and preemption."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import SlurmRefused
from recovery.slurm.simulator import NodeSpec, PartitionSpec, Preempt, Reservation, ReservationSpec, make_nodes
from tests.slurm.simulator.virtual import START, Sim, make_sim, train

ALL = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")


def two_tiers(tmp_path: Path, preempt: Preempt) -> Sim:
    partitions = (
        PartitionSpec(name="spare", nodes=ALL, preempt=preempt),
        PartitionSpec(name="urgent", nodes=ALL, tier=2),
    )
    return make_sim(tmp_path, partitions=partitions)


def test_partitions_are_told_with_the_default_one_and_their_limits(tmp_path: Path) -> None:
    partitions = (
        PartitionSpec(name="short", nodes=ALL[:2], time_limit_s=600),
        PartitionSpec(name="closed", nodes=ALL, up=False),
    )
    sim = make_sim(tmp_path, partitions=partitions)
    short, closed = sim.client.partitions()
    assert (short.name, short.default, short.up, short.nodes, short.time_limit_s) == ("short", True, True, ALL[:2], 600)
    assert (closed.default, closed.up, closed.time_limit_s) == (False, False, None)
    assert [node.partitions for node in sim.client.nodes()][::2] == [("short", "closed"), ("closed",)]
    waits = sim.cluster.submit(train(name="a", partition="closed"))
    too_long = sim.cluster.submit(train(name="b", time_limit_s=700))
    default = sim.cluster.submit(train(name="c"))
    sim.run(3)
    assert sim.client.job(waits).state_reason == "PartitionDown"
    assert sim.client.job(too_long).state_reason == "PartitionTimeLimit"
    assert (sim.client.job(default).state, sim.client.job(default).time_limit_s) == (JobState.RUNNING, 600)


def test_a_constraint_is_kept(tmp_path: Path) -> None:
    nodes = (
        NodeSpec(name="a-1", features=("a100", "ib")),
        NodeSpec(name="h-1", features=("h100",)),
        NodeSpec(name="h-2", features=("h100", "ib")),
    )
    sim = make_sim(tmp_path, nodes=nodes)
    job = sim.cluster.submit(train(features="h100&ib"))
    assert sim.until(job, JobState.RUNNING).nodes == ("h-2",)
    assert sim.client.job(job).features == "h100&ib"
    either = sim.cluster.submit(train(name="either", features="a100|h100", nodes=2))
    assert sim.until(either, JobState.RUNNING).nodes == ("a-1", "h-1")
    with pytest.raises(SlurmRefused, match="Invalid feature specification"):
        sim.cluster.submit(train(features="tpu"))


def test_maintenance_lets_no_job_run_into_it(tmp_path: Path) -> None:
    works = ReservationSpec(name="works", nodes=ALL, starts_s=300, ends_s=600, users=("root",), maintenance=True)
    sim = make_sim(tmp_path, reservations=(works,))
    fits = sim.cluster.submit(train(name="fits", time_limit_s=240))
    too_long = sim.cluster.submit(train(name="long", time_limit_s=1200))
    endless = sim.cluster.submit(train(name="endless"))
    sim.run(5)
    assert sim.client.job(fits).state is JobState.RUNNING
    for job in (too_long, endless):
        assert sim.client.job(job).state_reason == "ReqNodeNotAvail, Reserved for maintenance"
    sim.run(400)
    assert {node.raw_state for node in sim.client.nodes()} == {"IDLE+MAINTENANCE"}
    sim.run(200)
    assert sim.client.job(too_long).state is JobState.RUNNING
    assert sim.client.reservations() == []


def test_a_reservation_is_for_those_whom_it_names(sim: Sim) -> None:
    start = START.timestamp()
    sim.cluster.reserve(Reservation(name="course", nodes=ALL[:2], starts_at=start, ends_at=start + 900, users=("lin",)))
    (told,) = sim.client.reservations()
    assert (told.name, told.nodes, told.users, told.maintenance) == ("course", ALL[:2], ("lin",), False)
    other = sim.cluster.submit(train(name="other", nodes=2))
    inside = sim.cluster.submit(train(name="inside", user="lin", nodes=2, reservation="course"))
    sim.run(3)
    assert sim.client.job(other).nodes == ALL[2:]
    assert sim.client.job(inside).nodes == ALL[:2]
    for user, name in (("ada", "course"), ("lin", "none")):
        with pytest.raises(SlurmRefused, match="reservation"):
            sim.cluster.submit(train(user=user, reservation=name))


@pytest.mark.parametrize(
    ("mode", "state", "restarts"), [(Preempt.REQUEUE, JobState.PENDING, 1), (Preempt.CANCEL, JobState.PREEMPTED, 0)]
)
def test_a_higher_tier_takes_the_nodes_of_as_few_jobs_as_it_needs(
    tmp_path: Path, mode: Preempt, state: JobState, restarts: int
) -> None:
    sim = two_tiers(tmp_path, mode)
    jobs = [sim.cluster.submit(train(name=f"spare-{n}", nodes=2)) for n in range(2)]
    sim.run(20)
    urgent = sim.cluster.submit(train(name="urgent", nodes=2, partition="urgent"))
    sim.until(urgent, JobState.RUNNING)
    sim.run(3)
    old, new = (sim.client.job(job) for job in jobs)
    assert (old.state, old.restart_count) == (JobState.RUNNING, 0)
    assert (new.state, new.restart_count) == (state, restarts)
    assert sim.attempts(jobs[1])[0].state is JobState.PREEMPTED
    assert "DUE TO PREEMPTION" in sim.log(jobs[1])


def test_nobody_is_preempted_in_vain_or_where_it_is_off(tmp_path: Path) -> None:
    sim = two_tiers(tmp_path / "off", Preempt.OFF)
    job = sim.cluster.submit(train(nodes=4))
    sim.run(10)
    urgent = sim.cluster.submit(train(name="urgent", partition="urgent"))
    sim.run(10)
    assert (sim.client.job(job).state, sim.client.job(urgent).state_reason) == (JobState.RUNNING, "Resources")
    sim = two_tiers(tmp_path / "vain", Preempt.CANCEL)
    same = sim.cluster.submit(train(name="same", partition="urgent"))
    spare = sim.cluster.submit(train(name="spare"))
    sim.run(10)
    sim.cluster.submit(train(name="all", nodes=4, partition="urgent"))
    sim.run(10)
    assert {sim.client.job(job).state for job in (same, spare)} == {JobState.RUNNING}


def test_a_rack_goes_down_as_one_and_its_jobs_come_back_elsewhere(tmp_path: Path) -> None:
    sim = make_sim(tmp_path, nodes=make_nodes(6, per_rack=2))
    jobs = [sim.cluster.submit(train(name=f"job-{n}")) for n in range(3)]
    sim.run(20)
    sim.cluster.crash_rack("rack-1", within_s=2)
    sim.run(15)
    assert [node.name for node in sim.client.nodes() if node.state == "down"] == ["gpu-01", "gpu-02"]
    sim.run(15)
    found = [sim.client.job(job) for job in jobs]
    assert [job.restart_count for job in found] == [1, 1, 0]
    assert {job.state for job in found} == {JobState.RUNNING}
    with pytest.raises(SlurmRefused):
        sim.cluster.crash_rack("rack-9")
