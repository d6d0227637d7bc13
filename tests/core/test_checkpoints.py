from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.checkpoints import CheckpointLook, settle
from recovery.core.types import CheckpointState

C = CheckpointState
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
