"""The page about trainers: its examples are read as it says, and it names every format."""

from __future__ import annotations

import re

import pytest

from recovery.core.logs import LogParser
from recovery.core.logs.formats import FORMATS
from recovery.core.logs.own_pattern import own_pattern
from recovery.core.types import SignalKind
from tests.core.logs.lines import numbered
from tests.docs import pages

PAGE = pages.read("docs/trainers.md")
EXAMPLES = dict(re.findall(r"^\*\*(\w+)\*\*\n\n```log\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))


def test_every_format_has_an_example() -> None:
    assert set(EXAMPLES) == {each.name for each in FORMATS} | {"generic"}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_read_as_progress_of_its_format(name: str) -> None:
    parser = LogParser()
    signals = [signal for line in numbered(EXAMPLES[name].splitlines()) for signal in parser.feed(line)]
    assert {signal.kind for signal in signals} == {SignalKind.PROGRESS}
    assert parser.format == name


def test_the_line_that_a_script_should_print_is_read() -> None:
    block = next(block for block in pages.blocks(PAGE) if block.language == "log")
    parser = LogParser()
    signals = [signal for line in numbered(block.text.splitlines()) for signal in parser.feed(line)]
    assert [(s.step, s.loss, s.step_time_s) for s in signals] == [(120, 2.31, 4.1), (130, 2.3, 4.12)]


def test_the_table_has_a_row_for_every_format_and_the_fallback() -> None:
    (table,) = pages.tables(PAGE)
    assert len(table) == len(FORMATS) + 1


def test_the_example_of_an_own_pattern_passes_the_check_and_reads() -> None:
    block = next(block for block in pages.blocks(PAGE) if block.language == "pattern")
    mark = own_pattern(block.text.strip()).read("12:00 [upd] 7/90 | loss=2.5 | took 250 ms")
    assert mark is not None
    assert (mark.step, mark.loss, mark.step_time_s) == (7, 2.5, 0.25)
