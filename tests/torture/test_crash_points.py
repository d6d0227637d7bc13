"""A quick set of what `make torture` tries: see CONTRIBUTING.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from recovery.core.types import ActionKind
from recovery.demo.lab import SlurmLab
from tests.torture import crash
from tests.torture.desks import SIM_RHYTHM
from tests.torture.judge import Verdict
from tests.torture.processes import in_child
from tests.torture.real import points_of
from tests.torture.scenarios import SCENARIOS


def tried(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.torture", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    (report,) = json.loads(done.stdout)
    assert isinstance(report, dict)
    return report


def test_every_action_has_its_scenario() -> None:
    assert {scenario.kind for scenario in SCENARIOS.values()} == set(ActionKind)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker) -> Path:
    folder = tmp_path_factory.mktemp("templates")
    with django_db_blocker.unblock():
        crash.make_templates(folder, SIM_RHYTHM)
    return folder


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_left_alone_an_action_leads_where_it_should(
    scenario: str, templates: Path, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    trial = tmp_path / "trial"
    with django_db_blocker.unblock():
        in_child(lambda: crash.prepare(trial, scenario, templates=templates))
        in_child(lambda: crash.finish(trial, scenario))
    assert crash.stored_verdict(trial) == Verdict()


@pytest.mark.timeout(600)  # a dozen trials, each two processes that work through a whole recovery
@pytest.mark.parametrize("scenario", ["requeue_excluding", "resubmit", "restore_older"])
def test_killed_around_any_call_or_its_commit_an_action_is_done_once_and_whole(scenario: str) -> None:
    """Those of the most calls."""
    report = tried("--every", "100000", scenario)
    assert report["failed"] == {}
    assert report["tried"] >= len(points_of(scenario))
    assert {name for name in report["kinds"] if " the " in name} == {*points_of(scenario)}


@pytest.mark.slurm
@pytest.mark.accounting
@pytest.mark.timeout(300)
def test_on_a_real_slurm_as_well(slurm_lab: SlurmLab) -> None:
    report = tried("--lab", str(slurm_lab.root), "--most", "3", "--processes", "3", "requeue_excluding")
    assert report["failed"] == {}
    assert report["tried"] == 3
