from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from recovery.core.checkpoints import CheckpointLook, Kept, NextSave, Saved, next_save, retention, settle
from recovery.core.types import CheckpointState

C = CheckpointState
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOOK = CheckpointLook(step=840, path="/c/iter_0000840", state=C.COMPLETE, detail="", size_bytes=10, fingerprint="a")


def test_one_look_announces() -> None:
    assert settle(None, LOOK) is C.ANNOUNCED


def test_two_equal_looks_complete() -> None:
    assert settle(LOOK, LOOK) is C.COMPLETE


def test_the_stored_state_of_the_look_before_does_not_matter() -> None:
    assert settle(replace(LOOK, state=C.ANNOUNCED), LOOK) is C.COMPLETE


def test_a_look_that_differs_begins_anew() -> None:
    assert settle(replace(LOOK, fingerprint="b"), LOOK) is C.ANNOUNCED


def test_the_look_at_another_path_proves_nothing() -> None:
    assert settle(replace(LOOK, path="/c/other"), LOOK) is C.ANNOUNCED


def test_nothing_seen_twice_is_no_proof() -> None:
    empty = replace(LOOK, fingerprint="")
    assert settle(empty, empty) is C.ANNOUNCED


@pytest.mark.parametrize("state", [C.TORN, C.MISSING, C.UNKNOWN, C.ANNOUNCED])
def test_a_bad_state_holds_at_once(state: CheckpointState) -> None:
    assert settle(LOOK, replace(LOOK, state=state)) is state


def test_what_its_writer_left_unfinished_is_torn_after_two_equal_looks() -> None:
    unfinished = replace(LOOK, state=C.ANNOUNCED)
    assert settle(unfinished, unfinished, over=True) is C.TORN
    assert settle(unfinished, unfinished) is C.ANNOUNCED
    assert settle(None, unfinished, over=True) is C.ANNOUNCED
    assert settle(replace(unfinished, fingerprint="b"), unfinished, over=True) is C.ANNOUNCED


def test_two_equal_looks_complete_also_when_its_writer_has_ended() -> None:
    assert settle(LOOK, LOOK, over=True) is C.COMPLETE


def saved(*numbers: int, state: CheckpointState = C.COMPLETE, removed: bool = False) -> list[Saved]:
    """Step 100 every ten minutes."""
    return [
        Saved(step=n * 100, at=NOW + timedelta(minutes=10 * n), state=state, size_bytes=10, removed=removed)
        for n in numbers
    ]


def test_without_a_removal_nobody_knows_how_many_are_kept() -> None:
    assert retention(saved(1, 2, 3)) == Kept(count=None)
    assert retention([]) == Kept(count=None)


def test_rotation_is_told_by_what_it_removed() -> None:
    assert retention([*saved(1, 2, removed=True), *saved(3, 4, 5)]) == Kept(count=3)


def test_one_that_is_being_saved_is_not_yet_kept() -> None:
    assert retention([*saved(1, removed=True), *saved(2, 3), *saved(4, state=C.ANNOUNCED)]) == Kept(count=2)


def test_a_torn_folder_takes_a_place_in_rotation() -> None:
    assert retention([*saved(1, removed=True), *saved(2), *saved(3, state=C.TORN)]) == Kept(count=2)


def test_milestones_that_rotation_passes_over_are_kept_for_good() -> None:
    assert retention([*saved(1, 3, removed=True), *saved(2, 4, 5)]) == Kept(count=2, for_good=(200,))


def test_the_next_save_follows_the_rhythm_of_the_last() -> None:
    expected = NextSave(step=400, at=NOW + timedelta(minutes=40), every_steps=100, every=timedelta(minutes=10))
    assert next_save(saved(1, 2, 3)) == expected
    assert next_save(saved(3, 1, 2)) == expected


def test_one_save_tells_no_rhythm() -> None:
    assert next_save(saved(1)) is None
    assert next_save([]) is None


def test_a_break_between_two_saves_does_not_change_the_rhythm() -> None:
    late = replace(saved(5)[0], at=NOW + timedelta(hours=20))
    found = next_save([*saved(1, 2, 3, 4), late])
    assert found is not None
    assert (found.step, found.every) == (600, timedelta(minutes=10))
