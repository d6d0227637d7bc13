"""What each moment of a run is counted as."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.ledger import BlindSpan, Category, History, Ledger, Restored, SlowSpan, keep_ledger, totals_of
from recovery.core.lifecycle import IncidentState
from recovery.core.types import FindingKind, JobState, Phase
from tests.core.ledger.stories import GPUS, at, attempt, case, joined, phase, restored, saved, steps, told

S = IncidentState
AUTO = ((21, S.AWAITING_DECISION), (30, S.ACTING), (33, S.RESTORING))


def test_no_attempt_is_an_empty_ledger() -> None:
    assert keep_ledger(History(), now=at(10)) == Ledger()


def test_a_run_that_never_started_only_waited() -> None:
    waiting = History(attempts=(attempt(0, 0, state=JobState.PENDING),))
    assert told(waiting, 30) == [("queue_wait", 0, 30)]
    cancelled = History(attempts=(attempt(0, 0, None, 12, state=JobState.CANCELLED),))
    assert told(cancelled, 30) == [("queue_wait", 0, 12)]


def test_a_run_is_over_when_its_last_attempt_has_ended() -> None:
    history = History(attempts=(attempt(0, 0, 5, 20, state=JobState.COMPLETED),), steps=steps(10, 8, 10, 12))
    ledger = keep_ledger(history, now=at(60))
    assert ledger.entries[-1].end == at(20)
    assert ledger.tail is None


def test_the_phases_of_an_attempt() -> None:
    history = History(
        attempts=(attempt(0, 0, 5),),
        phases=(
            phase(10, Phase.STARTING, 5, 8),
            phase(10, Phase.FIRST_STEP, 8, 10),
            phase(10, Phase.TRAINING, 10, 20),
            phase(10, Phase.EVALUATING, 20, 22),
            phase(10, Phase.SAVING, 22, 25),
            phase(10, Phase.TRAINING, 25, None),
        ),
        steps=(*steps(10, 10, 10, 10), *steps(10, 25, 110, 5)),
        checkpoints=(saved(100, 26, of=10),),
    )
    assert told(history, 30) == [
        ("queue_wait", 0, 5),
        ("start_up", 5, 10),
        ("kept", 10, 19),
        ("not_yet_kept", 19, 20),
        ("evaluating", 20, 22),
        ("saving", 22, 25),
        ("not_yet_kept", 25, 30),
    ]


def test_without_phases_the_steps_tell_where_start_up_ended() -> None:
    history = History(attempts=(attempt(0, 0, 5),), steps=steps(10, 9, 10, 5))
    assert told(history, 20) == [("queue_wait", 0, 5), ("start_up", 5, 9), ("not_yet_kept", 9, 20)]


def test_an_attempt_of_which_nothing_was_observed_is_unknown() -> None:
    history = History(attempts=(attempt(0, 0, 5, 20, state=JobState.COMPLETED),))
    assert told(history, 30) == [("queue_wait", 0, 5), ("unknown", 5, 20)]


def test_a_load_is_restore_and_what_follows_until_the_first_step_is_start_up() -> None:
    history = History(
        attempts=(attempt(1, 0, 5),),
        phases=(
            phase(11, Phase.STARTING, 5, 9),
            phase(11, Phase.FIRST_STEP, 9, 12),
            phase(11, Phase.TRAINING, 12, None),
        ),
        steps=steps(11, 12, 110, 3),
        restores=(restored(11, 9, 100),),
    )
    assert told(history, 14)[1:] == [("restore", 5, 9), ("start_up", 9, 12), ("not_yet_kept", 12, 14)]
    said = History(restores=(Restored(attempt=11, at=at(9), step=100, began_at=at(7)),))
    dated = joined(History(attempts=history.attempts, phases=history.phases, steps=history.steps), said)
    assert told(dated, 14)[1:] == [("start_up", 5, 7), ("restore", 7, 9), ("start_up", 9, 12), ("not_yet_kept", 12, 14)]


def test_of_several_loads_before_the_first_step_restore_lasts_until_the_last() -> None:
    history = History(
        attempts=(attempt(1, 0, 5),),
        steps=steps(11, 10, 110, 3),
        restores=(restored(11, 7, 100), restored(11, 9, 100), restored(11, 11.5, 100)),
    )
    assert told(history, 11)[1:] == [("restore", 5, 9), ("start_up", 9, 10), ("not_yet_kept", 10, 11)]
    assert "restore" not in {category for category, start, _ in told(history, 13) if start >= 9}


def test_of_phases_that_overlap_the_one_that_began_last_holds() -> None:
    history = History(
        attempts=(attempt(0, 0, 5),),
        phases=(phase(10, Phase.STARTING, 5, None), phase(10, Phase.TRAINING, 10, 20)),
        steps=steps(10, 10, 10, 5),
    )
    assert told(history, 30)[1:] == [("start_up", 5, 10), ("not_yet_kept", 10, 20), ("start_up", 20, 30)]


def test_a_fresh_start_restores_nothing() -> None:
    history = History(attempts=(attempt(0, 0, 5),), steps=steps(10, 9, 10, 3), restores=(restored(10, 8, 0),))
    assert told(history, 12)[1:] == [("start_up", 5, 9), ("not_yet_kept", 9, 12)]


CRASHED = History(
    attempts=(attempt(0, 0, 5, 20, state=JobState.NODE_FAIL),),
    steps=steps(10, 10, 10, 9),
    checkpoints=(saved(50, 15, of=10),),
    cases=(case(10, 18, 21, *AUTO, failed_step=90),),
)
BEFORE = [("queue_wait", 0, 5), ("start_up", 5, 10), ("kept", 10, 14)]


def test_a_crash_from_fault_to_restart() -> None:
    again = History(attempts=(attempt(1, 33, 40),), steps=steps(11, 45, 60, 5), restores=(restored(11, 43, 50),))
    assert told(joined(CRASHED, again), 50) == [
        *BEFORE,
        ("lost", 14, 18),
        ("stalled", 18, 20),  # the allocation is still held
        ("stalled", 20, 21),
        ("deciding", 21, 30),
        ("acting", 30, 33),
        ("queue_wait", 33, 40),
        ("restore", 40, 43),
        ("start_up", 43, 45),
        ("not_yet_kept", 45, 50),
    ]


def test_only_what_is_allocated_costs_gpus() -> None:
    ledger = keep_ledger(CRASHED, now=at(30))
    held = {(e.category, e.gpus) for e in ledger.entries}
    assert (Category.STALLED, GPUS) in held
    assert (Category.STALLED, 0) in held
    assert (Category.QUEUE_WAIT, 0) in held
    totals = totals_of(ledger)
    assert totals.allocated_us == 15 * 60 * 1_000_000 * GPUS
    assert totals.gpu_time(Category.DECIDING) == 0


def test_a_run_whose_case_is_open_is_not_over() -> None:
    assert told(CRASHED, 50)[-2:] == [("acting", 30, 33), ("idle", 33, 50)]
    ledger = keep_ledger(CRASHED, now=at(50))
    assert ledger.tail is not None
    assert ledger.tail.category is Category.IDLE


def test_a_run_that_was_given_up_ends_with_its_case_and_loses_what_was_not_kept() -> None:
    given_up = History(
        attempts=CRASHED.attempts,
        steps=CRASHED.steps,
        checkpoints=CRASHED.checkpoints,
        cases=(case(10, 18, 21, (21, S.AWAITING_DECISION), (30, S.WATCHING), closed=35),),
    )
    assert told(given_up, 60) == [
        *BEFORE,
        ("lost", 14, 18),
        ("stalled", 18, 20),
        ("stalled", 20, 21),
        ("deciding", 21, 30),
        ("idle", 30, 35),
    ]


def test_a_run_that_somebody_cancelled_is_over_whatever_case_is_open() -> None:
    cancelled = replace(CRASHED, attempts=(attempt(0, 0, 5, 20, state=JobState.CANCELLED),))
    ledger = keep_ledger(cancelled, now=at(60))
    assert ledger.tail is None
    assert ledger.entries[-1].end == at(20)


def test_a_case_that_needs_a_person_waits_for_a_decision() -> None:
    stuck = (*AUTO[:2], (33, S.NEEDS_PERSON))
    history = replace(CRASHED, cases=(case(10, 18, 21, *stuck, failed_step=90),))
    assert told(history, 50)[-2:] == [("acting", 30, 33), ("deciding", 33, 50)]


def test_an_attempt_that_never_started_waited_until_the_next_was_submitted() -> None:
    history = History(
        attempts=(attempt(0, 0, state=JobState.PENDING), attempt(1, 10, 20, 30, state=JobState.COMPLETED)),
    )
    assert told(history, 60) == [("queue_wait", 0, 20), ("unknown", 20, 30)]


def test_while_its_fate_is_open_unsaved_work_is_not_yet_lost() -> None:
    assert told(CRASHED, 25)[3] == ("not_yet_kept", 14, 18)


def test_a_hang_holds_its_gpus_while_somebody_decides() -> None:
    history = History(
        attempts=(attempt(0, 0, 5),),
        phases=(phase(10, Phase.TRAINING, 10, None),),
        steps=steps(10, 10, 10, 5),
        cases=(case(10, 14, 20, (20, S.AWAITING_DECISION), (40, S.WATCHING), kind=FindingKind.HANG, failed_step=50),),
    )
    assert told(history, 50)[2:] == [
        ("not_yet_kept", 10, 14),
        ("stalled", 14, 20),
        ("deciding", 20, 40),
        ("idle", 40, 50),
    ]
    assert totals_of(keep_ledger(history, now=at(50))).gpu_time(Category.DECIDING, Category.IDLE) == (
        30 * 60 * 1_000_000 * GPUS
    )
    went_on = joined(history, History(steps=steps(10, 45, 60, 2)))
    assert told(went_on, 50)[-2:] == [("idle", 40, 45), ("not_yet_kept", 45, 50)]
    from_before = joined(history, History(steps=steps(10, 45, 20, 2)))
    assert told(from_before, 50)[-2:] == [("idle", 40, 45), ("not_yet_kept", 45, 50)]


def test_a_hang_that_was_closed_as_a_false_alarm_trains_again_from_then_on() -> None:
    history = History(
        attempts=(attempt(0, 0, 5),),
        steps=steps(10, 10, 10, 5),
        cases=(case(10, 14, 20, closed=25, kind=FindingKind.HANG, failed_step=50),),
    )
    assert told(history, 30)[-2:] == [("deciding", 20, 25), ("not_yet_kept", 25, 30)]


def test_a_requeue_by_slurm_waits_in_the_queue_not_for_a_decision() -> None:
    history = joined(CRASHED, History(attempts=(attempt(1, 22, None, state=JobState.PENDING),)))
    assert told(history, 40)[-4:] == [
        ("deciding", 21, 22),
        ("queue_wait", 22, 30),
        ("acting", 30, 33),
        ("queue_wait", 33, 40),
    ]


def test_a_job_that_waits_held_after_a_failed_launch_waits_for_a_decision() -> None:
    history = History(
        attempts=(attempt(0, 0, state=JobState.PENDING),),
        cases=(case(10, 10, 11, (11, S.AWAITING_DECISION), (20, S.ACTING), (21, S.RESTORING)),),
    )
    assert told(history, 20)[-1] == ("deciding", 11, 20)
    assert told(history, 20)[:2] == [("queue_wait", 0, 10), ("stalled", 10, 11)]


def test_blind_is_unknown_until_its_samples_are_read() -> None:
    blind = History(
        attempts=(attempt(0, 0, 5),),
        phases=(phase(10, Phase.TRAINING, 10, None),),
        steps=steps(10, 10, 10, 5),
        blind=(BlindSpan(attempt=10, start=at(15), end=at(25)),),
    )
    assert told(blind, 30)[2:] == [("not_yet_kept", 10, 15), ("unknown", 15, 25), ("not_yet_kept", 25, 30)]
    explained = joined(blind, History(steps=steps(10, 15, 60, 8)))
    assert told(explained, 30)[2:] == [("not_yet_kept", 10, 22), ("unknown", 22, 25), ("not_yet_kept", 25, 30)]
    silent = History(
        attempts=(attempt(0, 0, 5),),
        phases=(phase(10, Phase.STARTING, 5, None),),
        blind=(BlindSpan(attempt=10, start=at(7), end=None),),
    )
    assert told(silent, 30)[1:] == [("start_up", 5, 7), ("unknown", 7, 30)]
    still = History(attempts=(attempt(0, 0, 5),), blind=(BlindSpan(attempt=10, start=at(6), end=None),))
    assert told(still, 30)[-1] == ("unknown", 5, 30)


def test_saving_within_a_slowdown_is_saving_and_lost_is_lost() -> None:
    history = History(
        attempts=(attempt(0, 0, 5, 30, state=JobState.FAILED), attempt(1, 30, 32)),
        phases=(
            phase(10, Phase.TRAINING, 10, 20),
            phase(10, Phase.SAVING, 20, 22),
            phase(10, Phase.TRAINING, 22, 30),
        ),
        steps=(*steps(10, 10, 10, 11), *steps(10, 22, 120, 8)),
        slow=(SlowSpan(attempt=10, start=at(15), end=None),),
        restores=(restored(11, 34, 110),),
    )
    assert told(history, 34)[2:6] == [
        ("kept", 10, 15),
        ("slowed", 15, 20),
        ("saving", 20, 22),
        ("lost", 22, 30),
    ]


def test_a_gap_between_two_jobs_of_a_run_is_idle() -> None:
    history = History(
        attempts=(
            attempt(0, 0, 5, 20, state=JobState.TIMEOUT),
            attempt(0, 50, 55, 60, job=2, state=JobState.COMPLETED),
        ),
        steps=(*steps(10, 10, 10, 9), *steps(20, 57, 100, 3)),
    )
    assert ("idle", 20, 50) in told(history, 70)
    assert told(history, 70)[-1][2] == 60


def test_two_jobs_at_once_hold_both_allocations_and_do_what_the_better_one_does() -> None:
    history = History(
        attempts=(attempt(0, 0, 5), attempt(0, 10, 12, 20, job=2, state=JobState.CANCELLED)),
        steps=steps(10, 8, 10, 20),
        restores=(restored(20, 14, 30),),
    )
    assert told(history, 30)[-1] == ("not_yet_kept", 20, 30)
    ledger = keep_ledger(history, now=at(30))
    assert {e.category for e in ledger.entries[2:]} == {Category.NOT_YET_KEPT}
    assert [e.gpus for e in ledger.entries[2:]] == [GPUS, 2 * GPUS, GPUS]


def test_training_counts_more_than_what_another_job_does_beside_it() -> None:
    history = History(
        attempts=(attempt(0, 0, 5), attempt(0, 10, 12, 20, job=2, state=JobState.CANCELLED)),
        phases=(phase(20, Phase.EVALUATING, 12, 20),),
        steps=steps(10, 8, 10, 20),
    )
    assert {category for category, start, _ in told(history, 30) if start >= 8} == {"not_yet_kept"}


def test_an_attempt_ends_at_the_latest_when_the_next_one_starts() -> None:
    history = History(
        attempts=(attempt(0, 0, 5, None, state=JobState.COMPLETING), attempt(1, 18, 25)),
        steps=(*steps(10, 10, 10, 5), *steps(11, 27, 60, 3)),
    )
    ledger = keep_ledger(history, now=at(30))
    assert max(e.gpus for e in ledger.entries) == GPUS


@pytest.mark.parametrize("early", [0.5, 4.0])
def test_samples_dated_before_the_start_count_from_the_start(early: float) -> None:
    history = History(attempts=(attempt(0, 0, 5),), steps=steps(10, early, 10, 6))
    assert told(history, 20) == [("queue_wait", 0, 5), ("not_yet_kept", 5, 20)]


def test_what_lies_after_now_is_not_known_yet() -> None:
    history = joined(CRASHED, History(attempts=(attempt(1, 33, 40),), restores=(restored(11, 43, 50),)))
    assert told(history, 16)[-1] == ("not_yet_kept", 14, 16)
    assert keep_ledger(history, now=at(-5)) == Ledger()


def test_names_of_attempts_that_are_not_in_the_history_are_left_aside() -> None:
    stray = History(steps=steps(77, 6, 10, 3), blind=(BlindSpan(attempt=77, start=at(1), end=None),))
    assert told(joined(CRASHED, stray), 50) == told(CRASHED, 50)
