from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.logs import LogParser
from recovery.core.logs.own_pattern import LONGEST, OwnPattern, PatternError, own_pattern
from recovery.core.policy import DEFAULT_RULES, LOG_PATTERN, check_rules, log_pattern
from recovery.core.types import SignalKind
from tests.core.logs.lines import signals_of


def values(pattern: str, line: str) -> tuple[object, ...] | None:
    mark = own_pattern(pattern).read(line)
    return None if mark is None else (mark.step, mark.loss, mark.throughput, mark.step_time_s, mark.tokens)


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        (r"upd (?P<step>\d+)", "12:00 upd 7", (7, None, None, None, None)),
        (r"upd (?P<step>[0-9,]+)", "upd 12,345", (12345, None, None, None, None)),
        (r"upd (?P<step>\d+).*L=(?P<loss>\S+)", "upd 7 (x) L=2.5 L=9", (7, 2.5, None, None, None)),
        (r".*upd (?P<step>\d+).*", "so upd 7", (7, None, None, None, None)),
        (r"^(?P<step>\d+);(?P<loss>[0-9.]+);(?P<step_time_ms>\d+)$", "7;2.5;250", (7, 2.5, None, 0.25, None)),
        (r"^\s*n=(?P<step>\d+)\s*t=(?P<step_time_s>[0-9.]+)", "  n=7 t=0.5", (7, None, None, 0.5, None)),
        (
            r"\[upd\] (?P<step>\d+)/\d+ .*tok/s=(?P<throughput>[0-9,.]+)", "[upd] 7/90 | tok/s=1,500.5",
            (7, None, 1500.5, None, None),
        ),
        (r"upd (?P<step>\d+) seen (?P<tokens>\d+)", "upd 7 seen 4096", (7, None, None, None, 4096.0)),
        (r"upd (?P<step>\d+).*L=(?P<loss>\S+)", "upd 7 L=nan", (7, None, None, None, None)),
        (r"upd (?P<step>\S+)", "upd seven", None),
        (r"upd (?P<step>\d+)", "upd 99999999999", None),
        (r"upd (?P<step>\d+)", "up 7", None),
        (r"upd (?P<step>\d+)", "upd x, upd y, upd 7", (7, None, None, None, None)),
        (r"upd (?P<step>\d+)", "upd x " * 8 + "upd 7", None),  # tried so often and no more
        (r"upd (?P<step>\d{1,3}):", "upd 12:", (12, None, None, None, None)),
        (r"upd (?P<step>\d+)$", "upd 12 ", None),
    ],
)  # fmt: skip
def test_what_a_pattern_reads(pattern: str, line: str, expected: tuple[object, ...] | None) -> None:
    assert values(pattern, line) == expected


def test_it_is_progress() -> None:
    mark = own_pattern(r"upd (?P<step>\d+)").read("upd 7")
    assert mark is not None
    assert (mark.kind, mark.rule) == (SignalKind.PROGRESS, "own.progress")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("upd \\d+", "The group step is missing"),
        ("", "The group step is missing"),
        (r"(?P<step>\d+)", "must begin with at least 2"),
        (r"u(?P<step>\d+)", "must begin with at least 2"),
        (r"\w+ (?P<step>\d+)", "must begin with at least 2"),
        (r"upd (?P<step>\d+) (?P<speed>\d+)", "the group speed can't stand here"),
        (r"upd (?P<step>\d+) (?P<step>\d+)", "the group step can't stand here"),
        (r"upd (?P<step>\d+(?P<loss>\d))", "the group loss can't stand here"),
        (r"upd (?P<step>\d+", "A group is not ended"),
        (r"upd (?P<step>\d+))", "this ) ends nothing"),
        (r"upd (?P<step>.*)", ".* can't stand inside a group"),
        (r"upd (\d+)(?P<step>\d)", "( is not allowed here"),
        (r"upd (?:a|b)(?P<step>\d+)", "( is not allowed here"),
        (r"upd|step (?P<step>\d+)", "| is not allowed here"),
        (r"upd (?=x)(?P<step>\d+)", "( is not allowed here"),
        (r"upd (?P<step>\d+)\b", r"\b is not among what is allowed"),
        (r"upd (?P<step>\d+)\1", r"\1 is not among what is allowed"),
        (r"upd (?P<step>\d+)+", "+ is not allowed here"),
        (r"upd (?P<step>\d+?)", "can't follow it"),
        (r"upd (?P<step>\d++)", "can't follow it"),
        (r"upd (?P<step>\d+)\d", r"could be part of \d+"),
        (r"upd \S+,(?P<step>\d+)", r"could be part of \S+"),
        (r"upd \S+(?P<step>\d+)", r"could be part of \S+"),
        (r"upd a*b?a(?P<step>\d+)", "could be part of a*"),
        (r"upd .*(?P<step>\d+)", "fixed text must follow .*"),
        (r"upd .(?P<step>\d+)", ". is not allowed here"),
        (r"upd [9-0](?P<step>\d+)", "is no set of characters"),
        (r"upd [0-9(?P<step>\d+)", "[ is not allowed here"),
        (r"upd [[0-9](?P<step>\d+)", "[ is not allowed here"),
        (r"upd [a--b](?P<step>\d+)", "-- can't stand in a set"),
        ("upd (?P<step>\\d+)" + "x" * LONGEST, "longer than"),
        ("upd (?P<step>\\d+)\\", "\\ is not allowed here"),
    ],
)
def test_what_is_refused_and_why(pattern: str, says: str) -> None:
    with pytest.raises(PatternError, match=re.escape(says)):
        own_pattern(pattern)


PARTS = st.sampled_from(
    ["upd ", "a", "b", " ", r"\d", r"\s", r"\S", r"\w", "[0-9.]", "[^ ]", "+", "*", "?", "{1,3}", "{2}", ".*", "^", "$",
     "(?P<step>", "(?P<loss>", ")", "(", "|", "\\", "[", "x", "=", r"\d+", r"\S*"]
)  # fmt: skip


@given(st.lists(PARTS, max_size=14).map("".join), st.text(alphabet="upd ab0.=x\t", max_size=60))
def test_whatever_is_written_it_is_refused_or_works(text: str, line: str) -> None:
    try:
        pattern = own_pattern(f"upd (?P<step>\\d+){text}")
    except PatternError:
        return
    pattern.read(line)
    pattern.read("upd 7" + line)


@given(st.lists(PARTS, max_size=12).map("".join))
def test_a_pattern_that_passed_means_the_same_as_pythons(text: str) -> None:
    """Where both match; Python's may find more, as it tries what ours does not."""
    try:
        pattern = own_pattern(f"upd (?P<step>\\d+){text}")
    except PatternError:
        return
    for line in ("upd 7", "upd 7 a", "upd 7ab x=0.5", "upd 12x 3", "so upd 7=a b"):
        mark, python = pattern.read(line), re.search(re.sub(r"\.\*\??", ".*?", pattern.text), line, re.ASCII)
        if mark is not None:
            assert python is not None
            assert str(mark.step) == python["step"]


@pytest.mark.parametrize(
    "text",
    [r"ab (?P<step>\d+).*ab.*ab.*ab.*ab.*ab.*x", r"ab\s*(?P<step>\d+)\s*[a-w]*=\d*x", r"^.*ab (?P<step>\d*)x"],
)
def test_a_hostile_line_costs_no_more_than_its_length(text: str) -> None:
    pattern = own_pattern(text)
    lines = ["ab 1" * 250, "ab " * 330, "ab 7" + "ab" * 500, "ab" + " " * 998, "ab " + "9" * 997, "ab 1" + "a1" * 498]
    started = time.process_time()
    for line in lines * 20:
        pattern.read(line)
    assert time.process_time() - started < 2  # 120 lines; a pattern that goes back takes hours


def test_a_pattern_is_a_value() -> None:
    text = r"upd (?P<step>\d+)"
    assert own_pattern(text).text == text
    assert isinstance(own_pattern(text), OwnPattern)


def test_the_parser_asks_it_before_the_formats_and_reads_on_as_ever() -> None:
    parser = LogParser(own=own_pattern(r"upd (?P<step>\d+).*L=(?P<loss>\S+)"))
    lines = [
        "upd 7 iter 9: loss 3, time 1ms L=2.5",
        "hello",
        "upd 8 L=2.4",
        "iter 9: loss 3.0, time 190ms",
        "step 1 loss 2",
    ]
    signals = signals_of(*lines, "hello", "upd 9 L=2.3", "torch.OutOfMemoryError: CUDA out of memory.", parser=parser)
    assert [(s.rule, s.step) for s in signals if s.kind is SignalKind.PROGRESS] == [
        ("own.progress", 7), ("own.progress", 8), ("nanogpt.iter", 9), ("own.progress", 9),
    ]  # fmt: skip
    assert [s.kind for s in signals][-1] is SignalKind.FAILURE
    assert parser.format == "own"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [(7, "must be a text"), ("(a|b)", "is not allowed here"), ("upd", "The group step is missing")],
)
def test_a_policy_with_a_pattern_that_can_not_be_used_is_refused(pattern: object, problem: str) -> None:
    (error,) = check_rules({**DEFAULT_RULES, LOG_PATTERN: pattern})
    assert error.startswith("log_pattern: ")
    assert problem in error


def test_a_policy_may_have_a_pattern_and_may_leave_it_out() -> None:
    rules = {**DEFAULT_RULES, LOG_PATTERN: r"upd (?P<step>\d+)"}
    assert check_rules(rules) == []
    assert log_pattern(rules) == own_pattern(r"upd (?P<step>\d+)")
    assert log_pattern(DEFAULT_RULES) is None
