"""Charts read the coarsest rows that fill their pixels, and what is not rolled up yet as it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from recovery import selectors
from recovery.models import Attempt, MinuteRollup, RollupDue, Sample, TenMinuteRollup
from recovery.pipeline import upkeep
from recovery.pipeline.samples import store_samples
from tests.factories import make_attempt

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def attempt() -> Attempt:
    """Ten hours, a step every 20 s with loss 1 and 3 in turn; rolled up but for the last minutes."""
    end = START + 10 * HOUR
    attempt = make_attempt(submitted_at=START, started_at=START, seen_at=end, ended_at=None)
    store_samples([
        Sample(attempt=attempt, step=step, at=START + step * timedelta(seconds=20), loss=1.0 + 2 * (step % 2))
        for step in range(1800)
    ])  # fmt: skip
    (pk,) = upkeep.due(end)
    upkeep.keep(pk, clock=lambda: end)
    return attempt


def shown(attempt: Attempt, points: int, **window: Any) -> list[Sample]:
    return selectors.samples_for(attempt_id=attempt.pk, max_points=points, **window)


def test_a_wide_chart_shows_every_sample(attempt: Attempt) -> None:
    found = shown(attempt, 1800)
    assert [sample.step for sample in found] == list(range(1800))
    assert {sample.loss for sample in found} == {1.0, 3.0}


def test_pixels_of_a_minute_show_means_of_minutes(attempt: Attempt) -> None:
    MinuteRollup.objects.update(throughput=7.0)
    found = shown(attempt, 600)
    assert 300 <= len(found) <= 600
    assert {sample.throughput for sample in found[:280]} == {7.0}


def test_pixels_of_ten_minutes_show_means_of_ten_minutes(attempt: Attempt) -> None:
    found = shown(attempt, 60)
    assert 25 < len(found) <= 60
    assert {sample.loss for sample in found[:20]} == {2.0}
    assert [sample.at for sample in found] == sorted(sample.at for sample in found)


def test_the_newest_end_is_exact(attempt: Attempt) -> None:
    for points in (60, 600, 1800):
        last = shown(attempt, points)[-1]
        assert (last.step, last.loss) == (1799, 3.0)


def test_a_closer_look_is_finer(attempt: Attempt) -> None:
    found = shown(attempt, 60, since=START + HOUR, until=START + HOUR + timedelta(minutes=10))
    assert [sample.step for sample in found] == list(range(180, 211))


def test_what_is_no_longer_kept_is_shown_by_what_is(attempt: Attempt, settings: Settings) -> None:
    settings.KEEP_SAMPLES_DAYS = 2
    later = START + timedelta(days=4)  # long after it was last seen
    upkeep.keep(upkeep.due(later)[0], clock=lambda: later)
    assert not Sample.objects.exists()
    found = shown(attempt, 1400, since=START + HOUR, until=START + 2 * HOUR)
    assert 60 <= len(found) <= 61  # by the minute
    assert {round(sample.loss or 0, 2) for sample in found} <= {1.67, 2.33}


def test_what_came_late_is_shown_before_it_is_rolled_up(attempt: Attempt) -> None:
    store_samples([Sample(attempt=attempt, step=9999, at=START + 5 * HOUR)])
    assert RollupDue.objects.filter(at=START + 5 * HOUR).exists()
    found = shown(attempt, 60)
    assert {sample.loss for sample in found if sample.at < START + 4 * HOUR} == {2.0}
    assert {sample.loss for sample in found if sample.at > START + 6 * HOUR} <= {1.0, 3.0}


def test_the_number_of_queries_does_not_grow_with_the_samples(
    attempt: Attempt, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for points in (60, 600, 1800):
        with django_assert_max_num_queries(12):  # three levels and the newest end, each counted and read
            shown(attempt, points)
    assert TenMinuteRollup.objects.count() >= 59
