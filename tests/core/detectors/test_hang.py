from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.detectors import detect
from recovery.core.detectors.hang import detect_hang, next_due, remember_wait
from recovery.core.types import AttemptFacts, FindingKind, JobState, Phase
from tests.core.attempts import LIMITS, at, attempt, read, samples

STEADY = samples(20, every_s=40)  # the last report comes at 800 s; due is the floor, 300 s
HANGING = attempt(samples=STEADY, now_s=1200)


def hangs(facts: AttemptFacts) -> bool:
    return detect_hang(facts, LIMITS) is not None


def test_no_progress_where_progress_was_due_is_a_hang() -> None:
    (finding,) = detect(HANGING, LIMITS)
    assert finding.kind is FindingKind.HANG
    assert finding.since == at(800)
    assert finding.reason == "No progress for 6 m 40 s: reports usually come within 40 s, and 5 m is the limit."


def test_silence_within_the_limit_is_no_hang() -> None:
    assert not hangs(replace(HANGING, now=at(1100), seen_at=at(1100)))


@pytest.mark.parametrize("state", [s for s in JobState if s is not JobState.RUNNING])
def test_only_a_running_attempt_can_hang(state: JobState) -> None:
    assert not hangs(replace(HANGING, state=state))


def test_a_blind_attempt_never_hangs() -> None:
    assert not hangs(replace(HANGING, blind_reason="The log can't be read."))


def test_an_old_picture_tells_nothing_of_now() -> None:
    assert not hangs(replace(HANGING, seen_at=at(1200 - LIMITS.stale_after_s - 1)))
    assert hangs(replace(HANGING, seen_at=at(1200 - LIMITS.stale_after_s)))


def test_silence_that_slurm_has_not_outlived_is_no_hang() -> None:
    """The job may have ended since the picture was taken: then its silence is explained."""
    assert not hangs(replace(HANGING, now=at(1110), seen_at=at(1099)))
    assert hangs(replace(HANGING, now=at(1110), seen_at=at(1101)))


def test_due_follows_the_attempts_own_rhythm() -> None:
    slow = samples(20, every_s=200)  # last at 4000 s, due 600 s later
    assert not hangs(attempt(samples=slow, now_s=4590))
    assert hangs(attempt(samples=slow, now_s=4610))


def test_what_it_has_once_survived_may_come_again() -> None:
    reports = samples(20, every_s=40)
    late = [replace(s, at=at((s.at - at(0)).total_seconds() + 1000)) for s in reports[10:]]  # an evaluation of 1040 s
    facts = attempt(samples=[*reports[:10], *late], now_s=1800 + 2550)
    assert not hangs(facts)
    assert hangs(replace(facts, now=at(1800 + 2650), seen_at=at(1800 + 2650)))


def test_the_ceiling_ends_endless_patience() -> None:
    hourly = samples(12, every_s=3600)
    assert not hangs(attempt(samples=hourly, now_s=12 * 3600 + 2 * 3600))
    patient = samples(12, every_s=6000)  # 3 times that would be 5 h
    assert hangs(attempt(samples=patient, now_s=12 * 6000 + LIMITS.hang_ceiling_s + 1))


def test_the_first_interval_is_not_the_rhythm() -> None:
    reports = [samples(1, every_s=1500)[0], *samples(20, every_s=1)]
    steady = [replace(s, at=at(3000 + 40 * i), step=20 + 10 * i) for i, s in enumerate(reports[1:])]
    facts = attempt(samples=[reports[0], *steady], now_s=3760 + 301)
    assert hangs(facts)


def rhythm(*gaps: float) -> AttemptFacts:
    """An attempt whose reports came in these intervals, seen just after the last one."""
    now, reports = 40.0, [samples(1)[0]]
    for index, gap in enumerate(gaps):
        now += gap
        reports.append(replace(reports[0], at=at(now), step=20 + 10 * index))
    return attempt(samples=reports, now_s=now)


def limit_of(facts: AttemptFacts) -> float:
    due = next_due(facts, LIMITS)
    assert due is not None
    return due.limit_s


def test_three_intervals_are_a_rhythm_and_the_first_of_four_is_left_out() -> None:
    assert limit_of(rhythm(40, 40)) == LIMITS.first_step_s
    assert limit_of(rhythm(40, 40, 40)) == LIMITS.hang_floor_s
    assert limit_of(rhythm(400, 40, 40)) > LIMITS.hang_floor_s
    assert limit_of(rhythm(400, 40, 40, 40)) == LIMITS.hang_floor_s
    assert limit_of(rhythm(40, 400, 40, 40)) > LIMITS.hang_floor_s


def test_the_limit_says_where_it_comes_from() -> None:
    for facts, words in (
        (rhythm(40, 40), "within 30 m while only 2 intervals are known"),
        (replace(rhythm(40, 40, 40), phase=Phase.FIRST_STEP, phase_since=at(170)), "within 30 m after the load"),
    ):
        due = next_due(facts, LIMITS)
        assert due is not None
        assert words in due.sentence


def due_since(facts: AttemptFacts) -> float:
    due = next_due(facts, LIMITS)
    assert due is not None
    return (due.since - at(0)).total_seconds()


def test_a_step_is_due_since_the_last_one_or_since_the_pause_after_it_ended() -> None:
    assert due_since(replace(HANGING, phase_since=at(40))) == 800
    assert due_since(replace(HANGING, phase_since=at(1100))) == 1100


def test_a_pause_after_a_report_counts_no_longer_than_one_may_take() -> None:
    assert due_since(replace(HANGING, phase_since=at(9000))) == 800 + LIMITS.saving_s


def test_with_few_intervals_the_limit_of_the_first_step_holds() -> None:
    facts = attempt(samples=samples(3, every_s=40), now_s=120 + 1790)
    assert not hangs(facts)
    assert hangs(replace(facts, now=at(120 + 1810), seen_at=at(120 + 1810)))


def test_reports_of_several_ranks_are_one_rhythm() -> None:
    by_rank = [replace(s, rank=rank) for s in STEADY for rank in range(8)]
    assert hangs(replace(HANGING, samples=tuple(by_rank)))


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.FIRST_STEP, Phase.UNKNOWN])
def test_the_first_step_has_its_own_limit(phase: Phase) -> None:
    facts = attempt(phase=phase, phase_since=at(100), now_s=2790)
    assert not hangs(facts)
    late = replace(facts, now=at(2810), seen_at=at(2810))
    assert detect(late, LIMITS)[0].reason == (
        "No progress for 45 m 10 s: the first step is due within 45 m of the start, as nothing else says that it hangs "
        "(30 m if something did)."
    )


def test_a_run_whose_earlier_starts_are_known_has_no_more_time_for_its_first_step_than_they_tell() -> None:
    starting = attempt(now_s=1810)
    assert not hangs(starting)
    known = replace(starting, longest_start_s=500)
    assert hangs(known)
    assert detect(known, LIMITS)[0].reason.endswith("the first step is due within 30 m of the start.")
    told = read(["[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"])
    assert hangs(replace(starting, signals=tuple(signal._replace(at=at(1000)) for signal in told)))


def test_a_load_gives_the_first_step_its_time_again() -> None:
    facts = attempt(samples=STEADY, phase=Phase.FIRST_STEP, phase_since=at(1000), now_s=2790)
    assert not hangs(facts)
    assert hangs(replace(facts, now=at(2810), seen_at=at(2810)))


@pytest.mark.parametrize("phase", [Phase.SAVING, Phase.EVALUATING, Phase.FINISHING])
def test_a_pause_with_a_name_has_its_own_limit(phase: Phase) -> None:
    limit = LIMITS.saving_s
    facts = attempt(samples=STEADY, phase=phase, phase_since=at(810), now_s=800 + limit)
    assert not hangs(facts)
    assert hangs(replace(facts, now=at(820 + limit), seen_at=at(820 + limit)))


def test_an_evaluation_may_take_as_long_as_one_that_it_survived() -> None:
    reports = samples(20, every_s=40)
    late = [replace(s, at=at((s.at - at(0)).total_seconds() + 1000)) for s in reports[10:]]  # one of 1040 s
    facts = attempt(samples=[*reports[:10], *late], phase=Phase.EVALUATING, phase_since=at(1800), now_s=1800 + 2550)
    assert not hangs(facts)
    assert hangs(replace(facts, now=at(1800 + 2650), seen_at=at(1800 + 2650)))


def test_progress_beside_an_asynchronous_save_counts() -> None:
    facts = attempt(samples=STEADY, phase=Phase.SAVING, phase_since=at(10), now_s=950)
    assert not hangs(facts)


def test_what_waits_in_the_queue_owes_nothing() -> None:
    assert not hangs(attempt(phase=Phase.QUEUED, phase_since=at(0), now_s=90_000))


def test_nothing_known_is_no_hang() -> None:
    assert not hangs(attempt(started_at=None, now_s=90_000))
    assert not hangs(attempt(phase=Phase.SAVING, started_at=None, now_s=90_000))


def test_a_clock_ahead_of_ours_is_no_hang() -> None:
    assert not hangs(attempt(samples=STEADY, now_s=500))


def test_ranks_that_report_a_timeout_make_it_surer() -> None:
    silent = detect(HANGING, LIMITS)[0].confidence
    told = read(["[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"])
    assert detect(replace(HANGING, signals=told), LIMITS)[0].confidence > silent
    later = replace(HANGING, now=at(2000), seen_at=at(2000))
    assert detect(later, LIMITS)[0].confidence > silent
    assert detect(replace(later, now=at(90_000), seen_at=at(90_000), signals=told), LIMITS)[0].confidence < 1
    other = read(["slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks"])
    assert detect(replace(HANGING, signals=other), LIMITS)[0].confidence == silent


@given(
    st.lists(st.floats(min_value=0.5, max_value=500), min_size=4, max_size=120),
    st.floats(min_value=0, max_value=1),
)
def test_no_silence_up_to_the_longest_survived_is_ever_a_hang(gaps: list[float], share: float) -> None:
    """Whatever the rhythm was: what the attempt has lived through (but for its start) is not called a hang."""
    now, reports = 0.0, []
    for index, gap in enumerate(gaps):
        now += gap
        reports.append(replace(samples(1)[0], at=at(now), step=index + 1))
    silence = share * max(gaps[2:] or gaps)
    assert not hangs(attempt(samples=reports, now_s=now + silence))


def after_silence(seconds: float, **fields: Any) -> AttemptFacts:
    return replace(attempt(samples=STEADY, now_s=800 + seconds), **fields)


def test_a_silence_that_the_run_came_back_from_may_come_again() -> None:
    assert hangs(after_silence(310))
    assert not hangs(after_silence(310, longest_wait_s=200.0))
    assert hangs(after_silence(510, longest_wait_s=200.0))


def test_what_stands_still_with_others_has_more_time_and_is_a_hang_in_the_end() -> None:
    assert hangs(after_silence(310))
    assert not hangs(after_silence(310, stalled_with=3))
    assert hangs(after_silence(10 + 300 * LIMITS.hang_shared, stalled_with=3))


def test_a_first_step_may_take_as_long_as_it_took_the_run_before() -> None:
    """The data loader that skips on took 50 minutes last time: half an hour without a step is no hang."""
    starting = attempt(now_s=2000)
    assert hangs(replace(starting, longest_start_s=300))
    assert not hangs(replace(starting, longest_start_s=3000))
    assert hangs(replace(starting, longest_start_s=3000, now=at(7510), seen_at=at(7510)))
    # its log is flushed every five minutes
    assert not hangs(replace(starting, longest_start_s=300, longest_wait_s=300))
    loaded = after_silence(2000, phase=Phase.FIRST_STEP, phase_since=at(800))
    assert hangs(loaded)
    assert not hangs(replace(loaded, longest_start_s=3000))
    assert hangs(after_silence(310, longest_start_s=3000))  # in training it means nothing


def test_while_the_files_of_a_checkpoint_change_it_is_no_hang() -> None:
    """A save that no line announces, on a slow file system."""
    assert hangs(after_silence(310))
    assert not hangs(after_silence(310, written_at=at(1100)))
    assert hangs(after_silence(610, written_at=at(1100)))
    assert hangs(after_silence(310, written_at=at(790)))  # it went on after that one


def test_what_is_written_for_ever_is_a_hang_in_the_end() -> None:
    longest = LIMITS.saving_s + LIMITS.hang_floor_s
    assert hangs(after_silence(longest + 10, written_at=at(800 + longest)))


def test_a_silence_that_lies_back_counts_less_and_a_longer_one_replaces_it() -> None:
    assert remember_wait(600, 40, 40) == pytest.approx(600, rel=0.001)
    assert remember_wait(600, 40, 86400) == 300
    assert remember_wait(600, 900, 900) == 900


@given(st.integers(3, 40), st.floats(1, 400), st.floats(0, 2000), st.floats(0, 100_000))
def test_longer_silence_never_makes_a_hang_less_of_one(count: int, every: float, waited: float, more: float) -> None:
    facts = attempt(samples=samples(count, every_s=every), now_s=count * every + waited, longest_wait_s=waited / 2)
    later = replace(facts, now=facts.now + timedelta(seconds=more), seen_at=facts.now + timedelta(seconds=more))
    assert hangs(later) or not hangs(facts)
