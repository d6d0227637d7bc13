"""Every automatic loop ends (DESIGN, invariant 7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.budget import PER_DAY, stop_reason
from recovery.core.types import FailureClass, PastFailure
from tests.core.attempts import at, past

C = FailureClass
NOW = at(1000)


def stops(*history: PastFailure, step: int | None = 400, limit: int = 3, log_interval: int | None = None) -> str:
    return stop_reason(history, failed_step=step, max_restarts=limit, now=NOW, log_interval=log_interval)


def test_a_first_failure_may_be_restarted() -> None:
    assert stops() == ""


def test_no_budget_is_no_restart() -> None:
    assert "0 of 0 restarts" in stops(limit=0)


def test_the_budget_is_used_up() -> None:
    spent = [past(C.NODE_FAULT, step=100 * i) for i in (1, 2, 3)]
    assert stops(*spent[:2]) == ""
    assert stops(*spent) == "The budget is used up: 3 of 3 restarts since the last new checkpoint."


def test_what_was_not_acted_on_costs_nothing() -> None:
    assert stops(*(past(C.NODE_FAULT, step=100 * i, acted=False) for i in (1, 2, 3))) == ""


def test_a_new_checkpoint_earns_budget_back() -> None:
    assert stops(*(past(C.NODE_FAULT, step=100 * i, checkpoint_since=True) for i in (1, 2, 3))) == ""


@pytest.mark.parametrize("failure_class", [C.GPU_HARDWARE, C.PREEMPTION, C.WALLTIME, C.UNKNOWN])
def test_two_failures_at_one_step_stop_automation_whatever_the_class(failure_class: FailureClass) -> None:
    assert "failed at step 400 again" in stops(past(failure_class, step=400))
    assert "failed at step 400 again" in stops(past(failure_class, step=400, acted=False))


def test_a_checkpoint_between_breaks_the_loop() -> None:
    assert stops(past(C.GPU_HARDWARE, step=400, checkpoint_since=True)) == ""


def test_one_log_interval_apart_is_the_same_place() -> None:
    assert "again" in stops(past(C.NODE_FAULT, step=410), log_interval=10)
    assert "again" in stops(past(C.NODE_FAULT, step=390), log_interval=10)
    assert stops(past(C.NODE_FAULT, step=411), log_interval=10) == ""
    assert "again" in stops(past(C.NODE_FAULT, step=401))
    assert stops(past(C.NODE_FAULT, step=402)) == ""


def test_failing_before_the_first_step_twice_is_a_loop_too() -> None:
    assert "before its first step" in stops(past(C.RENDEZVOUS, step=None), step=None)
    assert stops(past(C.RENDEZVOUS, step=None)) == ""
    assert stops(past(C.RENDEZVOUS, step=400), step=None) == ""


def test_a_day_has_its_own_bound_even_with_progress() -> None:
    often = [past(C.NODE_FAULT, step=i, hours_ago=1 + i, checkpoint_since=True) for i in range(3 * PER_DAY)]
    assert stops(*often[:-1]) == ""
    assert "12 restarts in the last 24 hours" in stops(*often)


def test_what_was_yesterday_does_not_count_today() -> None:
    old = [past(C.NODE_FAULT, step=i, hours_ago=25 + i, checkpoint_since=True) for i in range(40)]
    assert stops(*old) == ""


@given(
    limit=st.integers(min_value=0, max_value=5),
    outcomes=st.lists(st.tuples(st.integers(min_value=1, max_value=50), st.booleans()), min_size=40, max_size=60),
)
def test_no_run_is_restarted_automatically_without_end(limit: int, outcomes: list[tuple[int, bool]]) -> None:
    """Failures all within a day, at any steps, with or without new checkpoints between: a person is reached in time."""
    history: list[PastFailure] = []
    restarts = 0
    for step, saved in outcomes:
        if stop_reason(history, failed_step=step, max_restarts=limit, now=NOW):
            break
        restarts += 1
        history = [replace(p, checkpoint_since=saved or p.checkpoint_since) for p in history]
        history.append(past(C.NODE_FAULT, step=step, hours_ago=1, checkpoint_since=saved))
    assert restarts <= PER_DAY * limit
