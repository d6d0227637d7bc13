"""Which save destroys the good checkpoint: what is foreseen is played against a trainer that does it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.checkpoints import Saved
from recovery.core.types import CheckpointState, Outcome
from recovery.core.verify import Danger, advise, danger_ahead, save_interval

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def saved(*steps: int, removed: tuple[int, ...] = ()) -> list[Saved]:
    """From the oldest to the newest; those that were removed are the oldest."""
    return [
        Saved(
            step=step, at=NOON + timedelta(minutes=number), removed=number < len(removed),
            state=CheckpointState.MISSING if number < len(removed) else CheckpointState.COMPLETE,
        )
        for number, step in enumerate((*removed, *steps))
    ]  # fmt: skip


def test_a_run_that_counts_from_the_beginning_overwrites_the_step_when_it_reaches_it_again() -> None:
    got = danger_ahead(good_step=840, saved=saved(800, 820, 840), at_step=5, began_at=0, step_time_s=2.0)
    assert got == Danger(
        step=840, in_s=1670.0, sentence="It overwrites step 840 with its save at step 840, the 42nd from now."
    )


def test_where_old_ones_are_removed_the_good_one_is_pushed_out_long_before() -> None:
    history = saved(40, 60, 80, removed=(20,))
    got = danger_ahead(good_step=80, saved=history, at_step=5, began_at=0, step_time_s=1.0, save_s=2.0)
    assert got is not None
    assert got.in_s == 55 + 4
    assert got.sentence == (
        "It pushes out step 80 with its save at step 60, the 3rd from now: the folder keeps 3."
    )  # fmt: skip


def test_an_older_restore_overwrites_at_its_next_save() -> None:
    got = danger_ahead(good_step=80, saved=saved(40, 60, 80), at_step=65, began_at=60, step_time_s=1.0)
    assert got is not None
    assert (got.in_s, got.sentence) == (15, "It overwrites step 80 with its save at step 80, the next one from now.")


def test_without_a_pace_the_time_is_not_known() -> None:
    got = danger_ahead(good_step=80, saved=saved(40, 60, 80), at_step=0, began_at=0, step_time_s=None)
    assert got is not None
    assert got.in_s is None


def test_with_one_checkpoint_nothing_is_known_of_the_saves_and_it_may_be_the_next() -> None:
    got = danger_ahead(good_step=80, saved=saved(80), at_step=0, began_at=0, step_time_s=1.0)
    assert got is not None
    assert got.in_s is None
    assert "was not seen yet" in got.sentence


def test_what_is_gone_is_in_no_danger_any_more() -> None:
    assert danger_ahead(good_step=80, saved=saved(40, 60, removed=(80,)), at_step=0, began_at=0, step_time_s=1) is None


def test_a_run_that_saves_at_other_steps_and_removes_nothing_is_no_danger() -> None:
    assert danger_ahead(good_step=85, saved=saved(45, 65, 85), at_step=3, began_at=0, step_time_s=1.0) is None


@given(
    every=st.integers(1, 50),
    kept=st.integers(1, 6),
    saves=st.integers(2, 12),
    at=st.integers(0, 2000),
)
def test_the_trainer_destroys_it_at_the_step_that_was_foreseen(every: int, kept: int, saves: int, at: int) -> None:
    """A trainer that keeps the newest `kept` by age, restarted from scratch, is played until the good one is gone."""
    steps = [every * number for number in range(1, saves + 1)]
    good, at = steps[-1], at % (steps[-1] or 1)
    there = steps[-kept:]
    history = saved(*there, removed=tuple(steps[:-kept]))
    got = danger_ahead(good_step=good, saved=history, at_step=at, began_at=0, step_time_s=1.0)
    for step in count(at + 1):  # the trainer
        if step % every == 0:
            gone = step == good
            there = [each for each in there if each != step] + [step]
            rotated = there[-kept:] if len(steps) > kept else there
            if gone or good not in rotated:
                break
            there = rotated
    assert save_interval(history) == every
    assert got is not None
    assert got.in_s == pytest.approx(step - at)


def test_each_trouble_has_its_own_advice() -> None:
    asked = [
        Outcome.FROM_SCRATCH, Outcome.RESTORED_OLDER, Outcome.SAME_FAILURE, Outcome.NO_PROGRESS, Outcome.NO_CHECKPOINT,
    ]  # fmt: skip
    texts = {advise(outcome, expected_step=840, step=820) for outcome in asked}
    assert len(texts) == len(asked)
    assert all(len(text) <= 500 for text in texts)
    assert advise(Outcome.RECOVERED, expected_step=840) == ""
    urgent = advise(Outcome.FROM_SCRATCH, expected_step=840, in_danger=True)
    assert urgent.startswith("Cancel the job before step 840 is gone")
