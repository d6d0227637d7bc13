from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import policy_form
from recovery.core.policy import DEFAULT_RULES, check_rules
from recovery.core.types import FailureClass, Mode

HARDWARE = {"name": "hardware", "classes": ["gpu_hardware", "node_fault"], "mode": "auto", "max_restarts": 5}
NUMERICS = {"name": "numerics", "classes": ["numerics"], "mode": "approve"}
SPECIAL = {
    "name": "vision", "classes": ["gpu_hardware"], "mode": "auto", "match": {"accounts": ["vision"]},
    "budget": {"per_class": 1}, "approval": {"count": 2},
}  # fmt: skip
CAREFUL = {**HARDWARE, "limits": {"max_nodes": 1}, "approval": {"four_eyes": True}, "expires_after_s": 600}
EVERYTHING = {"name": "rest", "classes": "*", "mode": "approve"}


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {**DEFAULT_RULES, "rules": list(rules)}


def typed(rules: dict[str, Any], **changes: str) -> dict[str, str]:
    """What the browser sends back when a person changes these fields of the table."""
    table = policy_form.table_of(rules)
    fields = {f"mode_{row.key}": row.mode for row in table.rows}
    fields |= {f"max_{row.key}": row.max_restarts for row in table.rows}
    fields |= {row.key: row.value for row in table.limits}
    fields |= {"default_mode": table.default_mode, "expires_min": table.expires_min}
    return {**fields, **changes}


def saved(rules: dict[str, Any], **changes: str) -> dict[str, Any]:
    table = policy_form.read(rules, typed(rules, **changes))
    assert table.problems == []
    assert table.rules is not None
    assert check_rules(table.rules) == []
    return table.rules


@pytest.mark.parametrize(
    "rules",
    [
        policy(), policy(HARDWARE, NUMERICS), policy(EVERYTHING), policy(HARDWARE, EVERYTHING),
        {
            **policy(SPECIAL, CAREFUL, EVERYTHING), "default": {"mode": "approve", "approval": {"comment": True}},
            "notify": [{"to": ["pager"]}], "avoid_suspects": True, "expires_after_s": 100_000,
            "breaker": {**DEFAULT_RULES["breaker"], "max_actions_per_hour": 1_234_567, "fleet_window_s": 90.000125},
        },
    ],
)  # fmt: skip
def test_saving_an_unchanged_table_changes_nothing(rules: dict[str, Any]) -> None:
    assert saved(rules) == rules


def test_the_table_shows_which_rule_decides_each_class() -> None:
    rows = {row.key: row for row in policy_form.table_of(policy(HARDWARE, EVERYTHING)).rows}
    assert set(rows) == set(FailureClass)
    assert (rows["gpu_hardware"].mode, rows["gpu_hardware"].max_restarts) == ("auto", "5")
    assert (rows["numerics"].mode, rows["numerics"].rule) == ("approve", "rest")


def test_a_changed_class_leaves_its_rule_and_the_rule_keeps_the_others() -> None:
    rules = saved(policy(HARDWARE), mode_gpu_hardware="approve")["rules"]
    assert rules == [
        {"name": "gpu_hardware", "classes": ["gpu_hardware"], "mode": "approve", "max_restarts": 5},
        {**HARDWARE, "classes": ["node_fault"]},
    ]


def test_what_the_table_cannot_say_outlives_a_change_in_it() -> None:
    rules = saved(policy(SPECIAL, CAREFUL), mode_gpu_hardware="approve")["rules"]
    own = {**CAREFUL, "name": "gpu_hardware", "classes": ["gpu_hardware"], "mode": "approve"}
    assert rules == [SPECIAL, own, {**CAREFUL, "classes": ["node_fault"]}]
    alone = {**CAREFUL, "classes": ["numerics"]}
    assert saved(policy(alone), mode_numerics="observe")["rules"] == [{**alone, "mode": "observe"}]


def test_rules_for_some_jobs_only_decide_no_row_and_are_named() -> None:
    table = policy_form.table_of(policy(SPECIAL))
    assert {row.mode for row in table.rows} == {"observe"}
    assert table.special == ("vision",)


def test_a_rule_in_shadow_is_told() -> None:
    rows = policy_form.table_of(policy({**HARDWARE, "shadow": True})).rows
    assert {row.key for row in rows if row.shadow} == {"gpu_hardware", "node_fault"}


def test_a_class_put_back_to_the_default_needs_no_rule() -> None:
    assert saved(policy(NUMERICS), mode_numerics="observe")["rules"] == []


def test_a_class_is_changed_before_the_rule_for_everything() -> None:
    rules = saved(policy(EVERYTHING), mode_user_code="observe")["rules"]
    assert rules == [{"name": "user_code", "classes": ["user_code"], "mode": "observe"}, EVERYTHING]


def test_two_rules_never_share_a_name() -> None:
    taken = {"name": "numerics", "classes": ["gpu_oom"], "mode": "approve"}
    names = [rule["name"] for rule in saved(policy(taken), mode_numerics="approve")["rules"]]
    assert len(set(names)) == 2


def test_limits_and_expiry_are_saved_in_their_units() -> None:
    rules = saved(policy(), max_actions_per_hour="3", max_excluded_percent="2.5", expires_min="30")
    assert rules["breaker"]["max_actions_per_hour"] == 3
    assert rules["breaker"]["max_excluded_percent"] == 2.5
    assert rules["expires_after_s"] == 1800


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("max_gpu_hardware", "many", "GPU hardware: give a whole number from 0 to 100 restarts"),
        ("max_gpu_hardware", "101", "GPU hardware: give a whole number"),
        ("max_gpu_hardware", "1.5", "GPU hardware: give a whole number"),
        ("mode_gpu_hardware", "yolo", "GPU hardware: choose observe, approve or auto."),
        ("max_actions_per_hour", "1.5", "Actions in an hour: give a whole number of actions."),
        ("fleet_window_s", "nan", "… within: give a number of seconds."),
        ("fleet_window_s", "", "… within: give a number of seconds."),
        ("expires_min", "0", "Expiry: give minutes, 1 or more."),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy_and_kept(field: str, value: str, said: str) -> None:
    table = policy_form.read(policy(), typed(policy(), **{field: value}))
    assert any(problem.startswith(said) for problem in table.problems)
    assert table.rules is None
    shown = {f"max_{r.key}": r.max_restarts for r in table.rows} | {f"mode_{r.key}": r.mode for r in table.rows}
    shown |= {r.key: r.value for r in table.limits} | {"expires_min": table.expires_min}
    assert shown[field] == value


@given(
    st.lists(
        st.tuples(st.sampled_from(list(FailureClass)), st.sampled_from(list(Mode)), st.integers(0, 100)),
        max_size=8,
    ),
    st.sampled_from([policy(), policy(HARDWARE, NUMERICS), policy(NUMERICS, EVERYTHING), policy(SPECIAL, CAREFUL)]),
)
def test_whatever_is_chosen_is_what_then_holds(
    choices: list[tuple[FailureClass, Mode, int]], base: dict[str, Any]
) -> None:
    changes: dict[str, str] = {}
    for failure_class, mode, restarts in choices:
        changes |= {f"mode_{failure_class}": mode.value, f"max_{failure_class}": str(restarts)}
    rules = saved(base, **changes)
    wanted = typed(base, **changes)
    for failure_class in FailureClass:
        setting = policy_form.setting_of(rules, failure_class)
        assert setting.mode == wanted[f"mode_{failure_class}"]
        assert ("" if setting.max_restarts is None else str(setting.max_restarts)) == wanted[f"max_{failure_class}"]
