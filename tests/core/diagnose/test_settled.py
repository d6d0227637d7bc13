"""Verdicts on attempts that have not ended: hanging, slow, healthy, or not to be seen."""

from __future__ import annotations

import pytest

from recovery.core.diagnose import diagnose, healthy
from recovery.core.types import (
    AttemptFacts,
    Diagnosis,
    Exclude,
    FailureClass,
    Finding,
    FindingKind,
    JobState,
    Restart,
    SignalKind,
)
from tests.core.attempts import at, attempt, checkpoints, ended, event, hang, mark, read, samples

C = FailureClass
XID79 = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
TIMEOUT = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"


def said(got: Diagnosis) -> tuple[FailureClass, Restart, Exclude, tuple[str, ...]]:
    return got.failure_class, got.restart, got.exclude, got.nodes


# --- hangs and slowness -----------------------------------------------------------------------------------------------


def test_a_hang_without_a_word() -> None:
    facts = attempt(samples=samples(20))
    got = diagnose(facts, hang(facts))
    assert said(got) == (C.HANG_SILENT, Restart.ONCE, Exclude.NONE, ())
    assert got.reason.startswith("No progress for 10 m.")


def test_a_hang_in_which_collectives_timed_out() -> None:
    facts = attempt(samples=samples(20), signals=read([TIMEOUT]))
    assert said(diagnose(facts, hang(facts)))[:3] == (C.HANG_COLLECTIVE, Restart.ONCE, Exclude.IF_REPEATED)


def test_a_hang_with_a_cause_is_that_cause() -> None:
    facts = attempt(samples=samples(20), node_events=[event("gpu-02", XID79, 820)])
    assert said(diagnose(facts, hang(facts))) == (C.GPU_HARDWARE, Restart.YES, Exclude.NODES, ("gpu-02",))


def test_a_slow_job_gets_advice_only() -> None:
    facts = attempt(samples=samples(20))
    slow = Finding(kind=FindingKind.SLOWDOWN, since=at(0), reason="Steps take 2.5 times as long.", confidence=0.8)
    assert said(diagnose(facts, slow)) == (C.STRAGGLER, Restart.NO, Exclude.NONE, ())


# --- nothing found ----------------------------------------------------------------------------------------------------


def test_healthy_words() -> None:
    assert said(healthy(ended(JobState.COMPLETED, exit_code=0)))[:2] == (C.COMPLETED, Restart.NO)
    assert said(healthy(attempt(samples=samples(9))))[:2] == (C.NOT_A_FAILURE, Restart.NO)
    blind = healthy(attempt(blind_reason="No progress format matched."))
    assert said(blind)[:2] == (C.UNKNOWN, Restart.NO)
    assert "No progress format matched" in blind.reason


def test_a_log_alone_is_read_for_what_it_says() -> None:
    finished = attempt(state=JobState.UNKNOWN, signals=(mark(SignalKind.FINISHED, 9),))
    assert healthy(finished).failure_class is C.COMPLETED
    assert healthy(attempt(state=JobState.UNKNOWN)).failure_class is C.UNKNOWN


def test_an_attempt_far_behind_its_checkpoints_has_not_resumed() -> None:
    fresh = attempt(samples=samples(5), signals=(mark(SignalKind.FRESH_START, 1),), checkpoints=checkpoints(400, 800))
    assert said(healthy(fresh))[:2] == (C.NOT_RESUMED, Restart.AFTER_CHANGE)
    assert "from scratch" in healthy(fresh).reason
    older = attempt(
        samples=samples(5, first_step=410),
        signals=(mark(SignalKind.LOADED, 1, step=400),),
        checkpoints=checkpoints(400, 800),
    )
    assert "from step 400" in healthy(older).reason
    right = attempt(
        samples=samples(5, first_step=810),
        signals=(mark(SignalKind.LOADED, 1, step=800),),
        checkpoints=checkpoints(400, 800),
    )
    assert healthy(right).failure_class is C.NOT_A_FAILURE


def test_checkpoints_that_it_made_itself_do_not_accuse_it() -> None:
    facts = attempt(samples=samples(50), signals=(mark(SignalKind.FRESH_START, 1),), checkpoints=checkpoints(200, 400))
    assert healthy(facts).failure_class is C.NOT_A_FAILURE


def test_the_saves_of_an_appended_log_tell_what_was_lost() -> None:
    saved = mark(SignalKind.SAVE_DURABLE, 1, step=800)
    fresh = attempt(samples=samples(5), signals=(saved, mark(SignalKind.FRESH_START, 2)))
    assert "the checkpoint of step 800" in healthy(fresh).reason
    assert (
        healthy(attempt(samples=samples(5), signals=(mark(SignalKind.FRESH_START, 2),))).failure_class
        is C.NOT_A_FAILURE
    )
    assert (
        healthy(attempt(signals=(mark(SignalKind.FRESH_START, 2),), checkpoints=checkpoints(9))).failure_class
        is C.NOT_A_FAILURE
    )


def test_a_checkpoint_at_the_very_step_is_no_accusation() -> None:
    facts = attempt(samples=samples(5), signals=(mark(SignalKind.FRESH_START, 1),), checkpoints=checkpoints(50))
    assert healthy(facts).failure_class is C.NOT_A_FAILURE


def test_a_vanished_loss_is_an_alarm() -> None:
    reports = [*samples(9), *samples(3, first_step=100, every_s=1000, loss=None)]
    assert said(healthy(attempt(samples=reports)))[:2] == (C.NUMERICS, Restart.AFTER_CHANGE)
    assert healthy(attempt(samples=samples(12, loss=None))).failure_class is C.NOT_A_FAILURE
    few = [*samples(3), *samples(3, first_step=100, every_s=1000, loss=None)]
    assert healthy(attempt(samples=few)).failure_class is C.NUMERICS
    nan = [*samples(9), *samples(3, first_step=100, every_s=1000, loss=float("nan"))]
    assert healthy(attempt(samples=nan)).failure_class is C.NUMERICS


def _hugging_face(lost_from: int, reports: int = 12) -> AttemptFacts:
    lines = [
        f"  {i}%|▌   | {i}/1000 [03:10<1:00:12,  3.80s/it]{{'loss': {0.0 if i > lost_from else 1.9}, "
        f"'grad_norm': {'nan' if i > lost_from else 0.3}, 'learning_rate': 1e-05, 'epoch': 0.42}}"
        for i in range(1, reports + 1)
    ]
    return attempt(signals=read(lines), samples=samples(reports))


def test_a_lost_gradient_is_an_alarm_whatever_the_loss_reads() -> None:
    assert healthy(_hugging_face(lost_from=6)).failure_class is FailureClass.NUMERICS


@pytest.mark.parametrize("lost_from", [10, 2])
def test_a_lost_gradient_at_the_start_or_just_now_is_none(lost_from: int) -> None:
    assert healthy(_hugging_face(lost_from)).failure_class is FailureClass.NOT_A_FAILURE
