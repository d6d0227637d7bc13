"""The policy as YAML: what is read, what is refused with its line, what comes out again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery import policy_files
from recovery.core.policy import DEFAULT_RULES, check

GOOD = """\
# reviewed by the platform team
rules:
  - name: on
    classes: [gpu_hardware, node_fault]
    match:
      partitions: [train*]
      hours: {from: 18:00, to: 08:00, days: [mon, tue]}
    mode: auto
    max_restarts: 010
default:
  mode: observe
breaker:
  max_actions_per_hour: 10
  max_excluded_nodes: 4
  max_excluded_percent: 1e1
  fleet_failures: 3
  fleet_window_s: 120.0
freezes:
  - {name: holidays, from: 2026-12-23T18:00:00Z, to: 2027-01-04T08:00:00Z}
expires_after_s: 43200
"""


def errors_of(text: str) -> list[str]:
    with pytest.raises(policy_files.BadPolicyFile) as caught:
        policy_files.read(text)
    return caught.value.errors


def test_times_dates_and_words_are_read_as_they_stand() -> None:
    rules = policy_files.read(GOOD).rules
    assert rules["rules"][0]["name"] == "on"
    assert rules["rules"][0]["match"]["hours"]["from"] == "18:00"
    assert rules["rules"][0]["max_restarts"] == 10
    assert rules["freezes"][0]["from"] == "2026-12-23T18:00:00Z"
    assert rules["breaker"]["max_excluded_percent"] == 10.0


def test_what_is_written_is_read_again() -> None:
    rules = policy_files.read(GOOD).rules
    assert policy_files.read(policy_files.write(rules)).rules == rules
    assert policy_files.read(policy_files.write(DEFAULT_RULES)).rules == DEFAULT_RULES


def test_fields_stand_in_the_order_in_which_they_are_told_of_however_a_database_keeps_them() -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shuffled(value[key]) for key in sorted(value, key=len)}
        return [shuffled(each) for each in value] if isinstance(value, list) else value

    rules = policy_files.read(GOOD).rules
    text = policy_files.write(rules)
    assert policy_files.write(shuffled(rules)) == text
    assert text.startswith("rules:\n- name: 'on'\n  classes:")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("mode: auto", "mode: yolo", "line 8: rules[0].mode: must be one of observe, approve, auto."),
        (
            "train*]",
            "train*, 7]",
            "line 6: rules[0].match.partitions[1]: must be a text of 1 to 200 printable signs.",
        ),
        ("  fleet_failures: 3\n", "", "line 12: breaker.fleet_failures: is missing; add it."),
        ("to: 08:00", "until: 08:00", "line 7: rules[0].match.hours.until: no such field; remove it."),
        ("default:", "rules: []\ndefault:", "line 10, column 1: this can't be read: rules stands twice."),
        ("mode: observe", "mode: &m observe", ""),
        ("expires_after_s: 43200", "expires_after_s: [", "line 21, column 1: this can't be read: expected the node"),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, error: str) -> None:
    text = GOOD.replace(old, new)
    assert text != GOOD
    if not error:
        policy_files.read(text)  # an anchor that nobody uses says nothing
        return
    assert any(found.startswith(error) for found in errors_of(text)), errors_of(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "line 1: The policy must be a JSON object"),
        ("a: &x 1\nb: *x\n", "line 2, column 4: this can't be read: an alias; write out what it stands for."),
        ("? [1, 2]\n: 3\n", "line 1, column 3: this can't be read: a key must be a text."),
        ("!!python/object/apply:os.system [ls]", "line 1, column 1: this can't be read: could not determine a con"),
        ("[" * 3000, "This can't be read: it is nested too deeply"),
        ("a: \x00", "This can't be read: unacceptable character"),
        ("a" * 200_001, "The file has 200001 characters"),
        ("rules: [" + "a," * 40_000 + "a]", "line 1, column 60003: this can't be read: more than 30000 values"),
        ("--- 1\n--- 2\n", "line 2, column 1: this can't be read: but found another document."),
    ],
)
def test_what_is_no_policy_is_refused(text: str, error: str) -> None:
    assert errors_of(text)[0].startswith(error), errors_of(text)


def test_a_rule_that_is_never_reached_is_pointed_out_with_its_line() -> None:
    second = "  - {name: more, classes: [node_fault], match: {partitions: [trainer]}, mode: auto}\ndefault:"
    text = GOOD.replace("default:", second).replace("      hours: {from: 18:00, to: 08:00, days: [mon, tue]}\n", "")
    assert policy_files.read(text).warnings == (
        "line 9: rules[1]: more is never reached: on decides before it; move it up or remove it.",
    )


def test_a_comparison_shows_what_changes() -> None:
    new: dict[str, Any] = {**DEFAULT_RULES, "default": {"mode": "approve"}}
    assert policy_files.diff(DEFAULT_RULES, DEFAULT_RULES, names=("a", "b")) == []
    lines = policy_files.diff(DEFAULT_RULES, new, names=("version 1", "policy.yaml"))
    assert lines[:2] == ["--- version 1", "+++ policy.yaml"]
    assert tuple(line for line in lines[2:] if line[0] in "+-") == ("-  mode: observe", "+  mode: approve")


_SCALARS = st.none() | st.booleans() | st.integers(-10, 10**9) | st.text(max_size=12) | st.sampled_from(
    ["on", "yes", "null", "1e3", "08:00", "2026-01-01", "0x10", "~", "", "- a", "a: b", "*x", "&x", "!t", "1_000", ".5"]
)  # fmt: skip


@settings(deadline=None)
@given(
    st.recursive(
        _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    )
)
def test_whatever_is_written_comes_back_as_it_was(value: Any) -> None:
    document, _ = policy_files._parsed(policy_files.write({"value": value}))
    assert document == {"value": value}


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@, \n0", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert errors_of(text)


def test_every_field_has_its_place() -> None:
    tables = (check._TOP, check._RULE, check._BREAKER, check._FREEZE, check._ROUTE, check._DEFAULT_RULE)
    assert {field for table in tables for field in table} <= set(policy_files.FIELDS)
