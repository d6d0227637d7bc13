"""docs/policies.md says every field, and its examples are policies that can be saved."""

from __future__ import annotations

import pytest

from recovery import policy_files
from recovery.core.policy import Approval, check
from recovery.core.policy.match import NAMES, RANGES
from tests.docs import pages

PAGE = pages.read("docs/policies.md")
EXAMPLES = [block.text for block in pages.blocks(PAGE) if block.language == "yaml"]


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_can_be_saved_and_every_rule_is_reached(text: str) -> None:
    assert policy_files.read(text).warnings == ()


def test_the_examples_show_every_field() -> None:
    shown = policy_files.read(EXAMPLES[-1]).rules
    assert set(shown) == set(check._TOP) - {"log_pattern"}
    assert {key for rule in shown["rules"] for key in rule} == set(check._RULE)


def test_every_field_is_in_its_table() -> None:
    rule, match, approval, document = (
        {name for row in table for name in next(iter(row.values())).replace("`", "").split(", ")}
        for table in pages.tables(PAGE)
    )
    assert rule == set(check._RULE)
    assert match == {*NAMES, *RANGES, "labels", "confidence", "hours"}
    assert approval == set(Approval.__dataclass_fields__)
    assert document == set(check._TOP)
