"""A pattern that some line makes slow is refused before it is ever tried on a log."""

from __future__ import annotations

import time

import pytest

from recovery.core.diagnose.catalogue import MAX_LINE, RULES
from recovery.core.diagnose.slow_patterns import slowness


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?:a{1,50}){1,50}b", r"^site: (?:[\w.]{1,40}\.?){1,40}!", r"^(?:\d{1,30},?){1,30}$",
        r"(?:x|xx|x{2,9}){1,60}y", r"^(?:a|a){1,60}b",
    ],
)  # fmt: skip
def test_repeats_within_one_another_are_found_by_trial_and_soon(pattern: str) -> None:
    begun = time.perf_counter()
    assert "takes too long" in slowness(pattern, ["site:", "xxx"], longest=MAX_LINE)
    assert time.perf_counter() - begun < 20


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"^a+b", "without a bound (+)"), (r"^.*b", "without a bound (*)"), (r"^a{3,}b", "without a bound ({3,})"),
        (r"^(a)\1", "refers back"), (r"^(?P<x>a)(?P=x)", "refers back"), (r"[^\]]+", "without a bound (+)"),
    ],
)  # fmt: skip
def test_what_its_shape_tells_needs_no_trial(pattern: str, why: str) -> None:
    assert why in slowness(pattern, ["abc"], longest=MAX_LINE)


@pytest.mark.parametrize("pattern", [r"^a\+b", r"^[+*]{1,3}x", r"^[]+*]x", r"^x{1,80}: \S{1,80} refused\*$"])
def test_a_bounded_pattern_is_good(pattern: str) -> None:
    assert slowness(pattern, ["abc"], longest=MAX_LINE) == ""


def test_the_rules_of_the_product_pass_by_their_shape_as_a_sites_own_must() -> None:
    """By trial they are held in test_catalogue.py, each with its own examples: here that takes too long."""
    for rule in RULES:
        assert slowness(rule.pattern, [], longest=0) == "", rule.id
