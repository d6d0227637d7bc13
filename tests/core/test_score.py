"""What a rule has earned: shares with their intervals, promotion, demotion."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.policy import Promote
from recovery.core.score import LAST, Decided, Move, Share, demotion, promotion, scorecards
from recovery.core.types import DecisionKind, FailureClass, Outcome, Rejection
from tests.core.attempts import at

BAR = Promote(decided=20, agreement=0.8)
APPROVED = Decided(
    incident=1, at=at(0), rule="hardware", failure_class=FailureClass.GPU_HARDWARE, kind=DecisionKind.APPROVE,
    acted=True, outcome=Outcome.RECOVERED, waited=timedelta(minutes=5), gpus=8,
)  # fmt: skip
REJECTED = replace(
    APPROVED, kind=DecisionKind.REJECT, rejection=Rejection.WRONG_CLASS, acted=False, outcome=Outcome.GAVE_UP
)
AUTOMATIC = replace(APPROVED, kind=DecisionKind.AUTO)


# Values of the Wilson score interval with z = 1.96, worked out from its formula by hand (fractions) and rounded.
@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        (0, 0, 0, 1),
        (1, 1, 0.2065, 1),
        (0, 10, 0, 0.2775),
        (10, 10, 0.7225, 1),
        (20, 20, 0.8389, 1),
        (9, 10, 0.5958, 0.9821),
    ],
)
def test_a_share_of_few_says_how_little_is_known(hits: int, of: int, low: float, high: float) -> None:
    assert Share(hits=hits, of=of).interval == pytest.approx((low, high), abs=1e-4)


@given(of=st.integers(1, 500), data=st.data())
def test_an_interval_holds_its_share_and_narrows_with_more_cases(of: int, data: st.DataObject) -> None:
    share = Share(hits=data.draw(st.integers(0, of)), of=of)
    low, high = share.interval
    assert 0 <= low <= (share.value or 0) + 1e-9
    assert (share.value or 0) - 1e-9 <= high <= 1
    more = Share(hits=share.hits * 4, of=of * 4).interval
    assert more[1] - more[0] < high - low


def test_a_scorecard_counts_what_people_said_and_what_came_of_it() -> None:
    rows = [
        APPROVED,
        replace(APPROVED, outcome=Outcome.SAME_FAILURE, incident=2),
        replace(APPROVED, amended=True, kind=DecisionKind.AMEND, acted=False),
        REJECTED,
        replace(REJECTED, rejection=Rejection.USER_IS_ON_IT),
        replace(APPROVED, outcome=None),
        AUTOMATIC,
        replace(APPROVED, kind=DecisionKind.EXPIRE, acted=False),
        replace(APPROVED, failure_class=FailureClass.PREEMPTION),
    ]
    first, second = scorecards(rows)
    assert (first.failure_class, first.recommended, second.recommended) == (FailureClass.GPU_HARDWARE, 8, 1)
    assert first.agreement == Share(hits=3, of=5)  # three approvals; one amended, one rejected; one neutral
    assert first.recovered == Share(hits=2, of=3)  # one is open
    assert (first.wrongful, first.automatic, first.expired, first.decided) == ((2,), 1, 1, 6)
    assert first.saved == timedelta(minutes=15)
    assert first.saved_gpu_s == 15 * 60 * 8


def test_a_rule_is_proposed_for_promotion_when_its_bar_is_met() -> None:
    found = promotion([APPROVED] * 20, BAR)
    assert found.move is Move.PROMOTE
    assert found.reason == "people agreed with 20 of 20; at 95 % that is at least 84% (the bar: 80%), none wrongful."


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([APPROVED] * 19, "19 of 20 decisions so far."),
        ([APPROVED] * 18 + [REJECTED] * 2, "at 95 % that is at least 70%, and 80% is the bar."),
        ([APPROVED] * 40 + [replace(APPROVED, incident=7, undone=True)], "Incident 7 ended as a wrongful action."),
        ([APPROVED] * 19 + [replace(REJECTED, rejection=Rejection.NOT_NOW)], "19 of 20 decisions so far."),
        ([AUTOMATIC] * 40, "0 of 20 decisions so far."),
    ],
)
def test_below_its_bar_a_rule_stays_and_what_is_missing_is_said(rows: list[Decided], reason: str) -> None:
    found = promotion(rows, BAR)
    assert found.move is None
    assert reason in found.reason


@pytest.mark.parametrize("outcome", [Outcome.FALSE_ALARM, Outcome.SAME_FAILURE, Outcome.FROM_SCRATCH, Outcome.UNDONE])
def test_one_wrongful_action_demotes_at_once(outcome: Outcome) -> None:
    found = demotion([AUTOMATIC] * 100 + [replace(AUTOMATIC, incident=9, outcome=outcome)], BAR)
    assert (found.move, found.reason) == (Move.DEMOTE, "Incident 9 ended as a wrongful action.")


def test_what_a_person_approved_demotes_no_automatic_rule() -> None:
    assert demotion([replace(APPROVED, outcome=Outcome.FALSE_ALARM)], BAR).move is None


def test_a_falling_score_demotes_when_chance_no_longer_explains_it() -> None:
    gone = replace(AUTOMATIC, outcome=Outcome.NO_CHECKPOINT)
    assert demotion([], BAR).move is None
    assert demotion([AUTOMATIC] * 4 + [gone], BAR).move is None
    found = demotion([gone] * 5, BAR)
    assert found.move is Move.DEMOTE
    assert found.reason.startswith("0 of its last 5 actions recovered; at 95 % that is at most 43%")


def test_a_fresh_decline_is_not_hidden_by_a_long_good_past() -> None:
    good = [replace(AUTOMATIC, at=at(n)) for n in range(500)]
    bad = [replace(AUTOMATIC, at=at(1000 + n), outcome=Outcome.NO_PROGRESS) for n in range(LAST)]
    assert demotion(bad + good, BAR).move is Move.DEMOTE


def test_many_wrongful_ones_are_counted() -> None:
    rows = [replace(AUTOMATIC, incident=n, undone=True) for n in range(1, 6)]
    assert demotion(rows, BAR).reason == "Incidents 1, 2, 3 and 2 more ended as a wrongful action."
