"""The page on scenarios: its example comes out as it says, and it names every field that there is."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from recovery.simulation.judging import differences
from recovery.simulation.reading import NEEDS, read_scenario
from recovery.simulation.running import play
from recovery.simulation.scenario import (
    Deed,
    DeskSettings,
    ExpectedIncident,
    ExpectedJob,
    PlannedEvent,
    ScriptedDecision,
)
from recovery.slurm.simulator import (
    ClusterSpec,
    Fault,
    FaultKind,
    JobSpec,
    PartitionSpec,
    ReservationSpec,
    Trainer,
    TroubleKind,
)
from tests.docs import pages

PAGE = pages.read("docs/scenarios.md")
SET_ELSEWHERE = {"partitions", "reservations", "workload", "pause_after_s", "keep_records_s", "faults", "failure_class"}


@pytest.mark.django_db
def test_the_example_comes_out_as_it_says(tmp_path: Path) -> None:
    (example,) = [block.text for block in pages.blocks(PAGE) if block.language == "toml"]
    scenario = read_scenario(tomllib.loads(example))
    assert differences(scenario.expect, play(scenario, tmp_path)) == []


@pytest.mark.parametrize(
    ("heading", "kinds"),
    [
        ("### `[cluster]`", [ClusterSpec, PartitionSpec, ReservationSpec]),
        ("### `[desk]`", [DeskSettings]),
        ("### `[[job]]`", [JobSpec]),
        ("### `[[job.fault]]`", [Fault]),
        ("### `[[event]]`", [PlannedEvent]),
        ("### `[[decision]]`", [ScriptedDecision]),
        ("### `[expect]`", [ExpectedIncident, ExpectedJob]),
    ],
)
def test_every_field_is_on_the_page(heading: str, kinds: list[type[Any]]) -> None:
    section = PAGE.split(heading)[1].split("\n### ")[0]
    shown = set(re.findall(r"`(\w+)`", section))
    wanted = {field.name for kind in kinds for field in fields(kind)} - SET_ELSEWHERE
    if ClusterSpec in kinds:
        wanted -= {"seed"}
    assert wanted <= shown, wanted - shown


def test_every_word_is_on_the_page() -> None:
    shown = set(re.findall(r"`(\w+)`", PAGE))
    assert {str(word) for kind in (Deed, FaultKind, Trainer, TroubleKind) for word in kind} <= shown


def test_what_an_event_needs_is_what_is_asked_for() -> None:
    (table,) = [rows for rows in pages.tables(PAGE) if "needs" in rows[0]]
    shown = {row["`do`"].strip("`"): tuple(re.findall(r"`(\w+)`", row["needs"])) for row in table}
    assert shown == {str(deed): needs for deed, needs in NEEDS.items()}


def test_the_number_of_scenarios_is_right() -> None:
    assert f"holds {len(list((pages.TOP / 'scenarios').glob('*.toml')))} to begin with" in PAGE
