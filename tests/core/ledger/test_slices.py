"""Entries cut into what is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.ledger import Category, Entry, History, Ledger, keep_ledger, totals_of
from recovery.core.ledger.slices import DAY, slices_of
from recovery.core.ledger.spans import to_us
from tests.core.ledger.histories import NOW, histories, moment

START = datetime(2026, 1, 10, 22, 0, tzinfo=UTC)


def test_an_entry_is_cut_at_midnight_and_where_job_policy_and_first_start_change() -> None:
    hours = [to_us(START + timedelta(hours=n)) for n in range(6)]
    ledger = Ledger(
        entries=(Entry(category=Category.IDLE, start=START, end=START + timedelta(hours=5), gpus=0),),
        first_start=START + timedelta(hours=4),
    )
    found = slices_of(ledger, jobs=[(hours[0], 7), (hours[1], 8)], policies=[(hours[3], 2)])
    assert [(s.start, s.job, s.policy, s.before_start) for s in found] == [
        (hours[0], 7, 0, True), (hours[1], 8, 0, True), (hours[2], 8, 0, True), (hours[3], 8, 2, True),
        (hours[4], 8, 2, False),
    ]  # fmt: skip
    assert [s.day.day for s in found] == [10, 10, 11, 11, 11]


@settings(max_examples=80, deadline=None)
@given(histories(), st.lists(st.integers(0, 120), max_size=4), st.lists(st.integers(0, 120), max_size=4))
def test_slices_hold_the_ledger_without_a_gap(history: History, jobs: list[int], policies: list[int]) -> None:
    ledger = keep_ledger(history, now=NOW)
    since = [sorted((to_us(moment(at)), at) for at in each) for each in ([0, *jobs], policies)]
    found = slices_of(ledger, jobs=since[0], policies=since[1])
    assert [s.end for s in found][:-1] == [s.start for s in found][1:]
    assert all(0 < s.end - s.start <= DAY for s in found)
    sums = {category: sum(s.end - s.start for s in found if s.category is category) for category in Category}
    totals = totals_of(ledger)
    assert sums == {category: totals.time(category) for category in Category}
    assert sum((s.end - s.start) * s.gpus for s in found) == totals.allocated_us
    assert sum(s.end - s.start for s in found if s.before_start) == totals.before_start_us
