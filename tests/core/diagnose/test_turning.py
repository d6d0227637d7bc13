"""Each verdict says what would change it."""

from __future__ import annotations

from dataclasses import replace

from recovery.core.diagnose import diagnose
from recovery.core.types import AttemptFacts, GpuFacts, JobState
from tests.core.attempts import attempt, crash, ended, event, hang, read, samples, traceback

ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"


def turning(facts: AttemptFacts) -> str:
    return diagnose(facts, crash(facts)).coverage["what would change it"]


def test_nothing_changes_a_cancel() -> None:
    assert turning(ended(JobState.CANCELLED, cancelled_by="svc-idle")) == "nothing: who cancels a job decides"


def test_a_kernel_message_would_change_what_a_process_says_of_its_gpu() -> None:
    facts = ended(JobState.FAILED, signals=read(traceback(ILLEGAL, rank=3)))
    assert "an Xid" in turning(facts)
    assert "again after a restart" in turning(facts)
    known = ended(
        JobState.FAILED, signals=read(traceback(ILLEGAL, rank=3)), node_events=[event("gpu-02", "Kill task failed")]
    )
    assert "an Xid" not in turning(known)


def test_a_missing_record_is_named() -> None:
    assert "the scheduler's record" in turning(ended(JobState.UNKNOWN, signals=read(traceback("KeyError: 'a'"))))


def test_a_checkpoint_would_change_a_time_limit_without_one() -> None:
    assert "checkpoint that this attempt made" in turning(ended(JobState.TIMEOUT, samples=samples(40)))


def test_a_hang_says_what_would_end_it_and_what_else_could_tell_of_it() -> None:
    def told(facts: AttemptFacts) -> str:
        return diagnose(facts, hang(facts)).coverage["what would change it"]

    silent = attempt(samples=samples(40))
    assert told(silent).startswith("a new step, or files of a checkpoint that change; readings of its GPUs")
    measured = replace(silent, gpu=GpuFacts(at=silent.now, nodes=4, utilisation=97.0))
    assert "a new step" in told(measured)
    assert "readings" not in told(measured)
