from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recovery.core.verify import Start, checkpoint_time, first_step_time, restore_time
from recovery.core.verify.deadlines import (
    CALL_CEILING_S,
    CHECKPOINT_CEILING_S,
    CHECKPOINT_UNKNOWN_S,
    FLOOR_S,
    START_CEILING_S,
    call_time,
    usual_wait,
)


def starts(*seconds: float) -> list[Start]:
    return [Start(to_restore_s=each, to_first_step_s=each * 2) for each in seconds]


def test_without_history_the_default_holds_and_says_so() -> None:
    got = restore_time([], unknown_s=1800)
    assert (got.within_s, got.basis) == (1800, "no start of this run was seen before: 30 m")
    assert checkpoint_time([]).within_s == CHECKPOINT_UNKNOWN_S


def test_of_one_or_two_starts_the_longest_counts_doubled() -> None:
    got = restore_time(starts(300, 600), unknown_s=1800)
    assert got.within_s == 1200
    assert got.basis == "the longest start of this run so far took 10 m; doubled"


def test_of_several_starts_a_quantile_counts_with_room_and_one_slow_start_does_not_stretch_it_for_ever() -> None:
    usual = restore_time(starts(*[300.0] * 19, 9000.0), unknown_s=1800)
    assert usual.within_s == 450
    assert usual.basis.startswith("nine in ten of 20 starts of this run took at most 5 m")


def test_a_start_without_a_load_line_counts_with_its_first_step() -> None:
    assert restore_time([Start(to_first_step_s=400)], unknown_s=1800).within_s == 800


def test_the_first_step_is_learned_from_the_load_on() -> None:
    assert first_step_time(starts(300, 600), unknown_s=1800).within_s == 1200
    assert first_step_time([Start(to_first_step_s=400)], unknown_s=1800).within_s == 1800


def test_floors_and_ceilings_are_named() -> None:
    quick, slow = checkpoint_time([1, 1, 1]), checkpoint_time([90_000] * 3)
    assert (quick.within_s, slow.within_s) == (FLOOR_S, CHECKPOINT_CEILING_S)
    assert quick.basis.endswith("at least 1 m 30 s")
    assert slow.basis.endswith("at most 6 h")


@given(seen=st.lists(st.floats(min_value=0, max_value=1e6), max_size=30), unknown=st.floats(1, 1e5))
def test_a_deadline_lies_between_floor_and_ceiling_whatever_was_seen(seen: list[float], unknown: float) -> None:
    got = restore_time(starts(*seen), unknown_s=unknown)
    assert got.basis
    assert got.within_s == unknown if not seen else FLOOR_S <= got.within_s <= START_CEILING_S


def test_a_call_has_its_usual_time_at_least_and_more_where_earlier_ones_took_long() -> None:
    assert call_time([], least_s=300).within_s == 300
    assert call_time([3.0, 2.0, 4.0], least_s=300).within_s == 300
    slow = call_time([280.0], least_s=300)
    assert (slow.within_s, slow.basis) == (560, "the longest call of this run so far took 4 m 40 s; doubled")
    assert call_time([90_000.0], least_s=300).within_s == CALL_CEILING_S


def test_the_usual_wait_is_told_and_nothing_where_there_was_none() -> None:
    assert usual_wait([]) == usual_wait([None]) == ""
    assert usual_wait([60.0, None]) == "the longest wait of this run so far took 1 m"
    assert usual_wait([60.0] * 19 + [7200.0]) == "nine in ten of 20 waits of this run took at most 1 m"
