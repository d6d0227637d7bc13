"""How far the product may go, and what lowers it (DESIGN, invariants 6 to 8)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.policy import DEFAULT_RULES, Load, Ruling, check_rules, lower, rule_on
from recovery.core.types import (
    ActionKind,
    Diagnosis,
    Exclude,
    FailureClass,
    Mode,
    PastFailure,
    Proposal,
    Restart,
)
from tests.core.attempts import at, past

C = FailureClass
CALM = Load(
    actions_last_hour=0, excluded_nodes=0, total_nodes=100, failures_in_window=1, paused=False, paused_reason=""
)
AUTO: dict[str, Any] = {
    **DEFAULT_RULES,
    "rules": [
        {"name": "hardware", "classes": ["gpu_hardware", "node_fault"], "mode": "auto", "max_restarts": 2},
        {"name": "ask", "classes": ["hang_silent"], "mode": "approve"},
        {"name": "rest", "classes": "*", "mode": "auto"},
    ],
}
FAULT = Diagnosis(
    failure_class=C.GPU_HARDWARE, restart=Restart.YES, exclude=Exclude.NODES, nodes=("gpu-02",), confidence=0.97,
    reason="A GPU fell off the bus (gpu-02).",
)  # fmt: skip
REQUEUE = Proposal(
    action=ActionKind.REQUEUE_EXCLUDING, exclude_nodes=("gpu-02",), headline="Requeue without gpu-02.", reasons=(),
    restore_step=388, restore_path="/ckpt", steps_at_stake=12, gpu_hours_at_stake=0.4, gpus_idle=32,
    operations=(),
)  # fmt: skip


def ruling(
    rules: dict[str, Any] = AUTO,
    *,
    diagnosis: Diagnosis = FAULT,
    proposal: Proposal = REQUEUE,
    comment_mode: Mode | None = None,
    comment_max: int | None = None,
    history: Sequence[PastFailure] = (),
    load: Load = CALM,
    failed_step: int | None = 400,
) -> Ruling:
    return rule_on(
        rules, diagnosis=diagnosis, proposal=proposal, comment_mode=comment_mode, comment_max_restarts=comment_max,
        history=history, load=load, failed_step=failed_step, now=at(1000),
    )  # fmt: skip


# --- rules ------------------------------------------------------------------------------------------------------------


def test_a_fresh_installation_observes() -> None:
    got = ruling(DEFAULT_RULES)
    assert (got.mode, got.rule) == (Mode.OBSERVE, "default")
    assert got.reason == "No rule matches gpu_hardware; the default is observe."


def test_the_first_matching_rule_decides() -> None:
    assert ruling().rule == "hardware"
    assert ruling(diagnosis=replace(FAULT, failure_class=C.HANG_SILENT)).mode is Mode.APPROVE
    assert ruling(diagnosis=replace(FAULT, failure_class=C.PREEMPTION)).rule == "rest"


def test_auto_says_which_rule() -> None:
    got = ruling()
    assert (got.mode, got.reason) == (Mode.AUTO, "Rule hardware says auto for gpu_hardware.")


def test_where_nothing_is_proposed_there_is_nothing_to_decide() -> None:
    got = ruling(proposal=replace(REQUEUE, action=ActionKind.NOTHING, exclude_nodes=()))
    assert got.mode is Mode.OBSERVE
    assert "nothing is proposed" in got.reason


# --- the job's comment ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comment", "expected"),
    [(Mode.OBSERVE, Mode.OBSERVE), (Mode.APPROVE, Mode.APPROVE), (Mode.AUTO, Mode.AUTO), (None, Mode.AUTO)],
)
def test_a_comment_can_ask_for_less(comment: Mode | None, expected: Mode) -> None:
    assert ruling(comment_mode=comment).mode is expected


def test_a_comment_cannot_ask_for_more() -> None:
    assert ruling(DEFAULT_RULES, comment_mode=Mode.AUTO).mode is Mode.OBSERVE
    hanging = replace(FAULT, failure_class=C.HANG_SILENT)
    assert ruling(diagnosis=hanging, comment_mode=Mode.AUTO).mode is Mode.APPROVE


def test_a_comment_can_lower_the_budget_but_not_raise_it() -> None:
    one, two = past(C.NODE_FAULT, step=100), past(C.NODE_FAULT, step=200)
    assert ruling(history=[one], comment_max=1).mode is Mode.APPROVE
    assert ruling(comment_max=0).mode is Mode.APPROVE
    assert ruling(comment_max=-5).mode is Mode.APPROVE
    assert ruling(history=[one], comment_max=100).mode is Mode.AUTO
    assert ruling(history=[one, two], comment_max=100).mode is Mode.APPROVE


# --- what lowers auto -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"load": replace(CALM, paused=True, paused_reason="Rita: maintenance")}, "paused (Rita: maintenance)"),
        ({"load": replace(CALM, paused=True)}, "automation is paused."),
        ({"load": replace(CALM, failures_in_window=3)}, "3 failures within 120 s look like an incident"),
        ({"load": replace(CALM, actions_last_hour=10)}, "10 actions in the last hour, 10 are allowed"),
        ({"load": replace(CALM, excluded_nodes=4)}, "5 nodes would be excluded, 4 are allowed"),
        ({"load": replace(CALM, total_nodes=9)}, "1 of 9 nodes would be excluded, 10 percent are allowed"),
        ({"load": replace(CALM, total_nodes=0)}, "1 of 0 nodes"),
        ({"load": replace(CALM, total_nodes=-1)}, "1 of -1 nodes"),
        ({"history": [past(C.NODE_FAULT, step=100), past(C.NODE_FAULT, step=200)]}, "The budget is used up: 2 of 2"),
        ({"history": [past(C.PREEMPTION, step=400)]}, "failed at step 400 again"),
        ({"diagnosis": replace(FAULT, failure_class=C.UNKNOWN)}, "the cause is unknown"),
        ({"diagnosis": replace(FAULT, restart=Restart.AFTER_CHANGE)}, "the diagnosis says restart after_change"),
        ({"diagnosis": replace(FAULT, restart=Restart.NO)}, "the diagnosis says restart no"),
        ({"proposal": replace(REQUEUE, restore_step=None)}, "would start from scratch"),
    ],
)
def test_auto_is_lowered_to_approve_with_its_reason(fields: dict[str, Any], words: str) -> None:
    got = ruling(**fields)
    assert got.mode is Mode.APPROVE
    assert words in got.reason
    assert "a person must approve" in got.reason


def test_just_below_every_limit_it_stays_automatic() -> None:
    load = replace(CALM, actions_last_hour=9, excluded_nodes=3, total_nodes=40, failures_in_window=2)
    assert ruling(load=load).mode is Mode.AUTO


def test_a_plain_requeue_does_not_meet_the_exclusion_cap() -> None:
    plain = replace(REQUEUE, action=ActionKind.REQUEUE, exclude_nodes=())
    assert ruling(proposal=plain, load=replace(CALM, excluded_nodes=4, total_nodes=0)).mode is Mode.AUTO


def test_the_breaker_lowers_only_auto() -> None:
    hanging = replace(FAULT, failure_class=C.HANG_SILENT)
    got = ruling(diagnosis=hanging, load=replace(CALM, paused=True))
    assert got.mode is Mode.APPROVE
    assert ruling(DEFAULT_RULES, load=replace(CALM, paused=True)).mode is Mode.OBSERVE


def test_lower_is_the_one_that_goes_less_far() -> None:
    assert lower(Mode.AUTO, Mode.APPROVE) is Mode.APPROVE
    assert lower(Mode.OBSERVE, Mode.AUTO) is Mode.OBSERVE


_MODES = st.sampled_from(Mode)
_ORDER = list(Mode)


@given(
    rule_mode=_MODES,
    comment=st.none() | _MODES,
    comment_max=st.none() | st.integers(min_value=-1, max_value=99),
    failure_class=st.sampled_from(FailureClass),
    restart=st.sampled_from(Restart),
    restore=st.none() | st.just(388),
    load=st.builds(
        Load, actions_last_hour=st.integers(0, 20), excluded_nodes=st.integers(0, 9), total_nodes=st.integers(0, 99),
        failures_in_window=st.integers(0, 5), paused=st.booleans(), paused_reason=st.just(""),
    ),
    steps=st.lists(st.none() | st.integers(380, 420), max_size=4),
)  # fmt: skip
def test_nothing_ever_raises_autonomy(
    rule_mode: Mode, comment: Mode | None, comment_max: int | None, failure_class: FailureClass, restart: Restart,
    restore: int | None, load: Load, steps: list[int | None],
) -> None:  # fmt: skip
    rules = {**DEFAULT_RULES, "rules": [{"name": "all", "classes": "*", "mode": rule_mode.value}]}
    case: dict[str, Any] = {
        "diagnosis": replace(FAULT, failure_class=failure_class, restart=restart),
        "proposal": replace(REQUEUE, restore_step=restore),
        "history": [past(C.NODE_FAULT, step=step) for step in steps],
        "load": load,
    }
    without = ruling(rules, **case)
    got = ruling(rules, **case, comment_mode=comment, comment_max=comment_max)
    assert _ORDER.index(got.mode) <= _ORDER.index(without.mode) <= _ORDER.index(rule_mode)
    if comment is not None:
        assert _ORDER.index(got.mode) <= _ORDER.index(comment)
    if got.mode is Mode.AUTO:
        assert failure_class is not C.UNKNOWN
        assert restart in (Restart.YES, Restart.ONCE)
        assert restore is not None
        assert not load.paused


# --- checking a policy ------------------------------------------------------------------------------------------------


def test_good_policies_pass() -> None:
    assert check_rules(DEFAULT_RULES) == []
    assert check_rules(AUTO) == []


def changed(path: str, value: Any) -> dict[str, Any]:
    """AUTO with the field at `path` ("rules.0.mode") replaced, or removed where value is ...."""
    rules = copy.deepcopy(AUTO)
    *way, last = path.split(".")
    at_: Any = rules
    for step in way:
        at_ = at_[int(step)] if isinstance(at_, list) else at_[step]
    if value is ...:
        del at_[last]
    else:
        at_[last] = value
    return rules


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("rules", ..., "rules: is missing; add it."),
        ("breaker", ..., "breaker: is missing; add it."),
        ("color", "red", "color: no such field; remove it."),
        ("rules", {}, "rules: must be a list of rules; use [] for none."),
        ("rules", ["auto"], "rules[0]: must be an object with name, classes and mode."),
        ("rules.0.name", "", "rules[0].name: must be a text of 1 to 100 printable signs other than default."),
        (
            "rules.0.name",
            "default",
            "rules[0].name: must be a text of 1 to 100 printable signs other than default.",
        ),
        ("rules.1.name", "hardware", "rules[1].name: hardware is used twice; give each its own name."),
        ("rules.0.mode", "yolo", "rules[0].mode: must be one of observe, approve, auto."),
        ("rules.0.mode", ["auto"], "rules[0].mode: must be one of observe, approve, auto."),
        ("rules.0.classes", [], 'rules[0].classes: must be "*" or a list of failure classes, each once.'),
        (
            "rules.0.classes",
            ["gremlins"],
            "rules[0].classes: 'gremlins' is no failure class; docs/glossary.md lists them.",
        ),
        (
            "rules.0.classes",
            ["gpu_hardwar"],
            "rules[0].classes: 'gpu_hardwar' is no failure class; did you mean gpu_hardware?",
        ),
        ("rules.0.classes", [["gpu_oom"]], "rules[0].classes: ['gpu_oom'] is no failure class; did you mean gpu_oom?"),
        ("rules.0.max_restarts", -1, "rules[0].max_restarts: must be a whole number from 0 to 100."),
        ("rules.0.max_restarts", True, "rules[0].max_restarts: must be a whole number from 0 to 100."),
        ("rules.0.until", "monday", "rules[0].until: no such field; remove it."),
        ("default", {"mode": "auto", "x": 1}, "default.x: no such field; remove it."),
        ("default.mode", "never", "default.mode: must be one of observe, approve, auto."),
        (
            "breaker",
            [],
            "breaker: must be an object with max_actions_per_hour, max_excluded_nodes, max_excluded_percent, "
            "fleet_failures and fleet_window_s.",
        ),
        ("breaker.fleet_failures", 1, "breaker.fleet_failures: must be a whole number, at least 2."),
        ("breaker.max_excluded_percent", 101, "breaker.max_excluded_percent: must be a number from 0 to 100."),
        ("breaker.max_excluded_percent", float("nan"), "breaker.max_excluded_percent: must be a number from 0 to 100."),
        ("breaker.max_actions_per_hour", 1.5, "breaker.max_actions_per_hour: must be a whole number, at least 0."),
        ("breaker.fleet_window_s", ..., "breaker.fleet_window_s: is missing; add it."),
        ("breaker.fuse", 1, "breaker.fuse: no such field; remove it."),
        ("expires_after_s", 5, "expires_after_s: must be a number of seconds, at least 60."),
        ("expires_after_s", float("inf"), "expires_after_s: must be a number of seconds, at least 60."),
    ],
)
def test_a_wrong_field_is_named_with_the_remedy(path: str, value: Any, message: str) -> None:
    assert message in check_rules(changed(path, value))


@pytest.mark.parametrize("rules", [None, [], "auto", 3])
def test_a_policy_is_an_object(rules: object) -> None:
    assert len(check_rules(rules)) == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(
    field=st.sampled_from(
        ["rules", "default", "breaker", "expires_after_s", "rules.0", "rules.0.classes", "rules.0.mode",
         "rules.0.name", "rules.0.max_restarts", "breaker.fleet_window_s"]
    ),
    value=_JSON,
)  # fmt: skip
def test_any_json_is_judged_without_an_error_and_what_passes_can_be_used(field: str, value: Any) -> None:
    *way, last = field.split(".")
    rules = copy.deepcopy(AUTO)
    at_: Any = rules
    for step in way:
        at_ = at_[int(step)] if isinstance(at_, list) else at_[step]
    at_[int(last) if isinstance(at_, list) else last] = value
    if check_rules(rules) == []:
        assert ruling(rules).mode in Mode
