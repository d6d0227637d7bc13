"""Where a progress line's values stand depends on nothing but its shape: one line of a shape tells all others."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.logs import LogParser
from recovery.core.logs.columns import InColumns
from recovery.core.logs.cut import LogBytes
from recovery.core.logs.formats import FORMATS
from recovery.core.logs.lines import clean, layout_of
from recovery.core.types import Signal, SignalKind
from tests.core.logs.corpus import CASES, lines_of
from tests.core.logs.test_bytes import slowly

COLUMNAR = [each for each in FORMATS if isinstance(each, InColumns)]
TEXTS = sorted({clean(line.text).text for case in CASES for line in lines_of(case)})
PROGRESS = {each.name: [text for text in TEXTS if each.columns(text)] for each in COLUMNAR}
LINES = [
    line.text
    for case in CASES
    for line in lines_of(case)
    if any(each.columns(clean(line.text).text) for each in COLUMNAR)
]
SEEDS = st.integers(0, 2**32).map(random.Random)


def other_digits(text: str, chance: random.Random) -> str:
    return re.sub("[0-9]", lambda _: str(chance.randrange(10)), text)


def fast(*lines: str) -> list[Signal]:
    return LogParser().feed_bytes(LogBytes(data="\n".join(lines).encode(), file="a"))


@pytest.mark.parametrize("each", COLUMNAR, ids=lambda each: each.name)
def test_every_such_format_has_progress_in_the_corpus(each: InColumns) -> None:
    assert PROGRESS[each.name]


@settings(max_examples=60)
@given(st.sampled_from(TEXTS), SEEDS)
def test_the_places_are_those_of_any_other_digits(text: str, chance: random.Random) -> None:
    other = other_digits(text, chance)
    assert layout_of(other) == layout_of(text)
    for each in COLUMNAR:
        assert each.columns(other) == each.columns(text)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=6), SEEDS, st.sampled_from(["", "\x1b[31m", "\0", "\t"]))
def test_lines_of_a_known_shape_say_what_they_say_when_read_with_patterns(
    lines: list[str], chance: random.Random, noise: str
) -> None:
    lines = [line.replace(" ", f" {noise}", 2) + noise for line in lines]
    fast(*lines)
    others = [other_digits(line, chance) for line in lines]
    assert fast(*others) == slowly("\n".join(others).encode(), own=False)


def test_a_known_shape_whose_digits_say_more_is_read_whole() -> None:
    text = (
        " [2026-02-03 04:05:06.700000] iteration      840/    5000 | consumed samples:       215040 | elapsed time per"
        " iteration (ms): 4312.7 | lm loss: 2.61E+00 | number of nan iterations:   0 |"
    )
    assert [signal.kind for signal in fast(text, text)] == [SignalKind.PROGRESS] * 2
    worse = text.replace("nan iterations:   0", "nan iterations:   3")
    assert {signal.kind for signal in fast(text, worse)[1:]} == {SignalKind.PROGRESS, SignalKind.FAILURE}


def test_a_step_beyond_what_trainers_count_is_none_in_a_known_shape_either() -> None:
    text = (
        "[titan] 2026-02-03 04:05:06,700 - root - INFO - step: {}  loss:  7.01234  memory:  1.0GiB(1.00%)  tps: 5,120"
    )
    signals = fast(text.format("1000000000"), text.format("1000000001"), text.format("9999999999"[:10]))
    assert [signal.step for signal in signals] == [1_000_000_000, 1_000_000_001]


def test_between_lines_of_a_known_shape_other_lines_are_not_missed() -> None:
    step = "iter {}: loss 3.2011, time 190.44ms, mfu 41.02%"
    saved = ["step 500: train loss 3.1000, val loss 3.1500", "saving checkpoint to /out"]
    signals = fast(*(step.format(n) for n in range(500, 503)), *saved, *(step.format(n) for n in range(503, 506)))
    assert [signal.step for signal in signals] == [500, 501, 502, 500, 500, 503, 504, 505]


def test_a_number_that_no_mean_can_be_made_of_is_none() -> None:
    lines = "\n".join(f"iter {step}: loss {step}e{power}, time 2ms" for step, power in ((1, 200), (2, 100), (3, 38)))
    assert [(signal.step, signal.loss) for signal in fast(lines)] == [(1, None), (2, None), (3, 3e38)]


def test_a_speed_too_small_to_be_one_gives_no_step_time() -> None:
    text = "| INFO | train_inner | epoch 002:    300 / 1500 loss=4.2, ppl=18, wps=9000, ups={}, num_updates=1800"
    (signal,) = fast(text.format("1e-310"))
    assert (signal.step, signal.step_time_s) == (1800, None)
