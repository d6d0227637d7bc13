"""The settings on the page are the settings of the code."""

from __future__ import annotations

import re

import pytest

from tests.docs import pages
from tests.workshop.settings_names import variables

SETTINGS = next(table for table in pages.tables(pages.read("docs/operations.md")) if "variable" in table[0])
ROWS = {row["variable"].strip("`"): row for row in SETTINGS}


def test_every_setting_is_on_the_page_and_none_that_does_not_exist() -> None:
    assert set(ROWS) == set(variables())


@pytest.mark.parametrize("name", [name for name, variable in variables().items() if variable.kind == "env_float"])
def test_the_default_on_the_page_is_the_one_in_the_code(name: str) -> None:
    assert float(ROWS[name]["default"].strip("`")) == float(variables()[name].default)


def test_every_command_of_ours_is_on_some_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in pages.all_pages())
    folder = pages.TOP / "recovery" / "management" / "commands"
    commands = {path.stem for path in folder.glob("*.py") if path.stem != "__init__"}
    assert commands <= set(re.findall(r"manage\.py ([a-z_]+)", text)) | {"demo"}
