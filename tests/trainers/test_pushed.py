"""What the client's callbacks told when real trainers called them (record.py): half of a training, and the rest."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recovery.core.phases import next_phase
from recovery.core.pushed import Wrong, read_row, signals_of
from recovery.core.types import Phase, Signal, SignalKind

RECORDED = Path(__file__).parent / "recorded"
NOW = datetime(2026, 1, 11, tzinfo=UTC)
S, P = SignalKind, Phase
NAMES = ["hf_push", "lightning_push"]


def told(name: str, moment: str) -> list[Signal]:
    rows: list[dict[str, Any]] = json.loads((RECORDED / name / f"{moment}.json").read_text())
    read = [read_row(row, index=index, received_at=NOW) for index, row in enumerate(rows)]
    assert not [row for row in read if isinstance(row, Wrong)]
    good = [row for row in read if not isinstance(row, Wrong)]
    return [signal for line, row in enumerate(good) for signal in signals_of(row, line=line)]


def steps(signals: list[Signal], kind: SignalKind) -> list[int | None]:
    return [signal.step for signal in signals if signal.kind is kind]


@pytest.mark.parametrize("name", NAMES)
def test_a_training_from_scratch_and_the_rest_of_it_are_told_apart(name: str) -> None:
    half, rest = told(name, "half"), told(name, "resumed")
    assert (half[0].kind, rest[0].kind, rest[0].step) == (S.FRESH_START, S.LOADED, 12)
    assert rest[0].path == f"/tmp/ckpt/{name}"
    assert (half[-1].kind, rest[-1].kind) == (S.FINISHED, S.FINISHED)
    assert steps(half, S.PROGRESS)[-1] == 12
    assert steps(rest, S.PROGRESS)[-1] == 24
    assert all(signal.loss is not None for signal in (*half, *rest) if signal.kind is S.PROGRESS)


def test_each_save_is_told_when_it_begins_and_by_hugging_face_when_it_is_whole() -> None:
    for moment, expected in (("half", [4, 8, 12]), ("resumed", [16, 20, 24])):
        for name in NAMES:
            assert steps(told(name, moment), S.SAVE_STARTED) == expected
        assert steps(told("hf_push", moment), S.SAVE_DURABLE) == expected


@pytest.mark.parametrize(("name", "pauses"), [("hf_push", 5), ("lightning_push", 4)])
def test_a_trainer_that_saves_or_evaluates_is_not_called_training(name: str, pauses: int) -> None:
    """A report of the same step that came after would end the phase, and the pause would look like a hang."""
    phase, seen = P.QUEUED, []
    for signal in told(name, "half"):
        following = next_phase(phase, signal)
        if following is not phase:
            seen.append(following)
        phase = following
    assert seen[:2] == [P.FIRST_STEP, P.TRAINING]
    assert seen[-1] is P.FINISHING
    assert sum(phase in (P.SAVING, P.EVALUATING) for phase in seen) == pauses
