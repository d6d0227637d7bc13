from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.speech import duration, listed, steps, tenths


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (0.42, "0.4 s"), (4, "4 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 m"), (130, "2 m 10 s"),
        (3600, "1 h"), (3605, "1 h"), (3660, "1 h 1 m"), (90_000, "1 d 1 h"), (86_400 + 59, "1 d"), (-130, "-2 m 10 s"),
    ],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@given(st.floats(min_value=0, max_value=1e9))
def test_every_duration_is_said(seconds: float) -> None:
    assert 2 <= len(duration(seconds).split()) <= 4


def test_little_is_not_said_to_be_none() -> None:
    assert [tenths(number) for number in (0.0, 0.0001, 0.049, 0.05, 12.34, 1204.0)] == [
        "0.0", "below 0.1", "below 0.1", "0.1", "12.3", "1\u202f204.0",
    ]  # fmt: skip


def test_steps_have_thin_spaces() -> None:
    assert (steps(840), steps(18_400), steps(1_000_000)) == ("840", "18\u202f400", "1\u202f000\u202f000")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d"], "a, b and 2 others"),
    ],
)  # fmt: skip
def test_lists_are_short(names: list[str], words: str) -> None:
    assert listed(names) == words
