"""What is concluded, and when, is the same whether quiet attempts get a glance or everything is judged at each look."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from recovery.models import BlindSpell, Checkpoint, Sample, Signal
from recovery.pipeline import watch
from recovery.simulation.reading import read_file
from recovery.simulation.running import play
from recovery.simulation.scenario import Scenario
from recovery.slurm.simulator import Fault, FaultKind

SCENARIOS = Path(__file__).parents[2] / "scenarios"
QUICK = ("blind", "slow")
REST = sorted({path.stem for path in SCENARIOS.glob("*.toml")} - set(QUICK))
CHECKPOINT = ("step", "state", "detail", "first_seen_at", "completed_at")

pytestmark = pytest.mark.django_db


def scenario_of(name: str) -> Scenario:
    if name != "slow":
        return read_file(SCENARIOS / f"{name}.toml")
    scenario = read_file(SCENARIOS / "hang.toml")
    job = scenario.jobs[0]
    spec = replace(job.spec, faults=(Fault(kind=FaultKind.SLOW, step=77, factor=2.5),))
    return replace(scenario, jobs=(replace(job, spec=spec),))


def course(scenario: Scenario, folder: Path) -> list[Any]:
    """Everything that happened and when, and everything that was read."""
    with transaction.atomic():
        story = play(scenario, folder)
        told = [
            story.moments,
            story.incidents,
            story.jobs,
            list(Checkpoint.objects.order_by("run__key", "step", "first_seen_at").values_list(*CHECKPOINT)),
            list(BlindSpell.objects.order_by("started_at", "pk").values_list("started_at", "ended_at", "reason")),
            list(Signal.objects.order_by("attempt", "at", "offset", "rule").values_list("kind", "at", "step", "line")),
            list(Sample.objects.order_by("attempt", "rank", "step", "at").values_list("step", "at", "loss")),
        ]
        transaction.set_rollback(True)
    return told


def look_fully(patch: pytest.MonkeyPatch) -> None:
    """Nothing is quiet: every log is read, every folder looked into, every attempt judged, at each look."""
    patch.setattr(watch, "quiet_attempts", lambda keys, site, *, now: [])
    patch.setattr(watch, "holds", lambda attempt, site, *, now: False)
    patch.setattr(watch, "_folder_is_quiet", lambda attempt, *, now: False)


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.torture) for name in REST)])
def test_a_scenario_takes_the_same_course(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = scenario_of(name)
    usual = course(scenario, tmp_path / "folder")
    (tmp_path / "folder").rename(tmp_path / "before")
    look_fully(monkeypatch)
    for one, other in zip(usual, course(scenario, tmp_path / "folder"), strict=True):
        assert one == other
