from __future__ import annotations

import pytest

from recovery.core.detectors import detect
from recovery.core.detectors.crash import detect_crash
from recovery.core.types import AttemptFacts, FindingKind, JobState, SignalKind
from tests.core.attempts import LIMITS, at, attempt, ended, mark, read, samples, traceback

UNABLE = "Unable to load RNG state from checkpoint /ckpt. Specify --no-load-rng or --finetune to prevent this"


def reason(facts: AttemptFacts) -> str:
    finding = detect_crash(facts, LIMITS)
    assert finding is not None
    return finding.reason


@pytest.mark.parametrize(
    "state",
    [
        JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL, JobState.PREEMPTED, JobState.OUT_OF_MEMORY,
        JobState.BOOT_FAIL, JobState.DEADLINE, JobState.CANCELLED, JobState.REQUEUED,
    ],
)  # fmt: skip
def test_every_end_but_completion_is_a_finding(state: JobState) -> None:
    (finding,) = detect(ended(state), LIMITS)
    assert finding.kind is FindingKind.CRASH
    assert finding.evidence[0].source == "scheduler"


@pytest.mark.parametrize(
    "state",
    [JobState.PENDING, JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED, JobState.UNKNOWN],
)
def test_an_attempt_that_has_not_ended_has_not_crashed(state: JobState) -> None:
    assert detect_crash(attempt(state=state, exit_code=1), LIMITS) is None


def test_a_completed_attempt_has_not_crashed() -> None:
    assert detect(ended(JobState.COMPLETED, exit_code=0, samples=samples(5)), LIMITS) == []
    assert detect(ended(JobState.REVOKED, exit_code=None), LIMITS) == []


def test_a_cancel_is_recorded_with_who() -> None:
    assert reason(ended(JobState.CANCELLED, cancelled_by="ana")) == "Slurm says that the job was cancelled by ana."
    assert reason(ended(JobState.CANCELLED)) == "Slurm says that the job was cancelled."


def test_the_exit_is_named() -> None:
    assert reason(ended(exit_code=3)) == "Slurm says that the job failed (exit code 3)."
    assert reason(ended(exit_code=0, exit_signal=11)) == "Slurm says that the job failed (signal 11)."
    assert reason(ended(exit_code=None, state_reason="NodeDown")) == "Slurm says that the job failed (NodeDown)."


def test_completed_with_an_exit_code_is_no_completion() -> None:
    assert "ended badly (exit code 2)" in reason(ended(JobState.COMPLETED, exit_code=2))


def test_a_script_can_hide_its_steps_failure() -> None:
    assert "exit code 7: the script hid it" in reason(ended(JobState.COMPLETED, exit_code=0, step_exit_codes=(0, 7)))


def test_a_failed_side_step_of_a_finished_training_is_no_crash() -> None:
    facts = ended(
        JobState.COMPLETED,
        exit_code=0,
        step_exit_codes=(1,),
        signals=(mark(SignalKind.FINISHED, 9),),
        samples=samples(5),
    )
    assert detect(facts, LIMITS) == []


def test_a_trainer_may_end_with_status_0_after_a_failed_load() -> None:
    facts = ended(JobState.COMPLETED, exit_code=0, signals=read([UNABLE]))
    assert "could not load its checkpoint" in reason(facts)


def test_a_load_that_failed_before_the_training_is_forgiven() -> None:
    facts = ended(JobState.COMPLETED, exit_code=0, signals=read([UNABLE]), samples=samples(5))
    assert detect(facts, LIMITS) == []


def test_the_fault_began_with_the_first_dated_failure_after_the_last_step() -> None:
    facts = ended(
        samples=samples(3),
        signals=read([f"{at(500):%Y-%m-%d %H:%M:%S} ERROR KeyError: 'a'", *traceback("KeyError: 'a'")]),
    )
    finding = detect_crash(facts, LIMITS)
    assert finding is not None
    assert finding.since == at(1000)  # an ERROR record of an exception is no rule of ours; the traceback has no date
    dated = read(
        [f"slurmstepd: error: *** JOB 1 ON gpu-01 CANCELLED AT {at(700):%Y-%m-%dT%H:%M:%S} DUE TO TIME LIMIT ***"]
    )
    finding = detect_crash(ended(JobState.TIMEOUT, samples=samples(3), signals=dated), LIMITS)
    assert finding is not None
    assert finding.since == at(700)


@pytest.mark.parametrize("second", [120, 1000])
def test_the_moments_of_the_last_step_and_of_the_end_still_count(second: int) -> None:
    line = f"slurmstepd: error: *** JOB 1 ON gpu-01 CANCELLED AT {at(second):%Y-%m-%dT%H:%M:%S} DUE TO TIME LIMIT ***"
    finding = detect_crash(ended(JobState.TIMEOUT, samples=samples(3), signals=read([line])), LIMITS)
    assert finding is not None
    assert finding.since == at(second)


def test_a_failure_before_the_last_step_is_not_when_it_began() -> None:
    early = read([f"slurmstepd: error: *** STEP 1.0 ON gpu-01 CANCELLED AT {at(60):%Y-%m-%dT%H:%M:%S} ***"])
    finding = detect_crash(ended(samples=samples(3), signals=early), LIMITS)
    assert finding is not None
    assert finding.since == at(1000)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
BUG = "KeyError: 'labels'"
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"


def hidden(*lines: str, **fields: object) -> AttemptFacts:
    return ended(JobState.COMPLETED, exit_code=0, samples=samples(5), signals=read(lines), **fields)


@pytest.mark.parametrize("lines", [traceback(OOM), [*traceback(BUG), CHILD]])
def test_a_script_can_hide_a_failure_that_only_the_log_tells(lines: list[str]) -> None:
    assert "the log ends with a failure of the training" in reason(hidden(*lines))


@pytest.mark.parametrize("lines", [[OOM], traceback(BUG), traceback("RuntimeError: driver shutting down")])
def test_an_error_in_the_log_of_a_completed_job_proves_no_crash(lines: list[str]) -> None:
    assert detect(hidden(*lines), LIMITS) == []


def test_steps_that_are_known_to_have_ended_well_are_believed() -> None:
    assert detect(hidden(*traceback(OOM), step_exit_codes=(0,)), LIMITS) == []
