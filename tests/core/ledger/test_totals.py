"""Sums over windows and groups are exact, in any order and grouping."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from itertools import pairwise
from operator import add

from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.ledger import (
    Category,
    History,
    Summary,
    Totals,
    clip,
    combine,
    grouped,
    incident_accounts,
    keep_ledger,
    summarise,
    totals_by_window,
    totals_of,
    within,
)
from recovery.core.ledger.incidents import GAPS
from recovery.core.types import JobState
from tests.core.ledger.histories import NOW, histories, moment
from tests.core.ledger.stories import at, attempt, case, steps

EDGES = st.lists(st.integers(-10, 140), min_size=2, max_size=6).map(sorted)
AMOUNTS = st.tuples(st.integers(0, 10**12), st.integers(0, 9)).map(lambda two: (two * len(Category))[: len(Category)])
SUMMARIES = st.builds(
    Summary,
    totals=st.builds(Totals, time_us=AMOUNTS, gpu_us=AMOUNTS, before_start_us=st.integers(0, 10**12)),
    interruptions=st.integers(0, 5),
    gaps=st.lists(st.integers(0, 9), max_size=3).map(lambda us: dict.fromkeys(GAPS, tuple(sorted(us)))),
)


@settings(max_examples=100, deadline=None)
@given(histories(), EDGES)
def test_windows_add_up_to_the_whole(history: History, seconds: list[int]) -> None:
    ledger = keep_ledger(history, now=NOW)
    edges = [moment(second) for second in seconds]
    windows = totals_by_window(ledger, edges)
    assert reduce(add, windows, Totals()) == totals_of(ledger, start=edges[0], end=edges[-1])
    assert windows == [totals_of(ledger, start=a, end=b) for a, b in pairwise(edges)]


@settings(max_examples=50, deadline=None)
@given(histories(), st.integers(0, 120_000_000))
def test_any_cut_leaves_the_sum(history: History, us: int) -> None:
    ledger = keep_ledger(history, now=NOW)
    cut = moment(0) + timedelta(microseconds=us)
    assert totals_of(ledger, end=cut) + totals_of(ledger, start=cut) == totals_of(ledger)


def test_an_entry_is_cut_exactly_at_the_edges_of_a_window() -> None:
    ledger = keep_ledger(History(attempts=(attempt(0, 0, 5),)), now=at(30))
    inside = list(clip(ledger.entries, at(2), at(7.5)))
    assert [(e.category, e.start, e.end) for e in inside] == [
        (Category.QUEUE_WAIT, at(2), at(5)),
        (Category.UNKNOWN, at(5), at(7.5)),
    ]
    assert totals_of(ledger, start=at(2), end=at(7.5)).before_start_us == 3 * 60_000_000
    assert totals_of(ledger, start=at(40), end=at(50)) == Totals()


def test_a_first_start_that_ended_at_once_still_ends_the_first_wait() -> None:
    again = (attempt(0, 0, 5, 5, state=JobState.FAILED), attempt(1, 5, state=JobState.PENDING))
    totals = totals_of(keep_ledger(History(attempts=again), now=at(20)))
    assert totals.time(Category.QUEUE_WAIT) == 20 * 60_000_000
    assert totals.before_start_us == 5 * 60_000_000


def test_an_entry_over_many_days_is_shared_among_them() -> None:
    ledger = keep_ledger(History(attempts=(attempt(0, 0, 0, gpus=8),), steps=steps(10, 0, 1, 2)), now=at(3 * 24 * 60))
    days = totals_by_window(ledger, [at(day * 24 * 60) for day in range(4)])
    assert [day.wall_us for day in days] == [24 * 3600 * 1_000_000] * 3
    assert [day.allocated_us for day in days] == [8 * 24 * 3600 * 1_000_000] * 3


@settings(max_examples=60, deadline=None)
@given(SUMMARIES, SUMMARIES, SUMMARIES)
def test_summaries_add_up_in_any_grouping_and_order(a: Summary, b: Summary, c: Summary) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Summary() == a


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), SUMMARIES), max_size=6))
def test_groups_are_the_parts_of_the_whole(parts: list[tuple[str, Summary]]) -> None:
    groups = grouped(parts)
    assert set(groups) == {key for key, _ in parts}
    whole = reduce(add, (part for _, part in parts), Summary())
    assert combine(groups.values()) == combine(part for _, part in parts) == whole


@settings(max_examples=50, deadline=None)
@given(histories(), st.integers(0, 120))
def test_adjacent_windows_share_the_incidents_between_them(history: History, second: int) -> None:
    ledger = keep_ledger(history, now=NOW)
    accounts = incident_accounts(history, ledger)
    early, cut, late = moment(0), moment(second), moment(121)
    whole = summarise([totals_of(ledger, start=early, end=late)], within(accounts, early, late))
    parts = [
        summarise([totals_of(ledger, start=a, end=b)], within(accounts, a, b)) for a, b in ((early, cut), (cut, late))
    ]
    assert parts[0] + parts[1] == whole


def test_an_incident_at_the_edge_of_two_windows_belongs_to_the_later() -> None:
    history = History(attempts=(attempt(0, 0, 0),), cases=(case(10, 10, 11),))
    accounts = incident_accounts(history, keep_ledger(history, now=at(20)))
    assert within(accounts, at(0), at(10)) == []
    assert within(accounts, at(10), at(20)) == accounts
