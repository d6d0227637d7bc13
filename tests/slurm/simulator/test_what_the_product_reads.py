"""The simulated jobs speak the language that the product's own readers understand."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.core.comment import parse_comment
from recovery.core.diagnose import catalogue
from recovery.core.logs import LogParser
from recovery.core.types import CheckpointState, FailureClass, JobState, LogLine, Role, Signal, SignalKind
from recovery.slurm.registry import client_for
from recovery.slurm.simulator import FaultKind, Trainer
from recovery.sources.checkpoints import scan_checkpoints
from tests.slurm.simulator.virtual import Sim, failing, train


def signals(sim: Sim, job: str) -> list[Signal]:
    record = sim.client.job(job)
    parser = LogParser(nodes=record.nodes)
    found: list[Signal] = []
    offset = 0
    for number, text in enumerate(sim.log(job).split("\n"), 1):
        found += parser.feed(LogLine(text=text, file=record.stdout, number=number, offset=offset))
        offset += len(text) + 1
    return found


def of_kind(found: list[Signal], kind: SignalKind) -> list[Signal]:
    return [signal for signal in found if signal.kind is kind]


def test_progress_and_saves_of_a_first_attempt(sim: Sim) -> None:
    job = sim.cluster.submit(train(total_steps=25))
    sim.until(job, JobState.COMPLETED)
    found = signals(sim, job)
    progress = of_kind(found, SignalKind.PROGRESS)
    assert [signal.step for signal in progress] == list(range(1, 26))
    assert all(s.at and s.loss and s.throughput and s.step_time_s for s in progress)
    assert len(of_kind(found, SignalKind.FRESH_START)) >= 1
    for kind in (SignalKind.SAVE_STARTED, SignalKind.SAVE_DURABLE):
        assert [signal.step for signal in of_kind(found, kind)] == [10, 20, 25]
    assert of_kind(found, SignalKind.FINISHED)
    assert of_kind(found, SignalKind.FAILURE) == []


def test_the_restored_step_of_a_restart(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.until_true(job, lambda _: 25 in sim.steps(job))
    sim.client.requeue(job, hold=False)
    sim.until_true(job, lambda record: record.state is JobState.RUNNING and bool(sim.steps(job)))
    found = signals(sim, job)
    assert {signal.step for signal in of_kind(found, SignalKind.LOADED)} == {20}
    assert of_kind(found, SignalKind.FRESH_START) == []


def test_a_healthy_start_shows_no_failure(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=4))
    sim.run(30)
    assert of_kind(signals(sim, job), SignalKind.FAILURE) == []


CLASSES = {
    FaultKind.TRACEBACK: {FailureClass.USER_CODE},
    FaultKind.SEGFAULT: {FailureClass.USER_CODE, FailureClass.UNKNOWN},
    FaultKind.ECC: {FailureClass.GPU_HARDWARE},
    FaultKind.XID79: {FailureClass.GPU_HARDWARE},
    FaultKind.NCCL_TIMEOUT: {FailureClass.HANG_COLLECTIVE, FailureClass.NETWORK_FABRIC},
    FaultKind.HOST_OOM: {FailureClass.HOST_OOM},
    FaultKind.GPU_OOM: {FailureClass.GPU_OOM},
    FaultKind.DISK_FULL: {FailureClass.STORAGE_FULL},
}


@pytest.mark.parametrize("kind", CLASSES, ids=str)
def test_the_catalogue_knows_what_a_dying_job_says(sim: Sim, kind: FaultKind) -> None:
    job = sim.cluster.submit(failing(kind, 15, rank=12, nodes=2))
    sim.until_true(job, lambda record: record.state.is_terminal)
    found = of_kind(signals(sim, job), SignalKind.FAILURE)
    classes = {catalogue.RULES_BY_ID[signal.rule].failure_class for signal in found}
    assert classes & CLASSES[kind], [signal.rule for signal in found]


@pytest.mark.parametrize("kind", [FaultKind.ECC, FaultKind.XID79], ids=str)
def test_the_cause_of_a_hardware_fault_names_its_node(sim: Sim, kind: FaultKind) -> None:
    job = sim.cluster.submit(failing(kind, 15, node="gpu-02", nodes=3))
    sim.until(job, JobState.FAILED)
    found = of_kind(signals(sim, job), SignalKind.FAILURE)
    causes = [s for s in found if catalogue.RULES_BY_ID[s.rule].role is Role.CAUSE]
    assert causes[0].node == "gpu-02"


def test_checkpoints_complete_under_way_and_torn(sim: Sim, tmp_path: Path) -> None:
    job = sim.cluster.submit(failing(FaultKind.TEAR, 15, shards=4))
    folder = str(sim.cluster.checkpoint_dir("llama"))

    def states() -> dict[int, CheckpointState]:
        scan = scan_checkpoints(folder, roots=[str(tmp_path)])
        return {look.step: look.state for look in scan.looks}

    sim.until_true(job, lambda _: "saving checkpoint at iteration      10" in sim.log(job), step_s=0.2)
    assert states() == {10: CheckpointState.ANNOUNCED}
    sim.until_true(job, lambda _: 25 in sim.steps(job))
    assert states() == {10: CheckpointState.COMPLETE, 20: CheckpointState.TORN}


def test_the_comment_is_understood(sim: Sim) -> None:
    job = sim.cluster.submit(train(run="llama-70b", max_restarts=2))
    options = parse_comment(sim.client.job(job).comment)
    assert (options.error, options.run, options.max_restarts) == ("", "llama-70b", 2)
    assert options.checkpoint_dir == str(sim.cluster.checkpoint_dir("llama-70b"))


@pytest.mark.parametrize("trainer", Trainer, ids=str)
def test_every_trainers_steps_and_restore_are_read(sim: Sim, trainer: Trainer) -> None:
    job = sim.cluster.submit(train(trainer=trainer, append=True, total_steps=45))
    sim.run(27)
    sim.client.requeue(job, hold=False)
    sim.until(job, JobState.COMPLETED)
    found = signals(sim, job)
    first = 0 if trainer is Trainer.NEMO else 1  # NeMo counts from 0
    steps = [signal.step for signal in of_kind(found, SignalKind.PROGRESS)]
    assert steps[0] == first
    assert steps[-1] == first + 44
    assert {signal.step for signal in of_kind(found, SignalKind.LOADED)} == {first + 19}
    assert of_kind(found, SignalKind.FINISHED)


def test_the_registry_opens_the_world(sim: Sim) -> None:
    client = client_for("simulator", {"state_dir": str(sim.cluster.state_dir)}, timeout_s=10)
    assert client.health().release == "22.05.8"
