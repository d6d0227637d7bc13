"""The page about checkpoints names every layout, and every state."""

from __future__ import annotations

from recovery.core.types import CheckpointState
from recovery.sources.checkpoints.layouts import LAYOUTS
from tests.docs import pages

STATES, ROWS = pages.tables(pages.read("docs/checkpoints.md"))


def test_the_table_has_a_row_for_every_layout() -> None:
    assert sorted(row["layout"] for row in ROWS) == sorted(layout.name for layout in LAYOUTS)


def test_every_state_is_explained() -> None:
    assert {row["state"] for row in STATES} == set(CheckpointState)
