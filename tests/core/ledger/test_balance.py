"""The ledger balances (DESIGN, invariant 11): for every history, whatever it says."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from recovery.core.ledger import History, Totals, extend_ledger, keep_ledger, totals_of
from recovery.core.ledger.known import known_by
from recovery.core.ledger.lives import lives_of
from recovery.core.ledger.spans import to_us
from tests.core.ledger.histories import LATEST, NOW, histories, moment
from tests.core.ledger.stories import KINDS, assert_balanced, at, attempt

MICROSECOND = timedelta(microseconds=1)
LATER = st.integers(0, 10_000_000_000).map(lambda us: NOW + us * MICROSECOND)
KNOWN = int((NOW - moment(0)).total_seconds()) - 1  # all of such a history lies before NOW


@settings(max_examples=200, deadline=None)
@given(histories())
@example(History())
@example(History(attempts=(attempt(0, 0, 1, 1), attempt(0, 0, 1, 1, job=2))))
def test_the_categories_sum_to_the_wall_time_exactly(history: History) -> None:
    ledger = keep_ledger(history, now=NOW)
    assert_balanced(ledger, history, NOW)
    if ledger.entries:
        wall = ledger.entries[-1].end - ledger.entries[0].start
        assert totals_of(ledger).wall_us == wall // MICROSECOND


@settings(max_examples=100, deadline=None)
@given(histories(), st.integers(0, 1000))
def test_order_and_repetition_of_what_is_known_change_nothing(history: History, seed: int) -> None:
    chance = random.Random(seed)
    fields: dict[str, Any] = {}
    for name in KINDS:
        values = [*getattr(history, name), *getattr(history, name)]
        chance.shuffle(values)
        fields[name] = tuple(values)
    assert keep_ledger(replace(history, **fields), now=NOW) == keep_ledger(history, now=NOW)


@settings(max_examples=150, deadline=None)
@given(histories(latest=KNOWN), LATER)
def test_a_quiet_moment_adds_that_moment_only(history: History, later: datetime) -> None:
    ledger = keep_ledger(history, now=NOW)
    from_scratch = keep_ledger(history, now=later)
    assert extend_ledger(ledger, now=later) == from_scratch
    before, after = totals_of(ledger), totals_of(from_scratch)
    added = (later - NOW) // MICROSECOND if ledger.tail is not None else 0
    assert after.wall_us == before.wall_us + added
    assert all(b >= a for a, b in zip(before.time_us, after.time_us, strict=True))


@settings(max_examples=100, deadline=None)
@given(histories(latest=KNOWN), LATER, LATER)
def test_quiet_moments_add_up(history: History, one: datetime, other: datetime) -> None:
    sooner, later = sorted([one, other])
    ledger = keep_ledger(history, now=NOW)
    assert extend_ledger(extend_ledger(ledger, now=sooner), now=later) == extend_ledger(ledger, now=later)


@settings(max_examples=100, deadline=None)
@given(histories())
def test_what_is_dated_later_changes_nothing_now(history: History) -> None:
    """Kept at an earlier moment, a ledger is that of the history as it was known then."""
    known: dict[str, Any] = {
        "attempts": tuple(a for a in history.attempts if a.submitted_at <= NOW),
        "phases": tuple(span for span in history.phases if span.start <= NOW),
        "steps": tuple(step for step in history.steps if step.at <= NOW),
        "restores": tuple(restore for restore in history.restores if restore.at <= NOW),
        "checkpoints": tuple(done for done in history.checkpoints if done.completed_at <= NOW),
        "cases": tuple(case for case in history.cases if case.detected_at <= NOW),
    }
    assert keep_ledger(replace(history, **known), now=NOW) == keep_ledger(history, now=NOW)


@settings(max_examples=100, deadline=None)
@given(histories(), st.integers(0, LATEST))
def test_gpus_are_those_of_the_attempts_that_run(history: History, second: int) -> None:
    """Told again from the attempts alone, where they don't contradict each other."""
    simple = History(attempts=tuple({a.attempt: a for a in history.attempts}.values()))
    jobs = [a.job for a in simple.attempts]
    if len(set(jobs)) < len(jobs):
        simple = replace(simple, attempts=simple.attempts[:1])
    probe = moment(second)
    for entry in keep_ledger(simple, now=NOW).entries:
        if entry.start <= probe < entry.end:
            assert entry.gpus == _held(simple, probe)


@settings(max_examples=100, deadline=None)
@given(histories())
def test_gpu_seconds_are_those_of_all_allocations_whatever_contradicts_itself(history: History) -> None:
    """Attempts side by side (tasks, components) add up; each counts from its start to its end, or to the run's."""
    lives = lives_of(known_by(history, NOW).attempts)
    entries = keep_ledger(history, now=NOW).entries
    end = to_us(entries[-1].end) if entries else 0
    spent = [
        life.gpus * max(0, min(end, end if life.ended is None else life.ended) - life.started)
        for life in lives
        if life.started is not None
    ]
    assert sum(totals_of(keep_ledger(history, now=NOW)).gpu_us) == sum(spent)


def _held(history: History, probe: datetime) -> int:
    held = 0
    for span in history.attempts:
        if span.submitted_at > NOW or span.started_at is None or span.started_at > probe:
            continue
        end = span.ended_at if span.ended_at is not None and span.ended_at <= NOW else None
        held += span.gpus if end is None or end > probe else 0
    return held


def test_a_ledger_without_entries_has_its_tail() -> None:
    history = History(attempts=(attempt(0, 0),))
    ledger = keep_ledger(history, now=at(0))
    assert ledger.entries == ()
    assert totals_of(ledger) == Totals()
    assert extend_ledger(ledger, now=at(7)) == keep_ledger(history, now=at(7))


def test_the_smallest_moment_counts() -> None:
    history = History(attempts=(attempt(0, 0),))
    ledger = keep_ledger(history, now=at(0) + MICROSECOND)
    assert [entry.end - entry.start for entry in ledger.entries] == [MICROSECOND]
