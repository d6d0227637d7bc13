"""Ways in which the simulated scheduler fails to answer: each is no observation, never an empty one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import SlurmClient, SlurmRefused, SlurmUnreachable
from recovery.slurm.simulator import SimulatorClient, TroubleKind
from tests.slurm.simulator.virtual import START, Sim, VirtualClock, train

READS: dict[str, Callable[[SlurmClient], object]] = {
    "health": lambda client: client.health(),
    "jobs": lambda client: client.jobs(),
    "job": lambda client: client.job("4101"),
    "attempts": lambda client: client.attempts(["4101"], since=START),
    "ended_between": lambda client: client.ended_between(START, START),
    "nodes": lambda client: client.nodes(),
}
WRITES: dict[str, Callable[[SlurmClient], object]] = {
    "requeue": lambda client: client.requeue("4101", hold=True),
    "set_excluded_nodes": lambda client: client.set_excluded_nodes("4101", ("gpu-01",)),
    "release": lambda client: client.release("4101"),
}


@pytest.fixture
def running(sim: Sim) -> Sim:
    sim.cluster.submit(train(nodes=2))
    sim.run(20)
    return sim


@pytest.mark.parametrize("call", [*READS, *WRITES])
def test_an_unreachable_controller_answers_nothing_and_does_nothing(running: Sim, call: str) -> None:
    running.cluster.be_in_trouble(TroubleKind.UNREACHABLE, for_s=30)
    with pytest.raises(SlurmUnreachable) as caught:
        (READS | WRITES)[call](running.client)
    assert not caught.value.permanent
    running.run(30)
    record = running.client.job("4101")
    assert (record.state, record.restart_count) == (JobState.RUNNING, 0)


def test_jobs_go_on_while_the_controller_is_unreachable(running: Sim) -> None:
    running.cluster.be_in_trouble(TroubleKind.UNREACHABLE)
    before = (running.cluster.state_dir / "logs/llama-4101.out").stat().st_size
    running.clock.advance(20)
    with pytest.raises(SlurmUnreachable):
        running.client.jobs()
    assert (running.cluster.state_dir / "logs/llama-4101.out").stat().st_size > before
    running.cluster.be_well()
    assert running.client.job("4101").state is JobState.RUNNING


@pytest.mark.parametrize("kind", [TroubleKind.HALF_ANSWER, TroubleKind.LOST_ANSWER])
def test_a_write_whose_answer_is_lost_was_carried_out(running: Sim, kind: TroubleKind) -> None:
    running.cluster.be_in_trouble(kind, for_s=1)
    with pytest.raises(SlurmUnreachable) as caught:
        running.client.requeue("4101", hold=True)
    assert not caught.value.permanent  # the caller must look before it tries again
    running.run(1)
    record = running.client.job("4101")
    assert (record.restart_count, record.held) == (1, True)


def test_a_refusal_can_be_lost_too(running: Sim) -> None:
    running.client.requeue("4101", hold=True)
    running.cluster.be_in_trouble(TroubleKind.LOST_ANSWER)
    with pytest.raises(SlurmUnreachable):
        running.client.requeue("4101", hold=True)
    running.cluster.be_well()
    assert running.client.job("4101").restart_count == 1


@pytest.mark.parametrize("call", READS)
def test_half_an_answer_is_no_answer(running: Sim, call: str) -> None:
    running.cluster.be_in_trouble(TroubleKind.HALF_ANSWER)
    with pytest.raises(SlurmUnreachable, match="can't be parsed"):
        READS[call](running.client)


def test_an_empty_list_comes_without_an_error(running: Sim) -> None:
    running.cluster.be_in_trouble(TroubleKind.EMPTY_LIST)
    assert running.client.jobs() == []
    assert running.client.job("4101").state is JobState.RUNNING


def test_accounting_can_be_down_alone(running: Sim) -> None:
    running.cluster.be_in_trouble(TroubleKind.NO_ACCOUNTING)
    with pytest.raises(SlurmUnreachable, match="slurmdbd"):
        running.attempts("4101")
    assert running.client.jobs()


def test_trouble_may_concern_one_operation(running: Sim) -> None:
    running.cluster.be_in_trouble(TroubleKind.UNREACHABLE, operations=("release",))
    running.client.requeue("4101", hold=True)
    with pytest.raises(SlurmUnreachable):
        running.client.release("4101")


def test_without_a_world_nothing_is_observed(tmp_path: Path) -> None:
    for state_dir in (tmp_path, tmp_path / "missing"):
        client = SimulatorClient(state_dir, clock=VirtualClock())
        with pytest.raises(SlurmUnreachable, match="there is no"):
            client.jobs()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 99}', '{"format": 1, "serial": 1, "state": {"x": 1}}'])
def test_a_damaged_state_file_is_no_observation_and_stays_as_it_is(running: Sim, content: str) -> None:
    world = running.cluster.state_dir / "world.json"
    world.write_text(content)
    with pytest.raises(SlurmUnreachable, match="can't be read"):
        running.client.jobs()
    assert world.read_text() == content


def test_a_state_directory_that_can_not_be_written_is_no_observation(running: Sim) -> None:
    (running.cluster.state_dir / "world.new").mkdir()
    running.clock.advance(5)
    with pytest.raises(SlurmUnreachable, match="can't be used"):
        running.client.jobs()
    (running.cluster.state_dir / "world.new").rmdir()
    assert running.client.jobs()


def test_errors_name_what_was_tried(running: Sim) -> None:
    with pytest.raises(SlurmRefused) as caught:
        running.client.requeue("17", hold=True)
    assert str(caught.value) == "scontrol requeuehold 17: Invalid job id specified"
    assert caught.value.permanent


def test_a_clock_that_goes_back_is_ignored(running: Sim) -> None:
    log = running.log("4101")
    running.clock.now -= timedelta(hours=1)
    assert running.client.job("4101").state is JobState.RUNNING
    assert running.log("4101") == log
    running.clock.now += timedelta(hours=1, seconds=5)
    running.cluster.advance()
    assert running.log("4101").startswith(log)
    assert running.log("4101") != log
