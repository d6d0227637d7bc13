from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.detectors import detect
from recovery.core.detectors.slowdown import detect_slowdown, pace_is_back
from recovery.core.types import AttemptFacts, FindingKind, JobState, Sample
from tests.core.attempts import LIMITS, at, attempt, samples


def paced(step_times: list[float]) -> list[Sample]:
    """Reports of 10 steps each that take `step_times`; the times are printed."""
    now, reports = 0.0, []
    for index, step_time in enumerate(step_times):
        now += 10 * step_time
        reports.append(Sample(at=at(now), step=10 * (index + 1), loss=2.5, step_time_s=step_time))
    return reports


def seen(reports: list[Sample]) -> AttemptFacts:
    return attempt(samples=reports, now=reports[-1].at, seen_at=reports[-1].at)


SLOW = seen(paced([4.0] * 30 + [10.0] * 6))


def test_a_lasting_drop_of_speed_is_found() -> None:
    (finding,) = detect(SLOW, LIMITS)
    assert finding.kind is FindingKind.SLOWDOWN
    assert finding.reason == (
        "Steps take 2.5 times as long as this attempt's normal since step 310, in each of the last 6 reports."
    )
    assert finding.since == SLOW.samples[30].at


def test_a_steady_attempt_is_not_slow() -> None:
    assert detect(seen(paced([4.0] * 40)), LIMITS) == []


def test_a_small_shift_is_noise() -> None:
    assert detect(seen(paced([4.0] * 30 + [5.5] * 10)), LIMITS) == []


def test_one_slow_report_is_a_save_or_an_evaluation() -> None:
    assert detect(seen(paced(([4.0] * 9 + [12.0]) * 4)), LIMITS) == []
    assert detect(seen(paced([4.0] * 30 + [12.0] * (LIMITS.slow_samples - 1))), LIMITS) == []


def test_a_recovered_attempt_is_not_slow_any_more() -> None:
    assert detect(seen(paced([4.0] * 30 + [10.0] * 20 + [4.0])), LIMITS) == []


def counted(step_times: list[float], tokens_each: list[int]) -> list[Sample]:
    """The same, and the trainer counts its tokens."""
    reports, tokens = [], 0
    for report, each in zip(paced(step_times), tokens_each, strict=True):
        tokens += 10 * each
        reports.append(replace(report, tokens=float(tokens)))
    return reports


def test_longer_steps_that_train_on_more_are_no_slowdown() -> None:
    """A curriculum: longer sequences from step 300 on. As slow by the token it is one."""
    longer = counted([4.0] * 30 + [8.0] * 10, [1000] * 30 + [2000] * 10)
    assert detect(seen(longer), LIMITS) == []
    without = [replace(report, step_time_s=None) for report in longer]
    assert detect(seen(without), LIMITS) == []
    as_much = counted([4.0] * 30 + [8.0] * 10, [1000] * 40)
    assert [finding.kind for finding in detect(seen(as_much), LIMITS)] == [FindingKind.SLOWDOWN]
    slower_still = counted([4.0] * 30 + [16.0] * 10, [1000] * 30 + [2000] * 10)
    assert [finding.kind for finding in detect(seen(slower_still), LIMITS)] == [FindingKind.SLOWDOWN]


def test_tokens_that_are_seldom_counted_tell_nothing() -> None:
    seldom = [
        report if number % 3 else replace(report, tokens=None)
        for number, report in enumerate(counted([4.0] * 30 + [8.0] * 10, [1000] * 30 + [2000] * 10))
    ]
    assert [finding.kind for finding in detect(seen(seldom), LIMITS)] == [FindingKind.SLOWDOWN]


def test_slowness_from_the_beginning_has_no_normal_to_compare_with() -> None:
    assert detect(seen(paced([10.0] * 40)), LIMITS) == []


def test_a_slow_warm_up_is_not_the_baseline() -> None:
    assert detect(seen(paced([40.0] * 3 + [4.0] * 12)), LIMITS) == []
    assert detect(seen(paced([0.1] * 3 + [4.0] * 30)), LIMITS) == []


def test_a_mixed_load_is_not_slow_because_of_a_run_of_long_batches() -> None:
    mixed = [4.0, 4.0, 4.0, 10.0] * 15
    assert detect(seen(paced([*mixed, 10.0, 10.0, 10.0, 10.0, 10.0])), LIMITS) == []


def test_throughput_is_trusted_before_step_time() -> None:
    """When the batch grows, steps take longer and the work per second stays: that is no fault."""
    grown = [replace(s, throughput=400.0) for s in paced([4.0] * 30 + [10.0] * 6)]
    assert detect(seen(grown), LIMITS) == []
    dropped = [replace(s, throughput=400.0 if i < 30 else 150.0) for i, s in enumerate(paced([4.0] * 36))]
    assert len(detect(seen(dropped), LIMITS)) == 1


def test_without_printed_times_the_time_between_reports_serves() -> None:
    bare = [replace(s, step_time_s=None) for s in SLOW.samples]
    assert len(detect(seen(bare), LIMITS)) == 1


def test_the_slowdown_stays_found_while_most_reports_are_slow() -> None:
    assert len(detect(seen(paced([4.0] * 15 + [10.0] * 30)), LIMITS)) == 1


def test_too_few_reports_are_no_baseline() -> None:
    assert detect(seen(paced([4.0] * 8 + [10.0] * 5)), LIMITS) == []
    assert detect(seen(paced([4.0])), LIMITS) == []


def test_exactly_enough_reports_are_enough() -> None:
    least = [4.0] * (LIMITS.slow_warmup + LIMITS.slow_baseline)
    assert len(detect(seen(paced([*least, *[10.0] * LIMITS.slow_samples])), LIMITS)) == 1
    assert detect(seen(paced([*least[1:], *[10.0] * LIMITS.slow_samples])), LIMITS) == []


def test_exactly_the_minimum_shift_is_found() -> None:
    assert len(detect(seen(paced([4.0] * 30 + [6.0] * 6)), LIMITS)) == 1


def test_a_measure_that_a_few_reports_lack_still_serves() -> None:
    """Throughput drops while the step time stays: which of the two was looked at shows in what is found."""
    rows = [replace(s, throughput=400.0 if i < 30 else 150.0) for i, s in enumerate(paced([4.0] * 40))]
    lacking = [replace(s, throughput=None if i % 10 == 5 else s.throughput) for i, s in enumerate(rows)]
    assert len(detect(seen(lacking), LIMITS)) == 1
    half = [replace(s, throughput=None if i % 2 else s.throughput) for i, s in enumerate(rows)]
    assert detect(seen(half), LIMITS) == []


@pytest.mark.parametrize("nothing", [0.0, -1.0])
def test_a_measure_of_nothing_is_no_measure(nothing: float) -> None:
    odd = [replace(s, throughput=nothing) for s in SLOW.samples]
    assert len(detect(seen(odd), LIMITS)) == 1
    assert len(detect(seen([replace(s, step_time_s=nothing) for s in odd]), LIMITS)) == 1


def test_a_step_that_falls_or_a_time_that_stands_gives_no_pace() -> None:
    bare = [replace(s, step_time_s=None) for s in SLOW.samples]
    again = [replace(bare[9], step=bare[8].step), replace(bare[9], at=bare[9].at)]
    assert len(detect(seen([*bare[:10], *again, *bare[10:]]), LIMITS)) == 1


def test_no_reports_at_all() -> None:
    assert detect_slowdown(attempt(), LIMITS) is None


@pytest.mark.parametrize(
    "unfit",
    [
        replace(SLOW, blind_reason="The log can't be read."),
        replace(SLOW, seen_at=at(0)),
        replace(SLOW, seen_at=SLOW.now - timedelta(seconds=LIMITS.stale_after_s + 0.1)),
        replace(SLOW, state=JobState.FAILED),
        replace(SLOW, state=JobState.SUSPENDED),
    ],
)
def test_blind_old_or_ended_attempts_are_not_slow(unfit: AttemptFacts) -> None:
    assert detect_slowdown(unfit, LIMITS) is None


@given(st.lists(st.floats(min_value=4.0, max_value=4.0 * LIMITS.slow_factor - 0.01), min_size=1, max_size=80))
def test_noise_below_the_minimum_shift_is_never_found(step_times: list[float]) -> None:
    assert detect_slowdown(seen(paced(step_times)), LIMITS) is None


def test_reports_of_other_ranks_do_not_disturb() -> None:
    reports = samples(40, step_time_s=4.0, rank=0)
    both = [s for r in reports for s in (r, replace(r, rank=1, step_time_s=11.0))]
    assert detect(seen(both), LIMITS) == []


def test_the_pace_is_back_only_after_a_whole_row_of_normal_reports() -> None:
    slow = [1.0] * 40 + [3.0] * 20
    found_at = paced(slow)[-1].at
    for reports, back in (([], False), ([1.0], False), ([1.0] * 3 + [3.0] + [1.0], False), ([1.0] * 5, True)):
        assert pace_is_back(seen(paced(slow + reports)), LIMITS, found_at=found_at) is back


def test_an_attempt_that_stays_slow_for_ever_does_not_make_that_its_normal() -> None:
    found_at = paced([1.0] * 40 + [3.0] * 5)[-1].at
    assert not pace_is_back(seen(paced([1.0] * 40 + [3.0] * 1000)), LIMITS, found_at=found_at)
