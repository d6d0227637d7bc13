from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.series import intervals, quantile, typical_interval, typical_step_time, typical_stride
from recovery.core.types import Sample

START = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def samples(*points: tuple[float, int], rank: int = -1, step_time_s: float | None = None) -> list[Sample]:
    return [
        Sample(at=START + timedelta(seconds=at), step=step, rank=rank, step_time_s=step_time_s) for at, step in points
    ]


def test_intervals_are_seconds_between_reports_of_a_higher_step() -> None:
    assert intervals(samples((0, 10), (5, 20), (12, 30))) == [5, 7]


def test_reports_read_at_one_time_tell_nothing() -> None:
    assert intervals(samples((0, 10), (0, 20), (0, 30), (6, 40))) == [6]


def test_a_repeated_step_is_no_progress() -> None:
    assert intervals(samples((0, 10), (5, 10), (9, 20))) == [9]


def test_a_fall_of_the_step_begins_anew() -> None:
    assert intervals(samples((0, 30), (5, 40), (100, 10), (105, 20))) == [5, 5]


def test_one_long_pause_does_not_move_the_typical_interval() -> None:
    assert typical_interval(samples((0, 1), (10, 2), (20, 3), (3000, 4), (3010, 5))) == 10


@pytest.mark.parametrize("points", [(), ((0, 1),), ((0, 1), (1, 1)), ((0, 2), (1, 1))])
def test_without_progress_nothing_is_typical(points: tuple[tuple[float, int], ...]) -> None:
    series = samples(*points)
    assert (typical_interval(series), typical_stride(series), typical_step_time(series)) == (None, None, None)


def test_the_stride_is_the_trainers_log_interval() -> None:
    assert typical_stride(samples((0, 10), (1, 20), (2, 30), (3, 50))) == 10


def test_the_step_time_that_the_trainer_prints_is_preferred() -> None:
    assert typical_step_time(samples((0, 10), (100, 20), step_time_s=4.3)) == 4.3


def test_a_step_time_that_few_samples_carry_is_not_used() -> None:
    series = [*samples((0, 10), step_time_s=99), *samples((20, 20), (40, 30))]
    assert typical_step_time(series) == 2


def test_of_several_ranks_the_one_with_the_most_reports_is_looked_at() -> None:
    mixed = sorted(samples((0, 1), (10, 2), (20, 3), rank=0) + samples((3, 1), (14, 2), rank=1), key=lambda s: s.at)
    assert intervals(mixed) == [10, 10]


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.5, 2.5), (1, 4), (0.25, 1.75)])
def test_a_quantile_is_interpolated(share: float, value: float) -> None:
    assert quantile([4, 1, 3, 2], share) == value


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1], -0.1), ([1], 1.1)])
def test_a_quantile_of_nothing_or_beyond_all_is_an_error(values: list[float], share: float) -> None:
    with pytest.raises(ValueError, match=r"quantile|share"):
        quantile(values, share)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_among_the_values(values: list[float], share: float) -> None:
    assert min(values) <= quantile(values, share) <= max(values)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 1000)), max_size=50))
def test_what_is_typical_is_never_negative(points: list[tuple[float, int]]) -> None:
    series = samples(*sorted(points))
    for figure in (typical_interval(series), typical_stride(series), typical_step_time(series)):
        assert figure is None or figure > 0
