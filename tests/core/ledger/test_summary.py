"""The published figures, on ledgers that can be checked by hand."""

from __future__ import annotations

import pytest

from recovery.core.ledger import (
    Category,
    History,
    Spread,
    Summary,
    Totals,
    badput,
    effective_training_time_ratio,
    goodput,
    gpu_goodput,
    incident_accounts,
    interruptions_per_1000_gpu_hours,
    keep_ledger,
    spread,
    summarise,
    totals_of,
)
from recovery.core.ledger.totals import PLACE, PRODUCTIVE
from recovery.core.types import JobState, Outcome
from tests.core.ledger.stories import at, attempt, case
from tests.core.ledger.test_incidents import RECOVERED

TOTALS = totals_of(keep_ledger(RECOVERED, now=at(70)))  # 5 queue, 5 start-up, 4 kept, 4 lost, …


def test_effective_training_time_is_productive_time_in_all_of_the_time() -> None:
    productive = 4 + 25  # until 14, then from 45 to 70
    assert effective_training_time_ratio(TOTALS) == pytest.approx(productive / 70)


def test_goodput_does_not_count_the_first_wait_but_every_later_one() -> None:
    assert goodput(TOTALS) == pytest.approx(29 / 65)
    shares = badput(TOTALS)
    assert shares[Category.QUEUE_WAIT] == pytest.approx(7 / 65)
    assert shares[Category.LOST] == pytest.approx(4 / 65)
    assert shares[Category.RESTORE] == pytest.approx(3 / 65)
    assert not set(shares) & set(PRODUCTIVE)
    assert sum(shares.values()) + 29 / 65 == pytest.approx(1)


def test_goodput_of_gpus_counts_what_was_held() -> None:
    assert gpu_goodput(TOTALS) == pytest.approx(29 / 45)  # from 5 to 20 and from 40 to 70


def test_slow_training_is_productive_and_shown_beside() -> None:
    time_us = [0] * len(Category)
    time_us[PLACE[Category.SLOWED]] = 3
    time_us[PLACE[Category.LOST]] = 1
    assert effective_training_time_ratio(Totals(time_us=tuple(time_us))) == 0.75


def test_no_time_has_no_ratio() -> None:
    assert effective_training_time_ratio(Totals()) is None
    assert goodput(Totals()) is None
    assert gpu_goodput(Totals()) is None
    assert badput(Totals()) == {}
    assert interruptions_per_1000_gpu_hours(Summary()) is None
    assert spread(()) is None


def test_a_run_that_never_left_the_queue_has_no_goodput_and_no_effective_time() -> None:
    waiting = totals_of(keep_ledger(History(attempts=(attempt(0, 0, state=JobState.PENDING),)), now=at(10)))
    assert effective_training_time_ratio(waiting) == 0
    assert goodput(waiting) is None


def test_percentiles_lie_between_the_values_around_them() -> None:
    seconds = tuple(n * 1_000_000 for n in (10, 20, 30, 40, 100))
    assert spread(seconds) == Spread(count=5, mean=40.0, p50=30.0, p90=76.0, p99=97.6)


def test_interruptions_are_counted_per_thousand_hours_of_held_gpus() -> None:
    history = History(
        attempts=(attempt(0, 0, 0, 60 * 10, gpus=100, state=JobState.FAILED),),
        cases=(
            case(10, 600, 600, incident=1, closed=600),
            case(10, 300, 301, incident=2, closed=302, outcome=Outcome.FALSE_ALARM),
        ),
    )
    ledger = keep_ledger(history, now=at(700))
    summary = summarise([totals_of(ledger)], incident_accounts(history, ledger))
    assert summary.interruptions == 1
    assert interruptions_per_1000_gpu_hours(summary) == pytest.approx(1.0)  # 100 GPUs for 10 hours
    assert summary.gaps["detect"] == (0,)
    assert summary.gaps["total"] == ()
