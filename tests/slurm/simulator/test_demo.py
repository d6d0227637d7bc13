"""The cluster of the demo, as a newcomer meets it. Nothing here asks for the wall clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import JobRecord
from recovery.slurm.simulator import SimulatedCluster, SimulatorClient
from recovery.slurm.simulator.demo import TEAMS, demo_spec, seed_demo
from recovery.slurm.simulator.world import World, new_state
from tests.slurm.simulator.test_store import files_below
from tests.slurm.simulator.virtual import START, Sim, VirtualClock

POLL_S = 5  # how often the product looks at least; without it the world would pause


def open_demo(folder: Path, *, seed: int = 7, now: datetime = START) -> Sim:
    seed_demo(folder, now, seed)
    clock = VirtualClock(now)
    return Sim(clock=clock, cluster=SimulatedCluster(folder, clock=clock), client=SimulatorClient(folder, clock=clock))


@pytest.fixture
def demo(tmp_path: Path) -> Sim:
    return open_demo(tmp_path / "cluster")


def by_name(sim: Sim, name: str) -> JobRecord:
    """The newest job of that name."""
    return max((job for job in sim.client.jobs() if job.name == name), key=lambda job: int(job.job_id))


def seconds_until(sim: Sim, name: str, look: Callable[[JobRecord], bool], *, within_s: int) -> float:
    """Seconds from the demo's start until a look sees it."""
    while not look(by_name(sim, name)):
        sim.clock.advance(POLL_S)
        assert (sim.clock.now - START).total_seconds() <= within_s
    return (sim.clock.now - START).total_seconds()


def test_it_starts_with_every_team_at_work_for_a_while(demo: Sim) -> None:
    jobs = demo.client.jobs()
    assert {job.name for job in jobs} == {team.name for team in TEAMS}
    assert {job.state for job in jobs} == {JobState.RUNNING}
    for team in TEAMS:
        job = by_name(demo, team.name)
        steps = demo.steps(job.job_id)
        assert len(steps) > 60  # enough to know the usual pace
        assert steps[0] == demo_resumes_at(demo, team.name) + 1
        assert (demo.cluster.checkpoint_dir(team.name) / "latest_checkpointed_iteration.txt").exists()
    assert sum(job.node_count for job in jobs) < len(demo.client.nodes())  # there is a place to move to


def demo_resumes_at(sim: Sim, run: str) -> int:
    log = sim.log(by_name(sim, run).job_id)
    line = next(line for line in log.split("\n") if "successfully loaded checkpoint" in line)
    return int(line.rpartition(" ")[2])


def test_first_a_job_fails_with_a_memory_error_that_names_its_node(demo: Sim) -> None:
    seconds = seconds_until(demo, "llama-70b", lambda job: job.state is JobState.FAILED, within_s=45)
    assert 20 <= seconds <= 45
    assert "gpu-02:" in demo.log(by_name(demo, "llama-70b").job_id)
    assert "uncorrectable ECC error encountered" in demo.log(by_name(demo, "llama-70b").job_id)


def test_soon_there_is_trouble_of_every_kind(demo: Sim) -> None:
    seconds_until(demo, "embed-finetune", lambda job: job.state is JobState.CANCELLED, within_s=70)
    seconds_until(demo, "rlhf-ppo", lambda job: job.state is JobState.FAILED, within_s=90)
    hung = by_name(demo, "vision-vit-h").job_id
    silent = demo.log(hung)
    slow = demo.log(by_name(demo, "speech-conformer").job_id).rstrip("\n").split("\n")[-1]
    assert float(slow.split("per iteration (ms): ")[1].split(" ")[0]) > 1500
    lost = seconds_until(demo, "moe-8x22b", lambda job: job.restart_count == 1, within_s=180)
    assert lost >= 150  # not within two minutes of most other crashes: that would look like one incident of all
    assert sum(node.state is NodeState.DOWN for node in demo.client.nodes()) == 1
    assert demo.log(hung) == silent
    assert by_name(demo, "vision-vit-h").state is JobState.RUNNING
    assert by_name(demo, "protein-fold").state is JobState.RUNNING  # and one is well


def approve(sim: Sim, *, without: tuple[str, ...]) -> str:
    """What the product does when somebody approves a requeue of the first failure."""
    seconds_until(sim, "llama-70b", lambda job: job.state is JobState.FAILED, within_s=60)
    sim.clock.advance(20)
    job_id = by_name(sim, "llama-70b").job_id
    sim.client.requeue(job_id, hold=True)
    sim.client.set_excluded_nodes(job_id, without)
    sim.client.release(job_id)
    return job_id


def test_half_a_minute_after_an_approval_the_next_checkpoint_is_there(demo: Sim) -> None:
    job = approve(demo, without=("gpu-02",))
    approved = demo.clock.now
    folder = demo.cluster.checkpoint_dir("llama-70b")
    before = int((folder / "latest_checkpointed_iteration.txt").read_text())
    record = demo.until(job, JobState.RUNNING, within_s=10)
    assert "gpu-02" not in record.nodes
    demo.until_true(job, lambda _: f"successfully loaded checkpoint from {folder}" in demo.log(job), within_s=10)
    assert demo_resumes_at(demo, "llama-70b") == before
    demo.until_true(job, lambda _: int((folder / "latest_checkpointed_iteration.txt").read_text()) > before)
    assert (demo.clock.now - approved).total_seconds() <= 35


def test_without_the_exclusion_the_broken_gpu_strikes_again(demo: Sim) -> None:
    job = approve(demo, without=())
    record = demo.until(job, JobState.FAILED, within_s=60)
    assert record.restart_count == 1
    assert "gpu-02" in record.nodes


def test_the_node_that_went_down_is_repaired(demo: Sim) -> None:
    seconds_until(demo, "moe-8x22b", lambda job: job.restart_count == 1, within_s=180)
    for _ in range(32):
        demo.run(POLL_S)
    assert {node.state for node in demo.client.nodes()} == {NodeState.UP}


def test_a_second_start_keeps_what_is_there(tmp_path: Path) -> None:
    first = open_demo(tmp_path)
    for _ in range(10):
        first.run(POLL_S)
    before = files_below(tmp_path)
    again = open_demo(tmp_path, seed=99, now=first.clock.now)
    assert files_below(tmp_path) == before
    assert len(again.client.jobs()) == len(TEAMS)


def test_after_a_night_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    evening = open_demo(tmp_path)
    for _ in range(12):
        evening.run(POLL_S)
    waiting = by_name(evening, "llama-70b")
    healthy = by_name(evening, "protein-fold").job_id
    steps = len(evening.steps(healthy))
    morning = open_demo(tmp_path, now=evening.clock.now + timedelta(hours=14))
    assert by_name(morning, "llama-70b") == waiting  # still there to be decided on
    assert steps < len(morning.steps(healthy)) < steps + 30
    latest = morning.log(healthy).rstrip("\n").split("\n")[-1]
    assert (morning.clock.now - timedelta(seconds=5)).strftime("%Y-%m-%d %H:%M") in latest


def test_the_same_seed_makes_the_same_demo(tmp_path: Path) -> None:
    same = [open_demo(tmp_path / name, seed=3) for name in ("left", "right")]
    other = open_demo(tmp_path / "other", seed=4)
    assert files_below(same[0].cluster.state_dir) == files_below(same[1].cluster.state_dir)
    assert files_below(same[0].cluster.state_dir) != files_below(other.cluster.state_dir)


def test_it_stays_alive_for_hours_and_does_not_grow() -> None:
    world = World(new_state(demo_spec(5), now=START.timestamp()), root=PurePosixPath("/demo"))
    running: list[int] = []
    known: list[int] = []
    for minute in range(4 * 60):
        for half in (30, 60):
            world.advance(START.timestamp() + minute * 60 + half)
        world.take_effects()
        running.append(sum(job.training is not None for job in world.state.jobs.values()))
        known.append(len(world.state.jobs) + sum(map(len, world.state.forgotten.values())))
    assert min(running) >= 2  # nobody approves anything here, and still people work
    assert sum(running) / len(running) > 4
    assert max(known[180:]) < 60
    assert all(len(run.saved) <= 7 for run in world.state.runs.values())
    assert len(world.state.runs) < 60
