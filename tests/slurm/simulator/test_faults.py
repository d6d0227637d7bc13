"""Each fault: what the log says, how the attempt ends, and what is left behind."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from recovery.core.types import JobState
from recovery.slurm.simulator import Fault, FaultKind
from tests.slurm.simulator.virtual import Sim, failing, train


@dataclass(frozen=True)
class Fatal:
    kind: FaultKind
    says: str  # a pattern that one line of the log matches
    state: JobState = JobState.FAILED
    reason: str = "NonZeroExitCode"
    exit_code: int = 1
    exit_signal: int | None = None
    exit_codes: tuple[int, ...] = (1,)


FATAL = [
    Fatal(FaultKind.TRACEBACK, r"\[rank12\]: KeyError: 'code-v3'"),
    Fatal(FaultKind.SEGFAULT, r"srun: error: gpu-02: task 12: Segmentation fault.*", exit_code=139, exit_codes=(139,)),
    Fatal(FaultKind.ECC, r"\[rank12\]: RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    Fatal(FaultKind.ECC, r"gpu-02:\d+:\d+ \[4\] \S+ NCCL WARN Cuda failure 'uncorrectable ECC error encountered'"),
    Fatal(FaultKind.XID79, r"\S+ gpu-02 kernel: NVRM: Xid \(PCI:0000:9b:00\): 79, .* GPU has fallen off the bus\."),
    Fatal(
        FaultKind.NCCL_TIMEOUT,
        r"\[rank0\]:\[E0203 04:\S+ \S+\] \[Rank 0\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=.*",
        exit_code=134,
        exit_codes=(134,),
    ),
    Fatal(
        FaultKind.HOST_OOM,
        r"slurmstepd: error: Detected 1 oom_kill event in StepId=\d+\.0\. .*",
        state=JobState.OUT_OF_MEMORY,
        reason="OutOfMemory",
        exit_code=0,
        exit_signal=125,
        exit_codes=(137,),
    ),
    Fatal(FaultKind.GPU_OOM, r"\[rank12\]: torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate .*"),
    Fatal(FaultKind.DISK_FULL, r"\[rank12\]: OSError: \[Errno 28\] No space left on device: '.*iter_0000020/.*'"),
]


@pytest.mark.parametrize("case", FATAL, ids=lambda case: case.kind.value)
def test_a_fatal_fault_says_what_it_is_and_ends_the_attempt(sim: Sim, case: Fatal) -> None:
    job = sim.cluster.submit(failing(case.kind, 15, rank=12, nodes=2))
    record = sim.until(job, case.state)
    assert (record.state_reason, record.exit_code, record.exit_signal) == (
        case.reason,
        case.exit_code,
        case.exit_signal,
    )
    assert sim.attempts(job)[0].step_exit_codes == case.exit_codes
    assert any(re.fullmatch(case.says, line) for line in sim.log(job).split("\n")), sim.log(job)[-3000:]


def test_the_last_step_reported_is_the_one_before_the_fault(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.TRACEBACK, 15))
    sim.until(job, JobState.FAILED)
    assert sim.steps(job)[-1] == 14


def test_a_fault_strikes_once_and_the_next_attempt_passes(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.TRACEBACK, 15, total_steps=40))
    sim.until(job, JobState.FAILED)
    sim.client.requeue(job, hold=False)
    sim.until(job, JobState.COMPLETED)
    assert sim.steps(job)[:1] == [11]
    assert sim.steps(job)[-1] == 40


def test_a_bug_strikes_in_every_attempt(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.TRACEBACK, 15, repeat=True))
    for restarts in range(3):
        assert sim.until(job, JobState.FAILED).restart_count == restarts
        assert sim.steps(job)[-1] == 14
        sim.client.requeue(job, hold=False)


def test_a_broken_gpu_strikes_as_long_as_the_job_runs_on_its_node(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.ECC, 15, node="gpu-02", repeat=True, nodes=2, total_steps=40))
    sim.until(job, JobState.FAILED)
    sim.client.requeue(job, hold=False)
    assert sim.until(job, JobState.FAILED).nodes == ("gpu-01", "gpu-02")
    sim.client.requeue(job, hold=True)
    sim.client.set_excluded_nodes(job, ("gpu-02",))
    sim.client.release(job)
    assert sim.until(job, JobState.COMPLETED).nodes == ("gpu-01", "gpu-03")


def test_a_fault_may_wait_for_an_attempt(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.TRACEBACK, 5, attempt=1, total_steps=1000))
    sim.run(30)
    assert sim.client.job(job).state is JobState.RUNNING
    sim.client.requeue(job, hold=False)
    assert sim.until(job, JobState.FAILED).restart_count == 1


def test_a_collective_time_out_is_silent_first_and_reported_by_the_victims(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.NCCL_TIMEOUT, 15, rank=2, seconds=30, nodes=1))
    sim.until_true(job, lambda _: sim.steps(job)[-1:] == [14])
    sim.run(25)
    assert sim.client.job(job).state is JobState.RUNNING
    assert "Watchdog" not in sim.log(job)
    sim.until(job, JobState.FAILED)
    reporters = re.findall(r"\[Rank (\d)\] Watchdog caught", sim.log(job))
    assert reporters == ["0", "1", "3", "4", "5", "6", "7"]


def test_a_hang_is_silent_and_runs_on(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.HANG, 15))
    sim.run(600)
    record = sim.client.job(job)
    assert record.state is JobState.RUNNING
    assert sim.steps(job)[-1] == 14
    assert "iteration" in sim.log(job).splitlines()[-1]


def test_a_slow_job_takes_longer_and_says_so(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.SLOW, 15, factor=3))
    sim.run(60)
    times = [float(found) for found in re.findall(r"per iteration \(ms\): ([\d.]+)", sim.log(job))]
    rates = [float(found) for found in re.findall(r"TFLOP/s/GPU\): ([\d.]+)", sim.log(job))]
    assert max(times[1:15]) < 1100
    assert min(times[15:]) > 2800
    assert min(rates[1:15]) > 380
    assert max(rates[15:]) < 150


def test_a_slow_job_is_fast_again_after_a_restart(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.SLOW, 5, factor=3))
    sim.run(30)
    sim.client.requeue(job, hold=False)
    sim.run(30)
    assert max(float(found) for found in re.findall(r"per iteration \(ms\): ([\d.]+)", sim.log(job))[1:]) < 1100


def test_with_nan_the_loss_field_disappears_and_the_counter_grows(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.NAN, 5))
    sim.run(15)
    lines = [line for line in sim.log(job).split("\n") if "] iteration" in line]
    assert ["lm loss" in line for line in lines[:6]] == [True] * 4 + [False] * 2
    assert lines[5].endswith("number of nan iterations:   2 |")


def test_a_torn_checkpoint_looks_finished_but_is_not_restored(sim: Sim) -> None:
    job = sim.cluster.submit(train(faults=(Fault(kind=FaultKind.TEAR, step=15),)))
    sim.until_true(job, lambda _: 25 in sim.steps(job))
    folder = sim.cluster.checkpoint_dir("llama")
    assert "successfully saved checkpoint from iteration      20" in sim.log(job)
    assert (folder / "latest_checkpointed_iteration.txt").read_text() == "20"
    sizes = [path.stat().st_size for path in sorted(folder.glob("iter_0000020/*/*.pt"))]
    assert sizes[0] > 200
    assert sizes[1] == 0
    sim.client.requeue(job, hold=False)
    sim.until_true(job, lambda record: record.restart_count == 1 and sim.steps(job)[:1] == [11])


def test_a_full_disk_leaves_a_torn_folder_and_the_tracker_where_it_was(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.DISK_FULL, 15))
    sim.until(job, JobState.FAILED)
    folder = sim.cluster.checkpoint_dir("llama")
    assert sim.checkpoints("llama") == ["iter_0000010", "iter_0000020"]
    assert (folder / "latest_checkpointed_iteration.txt").read_text() == "10"
    assert sim.steps(job)[-1] == 20


def test_a_job_can_stop_saving(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.STOP_SAVING, 15, total_steps=60))
    sim.until(job, JobState.COMPLETED)
    assert sim.checkpoints("llama") == ["iter_0000010"]


def test_a_restart_may_ignore_its_checkpoint(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.IGNORE_CHECKPOINT, 0))
    sim.until_true(job, lambda _: 25 in sim.steps(job))
    sim.client.requeue(job, hold=False)
    sim.until_true(job, lambda record: record.state is JobState.RUNNING and sim.steps(job)[:1] == [1])
    assert "will not load any checkpoints and will start from random" in sim.log(job)


def test_what_was_saved_before_a_start_from_scratch_is_no_longer_restored(sim: Sim) -> None:
    """Megatron goes by its tracker file, and that names what was saved last."""
    job = sim.cluster.submit(failing(FaultKind.IGNORE_CHECKPOINT, 0))
    sim.until_true(job, lambda _: 35 in sim.steps(job))
    for expected in (1, 11):
        sim.client.requeue(job, hold=False)
        sim.until_true(job, lambda record: record.state is JobState.RUNNING and 15 in sim.steps(job), within_s=60)
        assert sim.steps(job)[0] == expected


def test_the_user_cancels_by_himself(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.USER_CANCEL, 15, user="lin"))
    assert sim.until(job, JobState.CANCELLED).exit_signal == 15
    assert sim.attempts(job)[0].cancelled_by == "lin"


def test_a_node_goes_down_under_a_job(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.NODE_DOWN, 15, rank=12, nodes=2))
    record = sim.until_true(job, lambda record: record.restart_count == 1)
    assert record.state is JobState.COMPLETING
    assert {node.name for node in sim.client.nodes() if node.raw_state == "DOWN"} == {"gpu-02"}
    assert sim.until(job, JobState.RUNNING).nodes == ("gpu-01", "gpu-03")


def test_garbage_in_a_log_is_bytes_that_are_no_text(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.GARBAGE, 5))
    sim.run(15)
    data = sim.cluster.log_path(job).read_bytes()
    assert b"\x80\xff\x00\x07" in data
    assert b"x" * 1_000_000 in data
    assert sim.steps(job)[:6] == [1, 2, 3, 4, 5, 6]


def test_several_faults_strike_one_after_the_other(sim: Sim) -> None:
    faults = (
        Fault(kind=FaultKind.NAN, step=3),
        Fault(kind=FaultKind.SLOW, step=5, factor=2),
        Fault(kind=FaultKind.ECC, step=8),
        Fault(kind=FaultKind.TRACEBACK, step=12),
    )
    job = sim.cluster.submit(train(faults=faults, save_every=5))
    sim.until(job, JobState.FAILED)
    assert "uncorrectable ECC" in sim.log(job)
    assert sim.steps(job)[-1] == 7
    sim.client.requeue(job, hold=False)
    sim.until(job, JobState.FAILED)
    assert "KeyError" in sim.log(job)
    assert sim.steps(job) == [6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("wrong", [{"step": -1}, {"factor": 0}, {"seconds": -1}])
def test_a_fault_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="A fault needs"):
        Fault(kind=FaultKind.SLOW, **wrong)  # type: ignore[arg-type]
