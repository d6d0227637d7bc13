"""A draft of the policy on recorded history."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

from recovery.core.policy import DEFAULT_RULES, Traits, check_rules
from recovery.core.replay import Recorded, replay, summary
from recovery.core.types import ActionKind, DecisionKind, FailureClass, Mode, Outcome
from tests.core.attempts import at
from tests.core.test_policy import FAULT, REQUEUE

CASE = Recorded(
    incident=1, cluster="alpha", run=1, at=at(1000), failed_at=at(990), traits=Traits(cluster="alpha", gpus=8),
    diagnosis=FAULT, proposal=REQUEUE, comment_mode=None, comment_max_restarts=None, failed_step=400, log_interval=1,
    saves=4, total_nodes=100, failures_beside=1, interrupts=False, decision=DecisionKind.APPROVE,
    outcome=Outcome.RECOVERED, acted=True, waited=timedelta(minutes=10), gpus=8,
)  # fmt: skip


def auto(**fields: Any) -> dict[str, Any]:
    rules = {**DEFAULT_RULES, "rules": [{"name": "all", "classes": "*", "mode": "auto", **fields}]}
    assert check_rules(rules) == []
    return rules


def story(count: int, *, run: int | None = None, step: int = 100, minutes: float = 30) -> list[Recorded]:
    """Cases of one run each, or of one run that saves between them."""
    return [
        replace(
            CASE, incident=n, run=run or n, at=at(1000) + n * timedelta(minutes=minutes), saves=n, failed_step=n * step,
            failed_at=at(990) + n * timedelta(minutes=minutes),
        )
        for n in range(1, count + 1)
    ]  # fmt: skip


def test_what_a_draft_would_have_done_is_told_beside_what_people_did() -> None:
    cases = [
        replace(CASE, incident=1, run=1),
        replace(CASE, incident=2, run=2, decision=DecisionKind.REJECT, acted=False, outcome=Outcome.GAVE_UP),
        replace(CASE, incident=3, run=3, outcome=Outcome.SAME_FAILURE),
        replace(CASE, incident=4, run=4, proposal=replace(REQUEUE, action=ActionKind.NOTHING), decision=None),
    ]
    told = summary(replay(auto(), cases))
    assert told.by_mode == {Mode.OBSERVE: 1, Mode.APPROVE: 0, Mode.AUTO: 3}
    assert (told.against_people, told.went_badly) == ((2,), (3,))
    assert told.saved == timedelta(minutes=20)
    assert told.saved_gpu_s == 20 * 60 * 8
    assert summary(replay(DEFAULT_RULES, cases)).by_mode[Mode.OBSERVE] == 4


def test_the_drafts_own_actions_use_up_its_budget_until_a_new_checkpoint() -> None:
    same = [replace(case, saves=4) for case in story(5, run=7)]
    assert [each.goes for each in replay(auto(max_restarts=2), same)] == [True, True, False, False, False]
    assert [each.goes for each in replay(auto(max_restarts=2), story(5, run=7))] == [True] * 5


def test_the_drafts_own_actions_count_towards_the_breaker() -> None:
    found = replay(auto(), story(12, minutes=1))
    assert [each.goes for each in found] == [True] * 10 + [False] * 2
    assert "10 actions in the last hour" in found[10].ruling.reason
    others = [replace(case, proposal=replace(REQUEUE, exclude_nodes=(f"gpu-{case.incident}",))) for case in story(6)]
    found = replay(auto(), others)
    assert [each.goes for each in found] == [True] * 4 + [False] * 2
    assert "5 nodes would be excluded" in found[4].ruling.reason


def test_clusters_and_old_actions_do_not_meet() -> None:
    cases = story(4)
    other = [replace(case, cluster="beta", incident=case.incident + 10) for case in cases]
    assert sum(each.goes for each in replay(auto(), cases + other)) == 8
    later = [
        replace(case, at=case.at + timedelta(days=2), failed_at=case.failed_at, run=99 + n)
        for n, case in enumerate(story(4))
    ]
    assert sum(each.goes for each in replay(auto(), cases + later)) == 8


def test_the_order_in_which_cases_are_given_does_not_matter() -> None:
    cases = story(30, minutes=3)
    mixed = random.Random(7).sample(cases, len(cases))
    assert replay(auto(), mixed) == replay(auto(), cases)


def test_a_class_that_no_rule_names_is_left_to_people() -> None:
    unknown = replace(CASE, diagnosis=replace(FAULT, failure_class=FailureClass.UNKNOWN))
    (found,) = replay(auto(), [unknown])
    assert (found.ruling.mode, found.against_people) == (Mode.APPROVE, False)
