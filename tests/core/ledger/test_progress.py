"""Which training survived."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.ledger import AttemptSpan, History, keep_ledger
from recovery.core.types import JobState, Phase
from tests.core.ledger.histories import NOW, histories
from tests.core.ledger.stories import assert_balanced, at, attempt, joined, phase, restored, saved, steps, told

FIRST = attempt(0, 0, 0, 30, state=JobState.NODE_FAIL)
LATER = attempt(1, 30, 30)


def trained(
    history: History, now: float = 60, *, of: tuple[str, ...] = ("kept", "not_yet_kept", "lost")
) -> list[tuple[str, float, float]]:
    return [entry for entry in told(history, now) if entry[0] in of]


def first(*more: AttemptSpan) -> History:
    """Steps 10 to 200, one report a minute, from minute 10 to 29; then a failure at 30."""
    return History(attempts=(FIRST, *more), steps=steps(10, 10, 10, 20))


def test_a_later_attempt_that_restored_before_it_makes_work_lost() -> None:
    history = joined(first(LATER), History(restores=(restored(11, 35, 150),), checkpoints=(saved(150, 26, of=10),)))
    assert trained(history) == [("kept", 10, 24), ("lost", 24, 30)]


def test_a_restore_proves_its_checkpoint_where_none_was_seen() -> None:
    history = joined(first(LATER), History(restores=(restored(11, 35, 150),)))
    assert trained(history) == [("kept", 10, 24), ("lost", 24, 30)]


def test_an_older_restore_takes_back_what_was_kept() -> None:
    saves = (saved(100, 20, of=10), saved(200, 29.5, of=10))
    history = joined(first(LATER), History(checkpoints=saves))
    assert trained(history) == [("kept", 10, 29), ("not_yet_kept", 29, 30)]
    older = joined(history, History(restores=(restored(11, 35, 100),)))
    assert trained(older) == [("kept", 10, 19), ("lost", 19, 30)]
    scratch = joined(history, History(restores=(restored(11, 35, 0),)))
    assert trained(scratch) == [("lost", 10, 30)]


def test_a_checkpoint_that_was_left_behind_keeps_nothing_of_the_new_work() -> None:
    again = joined(first(LATER), History(restores=(restored(11, 35, 0),), steps=steps(11, 36, 10, 20)))
    history = joined(again, History(checkpoints=(saved(150, 26, of=10), saved(160, 37))))
    assert trained(history) == [("lost", 10, 30), ("not_yet_kept", 36, 60)]


def test_of_many_restores_the_lowest_that_follows_counts() -> None:
    history = History(
        attempts=(FIRST, replace(LATER, ended_at=attempt(1, 0, 0, 50).ended_at), attempt(2, 50, 50)),
        steps=(*steps(10, 10, 10, 20), *steps(11, 36, 160, 10)),
        restores=(restored(11, 35, 150), restored(12, 55, 120)),
    )
    assert trained(history) == [("kept", 10, 21), ("lost", 21, 30), ("lost", 36, 50)]


@pytest.mark.parametrize(
    ("first_report", "count", "kept_until"),
    [
        pytest.param(160, 3, 24, id="one report beyond 150"),
        pytest.param(160, 1, 24, id="a single report, nearest checkpoint below"),
        pytest.param(155, 2, 24, id="a checkpoint nearer than one report"),
        pytest.param(10, 3, 10, id="counts from the beginning: from scratch"),
    ],
)
def test_without_a_load_line_the_first_report_tells(first_report: int, count: int, kept_until: float) -> None:
    checkpoint = History(checkpoints=(saved(150, 26, of=10),))
    history = joined(first(LATER), checkpoint, History(steps=steps(11, 40, first_report, count)))
    expected = [("kept", 10, kept_until)] if kept_until > 10 else []
    assert trained(history, 43)[:-1] == [*expected, ("lost", kept_until, 30)]


def test_a_checkpoint_of_later_is_not_where_it_continued() -> None:
    late = History(checkpoints=(saved(155, 50, of=11),))
    history = joined(first(LATER), late, History(steps=steps(11, 40, 160, 3)))
    assert trained(history)[:2] == [("kept", 10, 24), ("lost", 24, 30)]


def test_steps_that_belie_a_load_line_count_more_than_it() -> None:
    history = joined(first(LATER), History(restores=(restored(11, 35, 150),), steps=steps(11, 40, 10, 3)))
    assert trained(history, 43) == [("lost", 10, 30), ("not_yet_kept", 40, 43)]


def test_workers_that_start_again_within_an_attempt_lose_what_they_do_again() -> None:
    history = History(attempts=(attempt(0, 0, 0),), steps=(*steps(10, 10, 10, 11), *steps(10, 25, 60, 5)))
    assert trained(history, 30) == [("kept", 10, 14), ("lost", 14, 25), ("not_yet_kept", 25, 30)]


def test_a_word_of_a_fresh_start_is_belied_by_steps_that_go_on() -> None:
    straight = History(attempts=(attempt(0, 0, 0),), steps=steps(10, 10, 10, 11))
    word = History(restores=(restored(10, 15.5, 0),))
    assert trained(joined(straight, word), 30) == trained(straight, 30) == [("not_yet_kept", 10, 30)]
    before = joined(straight, History(restores=(restored(10, 9, 0), restored(10, 15.5, 0), restored(10, 15.6, 0))))
    assert trained(before, 30) == [("not_yet_kept", 10, 30)]


def test_a_fresh_start_from_the_beginning_loses_what_went_before_and_so_does_one_with_nothing_behind_it() -> None:
    once = History(attempts=(attempt(0, 0, 0),), steps=steps(10, 10, 10, 11), restores=(restored(10, 22, 0),))
    assert trained(once, 30) == [("lost", 10, 22)]
    again = joined(once, History(steps=steps(10, 25, 10, 5)))
    assert trained(again, 30) == [("lost", 10, 22), ("not_yet_kept", 25, 30)]
    beyond = joined(again, History(restores=(restored(10, 29.5, 0),), steps=steps(10, 30, 60, 3)))
    assert trained(beyond, 32) == [("lost", 10, 22), ("not_yet_kept", 25, 32)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=2, max_size=20, unique=True), st.lists(st.integers(0, 60), max_size=5))
def test_words_of_a_fresh_start_among_rising_steps_change_nothing(minutes: list[int], words: list[int]) -> None:
    seen = tuple(steps(10, minute, 7 * minute, 1)[0] for minute in minutes)
    history = History(attempts=(attempt(0, 0, 0),), steps=seen)
    within = tuple(restored(10, word + 0.5, 0) for word in words if min(minutes) <= word < max(minutes))
    assert keep_ledger(replace(history, restores=within), now=at(70)) == keep_ledger(history, now=at(70))


@settings(max_examples=100, deadline=None)
@given(histories())
def test_with_words_of_fresh_starts_anywhere_it_balances(history: History) -> None:
    """All loads of a random history become such words."""
    words = tuple(replace(restore, step=0) for restore in history.restores)
    assert_balanced(keep_ledger(replace(history, restores=words), now=NOW), history, NOW)


def test_two_reports_that_change_places_are_no_going_back() -> None:
    straight = steps(10, 10, 10, 11)
    swapped = tuple(replace(step, step={50: 60, 60: 50}.get(step.step, step.step)) for step in straight)
    assert trained(History(attempts=(attempt(0, 0, 0),), steps=swapped), 30) == [("not_yet_kept", 10, 30)]
    after_load = History(attempts=(attempt(0, 0, 0),), restores=(restored(10, 9, 100),), steps=steps(10, 10, 120, 1))
    earlier = joined(after_load, History(steps=steps(10, 11, 110, 1)))
    assert trained(earlier, 30) == [("not_yet_kept", 10, 30)]


def test_a_step_that_is_reported_again_was_done_the_first_time() -> None:
    history = joined(first(LATER), History(restores=(restored(11, 35, 150),), steps=steps(10, 24.5, 150, 1)))
    assert trained(history) == [("kept", 10, 24), ("lost", 24, 30)]


def test_between_two_reports_time_is_shared_in_proportion() -> None:
    history = joined(first(LATER), History(restores=(restored(11, 35, 155),)))
    assert trained(history) == [("kept", 10, 24.5), ("lost", 24.5, 30)]


def test_a_last_save_beyond_the_last_report_keeps_the_rest() -> None:
    history = joined(first(LATER), History(checkpoints=(saved(203, 29.5, of=10),), restores=(restored(11, 35, 203),)))
    assert trained(history) == [("kept", 10, 29.5), ("lost", 29.5, 30)]
    unseen = joined(first(LATER), History(restores=(restored(11, 35, 203),)))
    assert trained(unseen) == [("kept", 10, 30)]


def test_a_save_seen_complete_only_after_the_end_keeps_its_steps() -> None:
    history = joined(first(LATER), History(checkpoints=(saved(190, 33, of=10),)))
    assert trained(history) == [("kept", 10, 28), ("not_yet_kept", 28, 30)]


def test_a_checkpoint_keeps_nothing_that_was_done_after_it() -> None:
    history = History(
        attempts=(attempt(0, 0, 0),),
        steps=steps(10, 10, 100, 2, every=10, stride=100),
        checkpoints=(saved(150, 12, of=10),),
    )
    assert trained(history, 20) == [("kept", 10, 12), ("not_yet_kept", 12, 20)]


def test_without_any_sample_a_save_seen_complete_after_the_end_keeps_it_all() -> None:
    assert trained(History(attempts=(FIRST,), checkpoints=(saved(100, 33, of=10),))) == [("kept", 0, 30)]


def test_without_any_sample_the_checkpoints_tell() -> None:
    history = History(
        attempts=(attempt(0, 0, 0),),
        phases=(phase(10, Phase.TRAINING, 5, None),),
        checkpoints=(saved(100, 20, of=10), saved(200, 40, of=10)),
    )
    assert trained(history) == [("kept", 0, 40), ("not_yet_kept", 40, 60)]


def test_a_second_job_beside_the_first_takes_nothing_from_it() -> None:
    beside = attempt(0, 20, 21, 40, job=2, state=JobState.CANCELLED)
    history = History(
        attempts=(attempt(0, 0, 0), beside),
        steps=(*steps(10, 10, 10, 40), *steps(20, 25, 60, 10)),
        restores=(restored(20, 24, 50),),
    )
    parts = trained(history, 50)
    assert {category for category, _, _ in parts} == {"not_yet_kept"}
    assert (parts[0][1], parts[-1][2]) == (10, 50)


def test_when_a_run_is_over_what_no_checkpoint_holds_is_lost() -> None:
    checkpoints = History(checkpoints=(saved(150, 26, of=10),))
    assert trained(joined(first(), checkpoints)) == [("kept", 10, 24), ("lost", 24, 30)]


def test_a_run_that_completed_loses_nothing_by_ending() -> None:
    history = first()
    history = replace(history, attempts=(replace(FIRST, state=JobState.COMPLETED),))
    assert trained(history) == [("not_yet_kept", 10, 30)]


def test_where_checkpoints_cannot_be_seen_their_absence_proves_no_loss() -> None:
    assert trained(replace(first(), sees_checkpoints=False)) == [("not_yet_kept", 10, 30)]
