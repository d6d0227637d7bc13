"""A world that nobody looked at stands still, and goes on sensibly."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm.simulator import FaultKind
from recovery.slurm.simulator.lines import stamp
from recovery.slurm.simulator.pause import CATCH_UP_S
from tests.slurm.simulator.virtual import Sim, failing, make_sim, train

HOURS = 5 * 3600.0


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    return make_sim(tmp_path, pause_after_s=60)


def last_line_at(sim: Sim, job: str) -> datetime:
    found = re.findall(r"\[(\S+ \S+)\] iteration", sim.log(job))[-1]
    return datetime.fromisoformat(f"{found}+00:00")


def test_short_absences_are_played_in_full(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(20)
    sim.run(59)
    assert sim.steps(job)[-1] > 55


def test_after_hours_only_the_last_seconds_are_played(sim: Sim) -> None:
    job = sim.cluster.submit(train(total_steps=1_000_000))
    sim.run(20)
    before = sim.steps(job)[-1]
    sim.run(HOURS)
    assert before + 10 < sim.steps(job)[-1] <= before + CATCH_UP_S + 1
    assert (sim.clock.now - last_line_at(sim, job)).total_seconds() < 3  # it is seen to train, not to hang
    assert sim.client.job(job).state is JobState.RUNNING


def test_what_happened_before_keeps_its_time(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.TRACEBACK, 10))
    ended = sim.until(job, JobState.FAILED).ended_at
    sim.run(HOURS)
    record = sim.client.job(job)  # the controller's memory has paused too: it can still be requeued
    assert (record.state, record.ended_at) == (JobState.FAILED, ended)
    sim.client.requeue(job, hold=False)
    assert sim.until(job, JobState.RUNNING, within_s=10)


def test_what_was_still_to_come_comes_later(sim: Sim) -> None:
    job = sim.cluster.submit(train(time_limit_s=600))
    other = sim.cluster.submit(failing(FaultKind.NODE_DOWN, 10, node="gpu-02", seconds=100, name="other"))
    sim.run(30)
    sim.run(HOURS)
    assert {node.name: node.state for node in sim.client.nodes()}["gpu-02"] is NodeState.DOWN
    for _ in range(2):
        sim.run(50)
    assert {node.state for node in sim.client.nodes()} == {NodeState.UP}
    assert sim.client.job(other).restart_count == 1
    assert sim.client.job(job).state is JobState.RUNNING


def test_a_wait_for_the_requeue_delay_pauses_too(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(20)
    sim.client.requeue(job, hold=False)
    sim.run(HOURS)
    record = sim.client.job(job)
    assert record.state is JobState.RUNNING
    assert record.started_at is not None
    assert (sim.clock.now - record.started_at).total_seconds() < CATCH_UP_S


def test_without_the_setting_hours_are_played(tmp_path: Path) -> None:
    sim = make_sim(tmp_path / "other")
    job = sim.cluster.submit(train(total_steps=3000, save_every=1000))
    sim.run(3600)
    assert [attempt.state for attempt in sim.attempts(job)] == [JobState.COMPLETED]


def test_a_stamp_is_utc() -> None:
    assert stamp(0.5) == "1970-01-01 00:00:00.500000"
