"""Every scenario of the repository comes out as it expects."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from recovery.simulation.database import throw_away_database
from recovery.simulation.judging import differences
from recovery.simulation.reading import read_file
from recovery.simulation.running import START, play
from tests import ledger_balance

FOLDER = Path(__file__).parents[2] / "scenarios"
FILES = sorted(FOLDER.glob("*.toml"))


@pytest.mark.django_db
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_comes_out_as_it_expects_and_its_ledgers_balance(path: Path, tmp_path: Path) -> None:
    scenario = read_file(path)
    assert differences(scenario.expect, play(scenario, tmp_path)) == []
    ledger_balance.assert_all_balanced(f"scenario {path.stem}", now=START + timedelta(seconds=scenario.for_s))


@pytest.mark.django_db
def test_the_same_file_gives_the_same_course(tmp_path: Path) -> None:
    scenario = read_file(FOLDER / "power-cut.toml")
    stories = []
    for folder in ("one", "other"):
        with throw_away_database():
            stories.append(play(scenario, tmp_path / folder))
    assert stories[0] == stories[1]
    assert len(stories[0].moments) > 8
