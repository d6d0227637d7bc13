"""Fewer samples that tell a ledger the same, in one go or bit by bit."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.ledger.thin import SECOND, STRETCHES, Mark, grid_of, thin

MARKS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)), max_size=60, unique_by=lambda mark: mark[0])
PINS = st.lists(st.integers(0, 300), max_size=5)


def falls(marks: list[Mark]) -> list[tuple[Mark, Mark]]:
    return [(a, b) for a, b in pairwise(marks) if b[1] < a[1]]


@settings(max_examples=200, deadline=None)
@given(MARKS, PINS, st.integers(0, 300), st.sampled_from([4, 8, 16]))
def test_bit_by_bit_gives_the_same_as_all_at_once(marks: list[Mark], pins: list[int], cut: int, grid: int) -> None:
    sooner = [mark for mark in marks if mark[0] <= cut]
    later = [mark for mark in marks if mark[0] > cut]
    first = thin(sooner, grid=grid // 2, pins=pins)
    assert thin([*first, *later], grid=grid, pins=pins) == thin(marks, grid=grid, pins=pins)


@settings(max_examples=100, deadline=None)
@given(MARKS, PINS)
def test_the_ends_every_fall_and_the_neighbours_of_pins_are_kept(marks: list[Mark], pins: list[int]) -> None:
    ordered, kept = sorted(marks), thin(marks, grid=64, pins=pins)
    assert kept[:1] + kept[-1:] == ordered[:1] + ordered[-1:]
    assert falls(kept) == falls(ordered)
    for pin in pins:
        assert max((m for m in ordered if m[0] < pin), default=None) == max(
            (m for m in kept if m[0] < pin), default=None
        )
        assert min((m for m in ordered if m[0] > pin), default=None) == min(
            (m for m in kept if m[0] > pin), default=None
        )


def test_a_month_of_samples_becomes_about_a_thousand() -> None:
    month = [(at * 30 * SECOND, at) for at in range(30 * 2880)]
    kept = thin(month, grid=grid_of(month[-1][0]))
    assert STRETCHES / 2 <= len(kept) <= 2 * STRETCHES + 2


def test_a_short_attempt_loses_nothing_that_lies_a_second_apart() -> None:
    marks = [(at * SECOND, at) for at in range(STRETCHES)]
    assert thin(marks, grid=grid_of(marks[-1][0])) == marks


def test_nothing_stays_nothing() -> None:
    assert thin([], grid=SECOND, pins=[5]) == []
