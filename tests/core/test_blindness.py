"""Blind: what is said, and what would help."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from recovery.core.blindness import LINES_BEFORE_BLIND, MUTE, UNKNOWN_FORMAT, Sight, blindness
from tests.core.attempts import at

START = at(0)
GROWING = Sight(now=at(1000), started_at=START, patience_s=1800.0, stepped=False, lines=50, grew_at=at(990))
ADVICE = "Lightning: use the other bar."


@pytest.mark.parametrize("sight", [GROWING, replace(GROWING, lines=LINES_BEFORE_BLIND + 1)])
def test_the_remedy_is_the_trainers_own_where_one_is_heard(sight: Sight) -> None:
    assert blindness(sight)[1] == UNKNOWN_FORMAT
    reason, remedy = blindness(replace(sight, advice=ADVICE))
    assert reason == blindness(sight)[0]
    assert remedy.startswith(ADVICE)
    assert "docs/trainers.md" in remedy


def test_a_trainer_whose_bar_leaves_nothing_is_blind_and_not_silent() -> None:
    quiet = replace(GROWING, grew_at=START + timedelta(seconds=10), mute=True, advice=ADVICE)
    assert blindness(quiet) == (MUTE, f"{ADVICE} docs/trainers.md has more.")
    assert blindness(replace(quiet, mute=False)) == ("", "")  # then its silence speaks
    assert blindness(replace(quiet, now=at(800))) == ("", "")  # it has half of the time of a first step
    assert blindness(replace(quiet, stepped=True)) == ("", "")  # it reports its steps all the same
