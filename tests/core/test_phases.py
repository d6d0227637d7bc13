from __future__ import annotations

from functools import reduce

import pytest

from recovery.core.phases import next_phase
from recovery.core.types import Phase, Signal, SignalKind

P, S = Phase, SignalKind


def signal(kind: SignalKind) -> Signal:
    return Signal(kind=kind, file="f", line=1, offset=0, text="", rule="r")


def after(*kinds: SignalKind, start: Phase = P.STARTING) -> Phase:
    return reduce(lambda phase, kind: next_phase(phase, signal(kind)), kinds, start)


@pytest.mark.parametrize(
    ("kinds", "phase"),
    [
        ([S.LOADED], P.FIRST_STEP),
        ([S.FRESH_START], P.FIRST_STEP),
        ([S.LOADED, S.PROGRESS], P.TRAINING),
        ([S.PROGRESS, S.SAVE_STARTED], P.SAVING),
        ([S.PROGRESS, S.SAVE_STARTED, S.SAVE_DURABLE], P.TRAINING),
        ([S.PROGRESS, S.SAVE_STARTED, S.PROGRESS], P.TRAINING),  # asynchronous: training went on
        ([S.PROGRESS, S.SAVE_STARTED, S.PROGRESS, S.SAVE_DURABLE], P.TRAINING),
        ([S.PROGRESS, S.FINISHED], P.FINISHING),
        ([S.PROGRESS, S.FINISHED, S.SAVE_STARTED], P.FINISHING),  # the last save comes after the farewell
        ([S.PROGRESS, S.FINISHED, S.SAVE_STARTED, S.SAVE_DURABLE], P.FINISHING),
        ([S.PROGRESS, S.FINISHED, S.PROGRESS], P.TRAINING),
        ([S.PROGRESS, S.FAILURE], P.TRAINING),
        ([S.PROGRESS, S.SAVE_STARTED, S.FAILURE], P.SAVING),
        ([S.PROGRESS, S.LOADED], P.FIRST_STEP),  # a launcher started its workers anew
        ([S.LOADED, S.SAVE_STARTED, S.SAVE_DURABLE, S.PROGRESS], P.TRAINING),
        ([S.PROGRESS, S.EVAL_STARTED], P.EVALUATING),
        ([S.PROGRESS, S.EVAL_STARTED, S.EVAL_FINISHED], P.TRAINING),
        ([S.PROGRESS, S.EVAL_STARTED, S.PROGRESS], P.TRAINING),  # not every trainer says when it ends
        ([S.PROGRESS, S.EVAL_FINISHED], P.TRAINING),  # nor that it begins
        ([S.PROGRESS, S.EVAL_STARTED, S.SAVE_DURABLE], P.EVALUATING),  # an asynchronous save ends meanwhile
        ([S.PROGRESS, S.SAVE_STARTED, S.EVAL_STARTED], P.EVALUATING),  # the end of the save was not printed
        ([S.PROGRESS, S.EVAL_STARTED, S.SAVE_STARTED, S.SAVE_DURABLE], P.TRAINING),
        ([S.LOADED, S.EVAL_STARTED, S.EVAL_FINISHED], P.FIRST_STEP),  # before training: the first step lies ahead
        ([S.EVAL_STARTED], P.FIRST_STEP),
        ([S.PROGRESS, S.FINISHED, S.EVAL_STARTED], P.FINISHING),
    ],
)
def test_the_course_of_an_attempt(kinds: list[SignalKind], phase: Phase) -> None:
    assert after(*kinds) is phase


@pytest.mark.parametrize("start", [P.QUEUED, P.STARTING, P.UNKNOWN])
@pytest.mark.parametrize("kind", [S.FAILURE, S.SAVE_DURABLE])
def test_the_first_word_of_any_kind_ends_the_start(start: Phase, kind: SignalKind) -> None:
    assert after(kind, start=start) is P.FIRST_STEP


def test_the_end_of_a_save_is_no_step() -> None:
    assert after(S.SAVE_DURABLE, start=P.FIRST_STEP) is P.FIRST_STEP


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("kind", list(SignalKind))
def test_every_phase_answers_every_signal(phase: Phase, kind: SignalKind) -> None:
    assert after(kind, start=phase) not in (P.QUEUED, P.STARTING, P.UNKNOWN)


@pytest.mark.parametrize("phase", list(Phase))
def test_progress_is_training_whatever_went_before(phase: Phase) -> None:
    assert after(S.PROGRESS, start=phase) is P.TRAINING
