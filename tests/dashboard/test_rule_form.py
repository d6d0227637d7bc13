from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict

from dashboard import rule_form
from recovery import policy_files
from recovery.core.policy import DEFAULT_RULES, problems
from tests.docs import pages

RULES: list[dict[str, Any]] = [
    rule
    for block in pages.blocks(pages.read("docs/policies.md"))
    if block.language == "yaml"
    for rule in policy_files.read(block.text).rules["rules"]
]


@pytest.mark.parametrize("rule", RULES, ids=[rule["name"] for rule in RULES])
def test_the_form_gives_a_rule_back_as_it_was(rule: dict[str, Any]) -> None:
    assert rule_form.read(rule_form.typed_of(rule)) == (rule, {})
    assert rule_form.can_say(rule)


def test_the_forms_fields_are_those_of_a_rule() -> None:
    fullest = max(RULES, key=len)
    assert {field.path[0] for field in rule_form.FIELDS} | {"name", "classes", "mode", "shadow", "actions"} >= set(
        fullest
    )


@pytest.mark.parametrize(
    "more",
    [
        {"match": {"accounts": ["a, b"]}},
        {"budget": {"window_s": 86400.123456789012}},
        {"match": {"labels": {"a,b": "c"}}},
        {"classes": "GPU"},
    ],
)
def test_what_the_form_would_change_is_left_to_the_text(more: dict[str, Any]) -> None:
    assert not rule_form.can_say({"name": "x", "classes": ["numerics"], "mode": "auto", **more})


@pytest.mark.parametrize(
    "more", [{"approval": {"four_eyes": False}}, {"match": {"users": []}}, {"shadow": False}, {"promote": {}}]
)
def test_what_says_nothing_hinders_nothing(more: dict[str, Any]) -> None:
    assert rule_form.can_say({"name": "x", "classes": ["numerics"], "mode": "auto", **more})


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ("max_restarts=many", "max_restarts", "give a number."),
        ("match_labels=team", "match_labels", "give NAME=PATTERN, several with commas between."),
        ("promote=on&promote_agreement=x", "promote_agreement", "give a number."),
    ],
)
def test_what_cannot_be_read_is_named(typed: str, field: str, said: str) -> None:
    assert rule_form.read(QueryDict(f"name=x&mode=auto&classes=numerics&{typed}"))[1] == {field: said}


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"name": ""}, "name"),
        ({"classes": []}, "classes"),
        ({"mode": ""}, "mode"),
        ({"actions": ["dance"]}, "actions"),
        ({"match": {"gpus": {"min": 9, "max": 1}}}, "match_gpus_min"),
        ({"match": {"gpus": {"max": -1}}}, "match_gpus_max"),
        ({"match": {"hours": {"from": "8"}}}, "match_hours_from"),
        ({"match": {"hours": {"days": ["someday"]}}}, "days"),
        ({"match": {"users": ["x" * 201]}}, "match_users"),
        ({"escalate": {"after_s": 900}}, "escalate_to"),
        ({"promote": {"agreement": 0.1}}, "promote_agreement"),
        ({"budget": {"per_class": 1000}}, "budget_per_class"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(rule: dict[str, Any], field: str) -> None:
    whole = {"name": "x", "classes": ["numerics"], "mode": "auto", **rule}
    (problem,) = problems({**DEFAULT_RULES, "rules": [whole]})
    assert rule_form.of_field(problem, 0)[0] == field
    assert field in {"name", "classes", "mode", "actions", "days", *(each.name for each in rule_form.FIELDS)}


def test_a_problem_of_another_rule_is_of_no_field() -> None:
    (problem,) = problems({**DEFAULT_RULES, "rules": [{"name": "x", "classes": "*", "mode": "yolo"}]})
    assert rule_form.of_field(problem, 1) == ("", str(problem))
