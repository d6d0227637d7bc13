"""What an incident cost."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

from recovery.core.ledger import Category, Cost, Gaps, History, gaps_of, incident_accounts, keep_ledger, totals_of
from recovery.core.lifecycle import IncidentState
from recovery.core.types import FailureClass, FindingKind, JobState, Outcome
from tests.core.ledger.histories import NOW, histories
from tests.core.ledger.stories import GPUS, at, attempt, case, restored, saved, steps

S = IncidentState
MINUTE = 60_000_000
CLOCKS = case(
    10, 18, 21, (21, S.AWAITING_DECISION), (30, S.ACTING), (33, S.RESTORING), (43, S.AWAITING_CHECKPOINT),
    closed=60, recommended_at=at(22), decided_at=at(30), acted_at=at(33), restored_at=at(43), checkpoint_at=at(60),
    failed_step=90, restored_step=50,
)  # fmt: skip
RECOVERED = History(
    attempts=(attempt(0, 0, 5, 20, state=JobState.NODE_FAIL), attempt(1, 33, 40)),
    steps=(*steps(10, 10, 10, 9), *steps(11, 45, 60, 15)),
    restores=(restored(11, 43, 50),),
    checkpoints=(saved(50, 15, of=10), saved(200, 60, of=11)),
    cases=(CLOCKS,),
)


def test_the_gaps_between_the_moments() -> None:
    assert gaps_of(CLOCKS) == Gaps(
        detect=3 * MINUTE, recommend=MINUTE, decide=8 * MINUTE, act=3 * MINUTE, restore=10 * MINUTE,
        next_checkpoint=17 * MINUTE, total=42 * MINUTE,
    )  # fmt: skip


def test_a_moment_that_was_not_seen_leaves_both_gaps_open() -> None:
    gaps = gaps_of(case(10, 18, 21, recommended_at=at(22), acted_at=at(33)))
    assert (gaps.recommend, gaps.decide, gaps.act, gaps.total) == (MINUTE, None, None, None)


def test_a_moment_before_an_earlier_one_counts_as_that_one() -> None:
    gaps = gaps_of(case(10, 18, 17, recommended_at=at(20), decided_at=at(19), acted_at=at(21)))
    assert (gaps.detect, gaps.recommend, gaps.decide, gaps.act) == (0, 3 * MINUTE, 0, MINUTE)


@settings(max_examples=60, deadline=None)
@given(histories())
def test_gaps_are_never_negative_and_sum_to_the_total(history: History) -> None:
    for clocks in history.cases:
        gaps = gaps_of(clocks)
        parts = (gaps.detect, gaps.recommend, gaps.decide, gaps.act, gaps.restore, gaps.next_checkpoint)
        assert all(part is None or part >= 0 for part in parts)
        if None not in parts:
            assert gaps.total == sum(part for part in parts if part is not None)


def test_the_cost_of_one_incident() -> None:
    (account,) = incident_accounts(RECOVERED, keep_ledger(RECOVERED, now=at(70)))
    assert account.interruption
    assert account.steps_lost == 40
    assert account.lost == Cost(time_us=4 * MINUTE, gpu_us=4 * MINUTE * GPUS)
    assert account.stalled == Cost(time_us=3 * MINUTE, gpu_us=2 * MINUTE * GPUS)
    assert account.deciding == Cost(time_us=9 * MINUTE, gpu_us=0)
    assert account.deciding_run_gpu_us == 9 * MINUTE * GPUS
    assert account.acting == Cost(time_us=3 * MINUTE, gpu_us=0)


def test_a_slowdown_and_a_false_alarm_are_no_interruptions() -> None:
    slow = case(11, 50, 55, kind=FindingKind.SLOWDOWN, incident=2)
    wrong = case(11, 56, 57, kind=FindingKind.HANG, incident=3, closed=58, outcome=Outcome.FALSE_ALARM)
    history = History(attempts=RECOVERED.attempts, cases=(CLOCKS, slow, wrong))
    accounts = incident_accounts(history, keep_ledger(history, now=at(70)))
    assert [(a.incident, a.interruption) for a in accounts] == [(1, True), (2, False), (3, False)]
    assert accounts[1].deciding == Cost()
    assert accounts[2].deciding == Cost(time_us=MINUTE, gpu_us=MINUTE * GPUS)


ON_PURPOSE = Outcome.STOPPED_ON_PURPOSE


@pytest.mark.parametrize(
    ("failure_class", "outcome", "acted", "counts"),
    [
        pytest.param(FailureClass.EXTERNAL_CANCEL, ON_PURPOSE, None, False, id="a person cancelled it"),
        pytest.param(FailureClass.EXTERNAL_CANCEL, None, None, False, id="and before the case is closed"),
        pytest.param(FailureClass.COMPLETED, ON_PURPOSE, None, False, id="the job completed"),
        pytest.param(FailureClass.NOT_A_FAILURE, Outcome.GAVE_UP, None, False, id="a pause"),
        pytest.param(FailureClass.UNKNOWN, ON_PURPOSE, None, False, id="closed so by a person, and nothing says more"),
        pytest.param(None, ON_PURPOSE, None, False, id="never diagnosed"),
        pytest.param(FailureClass.UNKNOWN, ON_PURPOSE, 33, True, id="the restarted job was cancelled"),
        pytest.param(FailureClass.GPU_HARDWARE, ON_PURPOSE, 33, True, id="the restarted job completed"),
        pytest.param(FailureClass.HANG_SILENT, ON_PURPOSE, None, True, id="a hang that an approver cancelled"),
        pytest.param(FailureClass.PREEMPTION, Outcome.RECOVERED, 33, True, id="preempted"),
        pytest.param(None, None, None, True, id="not diagnosed yet"),
    ],
)
def test_an_interruption_is_a_failure_that_the_run_did_not_want(
    failure_class: FailureClass | None, outcome: Outcome | None, acted: float | None, counts: bool
) -> None:
    clocks = case(
        10, 18, 21, failure_class=failure_class, outcome=outcome, acted_at=None if acted is None else at(acted)
    )
    history = History(attempts=RECOVERED.attempts, cases=(clocks,))
    (account,) = incident_accounts(history, keep_ledger(history, now=at(70)))
    assert account.interruption is counts


def test_each_stop_is_charged_with_what_was_lost_since_the_one_before() -> None:
    second = case(11, 58, 59, incident=2, failed_step=190, restored_step=100)
    history = History(
        attempts=(RECOVERED.attempts[0], attempt(1, 33, 40, 58, state=JobState.FAILED), attempt(2, 60, 61)),
        steps=(*steps(10, 10, 10, 9), *steps(11, 45, 60, 13)),
        restores=(restored(11, 43, 50), restored(12, 65, 100)),
        cases=(case(10, 18, 21, closed=43), second),
    )
    one, two = incident_accounts(history, keep_ledger(history, now=at(70)))
    assert one.lost.time_us == 4 * MINUTE
    assert two.lost.time_us == (58 - 49) * MINUTE
    assert two.steps_lost == 90


def test_no_ledger_no_cost() -> None:
    (account,) = incident_accounts(History(cases=(CLOCKS,)), keep_ledger(History(cases=(CLOCKS,)), now=at(70)))
    assert account.lost == account.deciding == Cost()


@settings(max_examples=80, deadline=None)
@given(histories())
def test_nothing_is_charged_to_two_incidents(history: History) -> None:
    ledger = keep_ledger(history, now=NOW)
    totals = totals_of(ledger)
    charged: Counter[Category] = Counter()
    for account in incident_accounts(history, ledger):
        charged[Category.LOST] += account.lost.time_us
        charged[Category.STALLED] += account.stalled.time_us
        charged[Category.DECIDING] += account.deciding.time_us
        charged[Category.ACTING] += account.acting.time_us
    assert all(time <= totals.time(category) for category, time in charged.items())
