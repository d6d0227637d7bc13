from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.verify import Restore, RestoreVerdict, Source, Told, judge_restore

V = RestoreVerdict


def judge(
    expected: int | None, *, loaded: int | None = None, fresh: bool = False, first: int | None = None,
    tracker: int | None = None, interval: int | None = 10,
) -> Restore:  # fmt: skip
    said = {Source.LOAD: loaded, Source.FRESH: 0 if fresh else None, Source.FIRST_STEP: first, Source.TRACKER: tracker}
    told = [Told(source=source, step=step) for source, step in said.items() if step is not None]
    return judge_restore(expected_step=expected, told=told, log_interval=interval)


def test_nothing_reported_is_waited_for() -> None:
    assert judge(840).verdict is V.WAITING
    assert judge(None).verdict is V.WAITING


def test_a_load_of_the_expected_step_is_right() -> None:
    got = judge(840, loaded=840)
    assert (got.verdict, got.step) == (V.AS_EXPECTED, 840)
    assert got.reason == "The trainer says that it loaded step 840, as expected."


def test_a_later_checkpoint_than_known_is_right_and_said() -> None:
    got = judge(840, loaded=900)
    assert (got.verdict, got.step) == (V.AS_EXPECTED, 900)
    assert "later than the expected 840" in got.reason


def test_an_older_load_is_an_alarm_with_its_cost() -> None:
    got = judge(840, loaded=800)
    assert (got.verdict, got.step) == (V.OLDER, 800)
    assert "40 steps are lost again" in got.reason


def test_a_load_of_step_0_is_from_scratch() -> None:
    assert judge(840, loaded=0).verdict is V.FROM_SCRATCH
    assert judge(840, loaded=1).verdict is V.OLDER


def test_a_fresh_start_is_an_alarm_where_a_checkpoint_was_expected() -> None:
    got = judge(840, fresh=True, first=10)
    assert (got.verdict, got.step) == (V.FROM_SCRATCH, 0)


def test_a_fresh_start_is_right_where_there_was_nothing_to_restore() -> None:
    assert (judge(None, fresh=True).verdict, judge(None, fresh=True).step) == (V.AS_EXPECTED, 0)
    assert judge(None, first=10).verdict is V.AS_EXPECTED
    got = judge(None, loaded=40)
    assert (got.verdict, got.step) == (V.AS_EXPECTED, 40)


def test_steps_that_belie_the_load_line_are_believed() -> None:
    """Weights were loaded, but the run counts from the beginning: it did not continue."""
    assert judge(840, loaded=840, first=1).verdict is V.FROM_SCRATCH
    got = judge(840, loaded=840, first=410)
    assert (got.verdict, got.step) == (V.OLDER, None)
    assert "it did not continue there" in got.reason
    assert judge(840, loaded=840, first=2, interval=1).verdict is V.OLDER
    assert judge(840, loaded=840, first=10, interval=10).verdict is V.FROM_SCRATCH  # its first report of all
    assert judge(840, loaded=840, first=840).verdict is V.AS_EXPECTED
    assert judge(840, loaded=840, first=850).verdict is V.AS_EXPECTED


def test_two_stories_are_told_both() -> None:
    got = judge(840, loaded=840, fresh=True)
    assert got.verdict is V.AS_EXPECTED
    assert got.contradictions == (
        "The trainer says that it loaded step 840, and also that it starts without a checkpoint.",
    )


@pytest.mark.parametrize(
    ("first", "interval", "verdict", "step"),
    [
        (850, 10, V.AS_EXPECTED, 840),
        (841, 10, V.AS_EXPECTED, 840),
        (841, None, V.AS_EXPECTED, 840),
        (900, 10, V.AS_EXPECTED, None),  # restored later than we know; which step it was is not told
        (840, 10, V.OLDER, None),
        (410, 10, V.OLDER, None),
        (10, 10, V.FROM_SCRATCH, 0),
        (1, None, V.FROM_SCRATCH, 0),
        (2, None, V.OLDER, None),
    ],
)
def test_without_a_load_line_the_first_step_tells(
    first: int, interval: int | None, verdict: RestoreVerdict, step: int | None
) -> None:
    got = judge(840, first=first, interval=interval)
    assert (got.verdict, got.step) == (verdict, step)


_STEP = st.none() | st.integers(min_value=0, max_value=2000)


@given(
    expected=st.integers(min_value=1, max_value=2000),
    loaded=_STEP,
    fresh=st.booleans(),
    first=_STEP,
    tracker=_STEP,
    interval=st.none() | st.integers(1, 100),
)
def test_success_is_never_claimed_below_the_expected_step(
    expected: int, loaded: int | None, fresh: bool, first: int | None, tracker: int | None, interval: int | None
) -> None:
    got = judge(expected, loaded=loaded, fresh=fresh, first=first, tracker=tracker, interval=interval)
    assert got.reason
    if got.verdict is V.AS_EXPECTED:
        assert got.step is None or got.step >= expected
        assert first is None or first >= expected
        assert loaded is not None or first is not None
    if got.verdict is V.WAITING:
        assert loaded is None
        assert first is None
        assert not fresh


def test_the_tracker_file_tells_which_step_a_coarse_log_hides() -> None:
    """The first report comes 100 steps later: which checkpoint was loaded only the tracker file tells."""
    assert judge(840, first=900, interval=100).step == 840
    got = judge(840, first=900, tracker=860, interval=100)
    assert (got.verdict, got.step) == (V.AS_EXPECTED, 860)
    got = judge(840, first=900, tracker=820, interval=100)
    assert (got.verdict, got.step) == (V.OLDER, 820)
    assert got.reason.endswith("after the expected 840, and the tracker file named 820.")
    assert judge(840, first=810, tracker=800, interval=10).step == 800


def test_the_tracker_file_alone_proves_no_restore() -> None:
    got = judge(840, tracker=820)
    assert got.verdict is V.WAITING
    assert got.reason == "Nothing reported yet; step 840 is expected, the tracker file names 820."


@pytest.mark.parametrize(
    ("said", "contradiction"),
    [
        ({"loaded": 800, "tracker": 840}, "The tracker file named step 840, but the trainer says that it loaded 800."),
        (
            {"fresh": True, "tracker": 840},
            "The tracker file named step 840, but the trainer says that it starts without a checkpoint.",
        ),
        ({"first": 1, "tracker": 840}, "The tracker file named step 840, but the first step reported is 1."),
        ({"loaded": 840, "first": 1}, "Step 840 was loaded, but the first step reported is 1."),
        (
            {"loaded": 840, "first": 900},
            "Step 840 was loaded, but the first step reported is 900: more than the 10 steps between two reports.",
        ),
    ],
)
def test_sources_that_contradict_are_shown(said: dict[str, int], contradiction: str) -> None:
    assert judge(840, **said).contradictions == (contradiction,)  # type: ignore[arg-type]


def test_sources_that_agree_contradict_nothing() -> None:
    assert judge(840, loaded=840, first=850, tracker=840).contradictions == ()
