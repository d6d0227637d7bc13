"""Time grows with the number of jobs, not faster. Figures are processor time: a busy machine does not matter."""

from __future__ import annotations

import time
from pathlib import Path, PurePosixPath

from recovery.slurm.simulator import ClusterSpec, LiveStore, SimulatedCluster, SimulatorClient, make_nodes
from recovery.slurm.simulator.world import World, new_state
from tests.slurm.simulator.virtual import START, VirtualClock, train


def busy_world(jobs: int) -> World:
    spec = ClusterSpec(seed=1, nodes=make_nodes(jobs))
    world = World(new_state(spec, now=START.timestamp()), root=PurePosixPath("/sim"))
    for number in range(jobs):
        world.submit(train(name=f"job-{number}", total_steps=100_000, save_every=16))
    world.advance(START.timestamp() + 60)
    world.take_effects()
    return world


def cost_of_ten_seconds(world: World) -> float:
    best = 1e9
    for _ in range(3):
        started = time.process_time()
        world.advance(world.state.now + 10)
        world.take_effects()
        best = min(best, time.process_time() - started)
    return best


def test_ten_seconds_of_two_hundred_jobs_are_cheap() -> None:
    assert cost_of_ten_seconds(busy_world(200)) < 0.5


def test_five_times_the_jobs_cost_about_five_times_as_much() -> None:
    assert cost_of_ten_seconds(busy_world(1000)) < 12 * cost_of_ten_seconds(busy_world(200))


def cost_of_a_look(jobs: int, folder: Path) -> tuple[float, float]:
    """Processor time of a look at all jobs where one has changed, and where none has."""
    clock = VirtualClock()
    store = LiveStore(folder)
    cluster = SimulatedCluster(folder, clock=clock, store=store)
    client = SimulatorClient(folder, clock=clock, store=store)

    def fill(world: World) -> None:
        for number in range(jobs):
            world.submit(train(name=f"job-{number}", nodes=4))

    cluster.create(ClusterSpec(seed=1, nodes=make_nodes(4)), fill=fill)
    client.jobs()
    costs = []
    for number in range(3):
        mark = client.jobs_since("").mark
        started = time.process_time()
        assert client.jobs_since(mark).jobs is None
        unchanged = time.process_time() - started
        client.set_admin_comment(client.jobs()[number].job_id, "seen")
        started = time.process_time()
        assert len(client.jobs_since(mark).jobs or []) == jobs
        costs.append((time.process_time() - started, unchanged))
    return min(costs)


def test_a_look_at_five_times_the_jobs_costs_about_five_times_as_much(tmp_path: Path) -> None:
    few, _ = cost_of_a_look(1000, tmp_path / "few")
    many, unchanged = cost_of_a_look(5000, tmp_path / "many")
    assert many < 12 * few
    assert unchanged < 0.01


def test_a_long_queue_costs_little() -> None:
    """All jobs of the queue wait behind the first one: nobody looks for nodes for the others."""
    spec = ClusterSpec(seed=1, nodes=make_nodes(200))
    world = World(new_state(spec, now=START.timestamp()), root=PurePosixPath("/sim"))
    for number in range(5000):
        world.submit(train(name=f"job-{number}", nodes=150))
    started = time.process_time()
    world.advance(world.state.now + 10)
    assert time.process_time() - started < 0.5
    assert sum(job.reason == "Priority" for job in world.state.jobs.values()) == 4998
