"""NVRx's launcher: exit code 93 is its word not to restart the job; what it dealt with within the job is no failure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from recovery.core.diagnose.clues import gather
from recovery.core.diagnose.exits import as_nvrx_says, by_status
from recovery.core.diagnose.verdict import Verdict
from recovery.core.types import AttemptFacts, FailureClass, JobState, Restart, Signal, SignalKind
from tests.core.attempts import START

FACTS = AttemptFacts(now=START, seen_at=START, state=JobState.FAILED, exit_code=93)


def test_alone_it_says_no() -> None:
    verdict = by_status(FACTS)
    assert (verdict.failure_class, verdict.restart) == (FailureClass.UNKNOWN, Restart.NO)
    assert "93" in verdict.reason


@pytest.mark.parametrize("facts", [FACTS, replace(FACTS, exit_code=1, step_exit_codes=(0, 93))])
def test_no_cause_is_restarted_against_it(facts: AttemptFacts) -> None:
    cause = Verdict(
        failure_class=FailureClass.GPU_HARDWARE, restart=Restart.YES, confidence=0.9, reason="A GPU failed."
    )
    told = as_nvrx_says(facts, cause)
    assert (told.failure_class, told.restart) == (FailureClass.GPU_HARDWARE, Restart.NO)
    assert told.reason.startswith("A GPU failed. ")


def test_any_other_code_changes_nothing() -> None:
    cause = Verdict(failure_class=FailureClass.NODE_FAULT, restart=Restart.YES, confidence=0.9, reason="x")
    assert as_nvrx_says(replace(FACTS, exit_code=1), cause) is cause


def test_what_workers_said_before_they_were_started_anew_ended_nothing() -> None:
    ecc = Signal(
        kind=SignalKind.FAILURE, file="log", line=7, offset=0, rule="cuda.ecc_uncorrectable",
        text="RuntimeError: CUDA error: uncorrectable ECC error encountered", at=START + timedelta(minutes=5),
    )  # fmt: skip
    facts = replace(FACTS, exit_code=1, nodes=("n1",), started_at=START, signals=(ecc,))
    assert [clue.rule.id for clue in gather(facts).causes] == ["cuda.ecc_uncorrectable"]
    assert not gather(replace(facts, workers_at=START + timedelta(minutes=6))).causes
    assert gather(replace(facts, workers_at=START + timedelta(minutes=4))).causes
