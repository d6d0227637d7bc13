"""The same on a real Slurm, in real time: killed around each call of each action and the commit of its answer.

Each trial has a training job of its own on the shared lab, and judges by what Slurm's controller and accounting say.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from recovery.core.types import ActionKind
from recovery.demo.lab import SlurmLab
from recovery.demo.processes import wait_until
from tests.torture.crash import Report, make_templates, template_of, verdict_on
from tests.torture.desks import LAB_RHYTHM, LabDesk
from tests.torture.judge import Verdict
from tests.torture.points import MortalClient, Points, accepted
from tests.torture.processes import in_child, side_by_side, use
from tests.torture.scenarios import SCENARIOS

ENOUGH_S = 120.0
AFTERWARDS_S = 4.0
POINTS = ("before the call {}", "after the call {}", "after the commit of the call {}")
# What is done to a node must not meet other trials' jobs on it: these come one after the other.
ALONE = frozenset({ActionKind.DRAIN, ActionKind.RESUME})


def run(names: Sequence[str], folder: Path, lab: SlurmLab, *, processes: int, most: int = 0) -> list[Report]:
    """Every point of these scenarios, or the first `most` of each."""
    trials = [(name, point) for name in names for point in points_of(name)[: most or None]]
    shared = [trial for trial in trials if SCENARIOS[trial[0]].kind not in ALONE]
    make_templates(folder, LAB_RHYTHM)
    side_by_side([partial(_share, folder, lab, shared[number::processes]) for number in range(processes)])
    in_child(lambda: _share(folder, lab, [trial for trial in trials if trial not in shared]))
    return [_report(name, folder, points=len(points_of(name))) for name in names]


def points_of(name: str) -> list[str]:
    return [point.format(call) for call in SCENARIOS[name].calls for point in POINTS]


def _share(folder: Path, lab: SlurmLab, trials: Sequence[tuple[str, str]]) -> None:
    for name, point in trials:
        _trial(folder / f"{name}-{point.replace(' ', '-')}", lab, name, point)


def _trial(folder: Path, lab: SlurmLab, name: str, point: str) -> None:
    shutil.copytree(template_of(name, folder.parent), folder)
    folder.chmod(0o755)
    verdict: dict[str, Any]
    try:
        in_child(lambda: _prepare(folder, lab, name))
        in_child(lambda: _work(folder, lab, name, die_on=point), killed=True)
        in_child(lambda: _finish(folder, lab, name))
        verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    except AssertionError as error:
        verdict = asdict(Verdict(losses=[str(error)]))
    (folder / "trial.json").write_text(json.dumps([name, point, verdict]), encoding="utf-8")
    _tidy(lab, folder.name)


def _prepare(folder: Path, lab: SlurmLab, name: str) -> None:
    use(folder, LAB_RHYTHM)
    SCENARIOS[name].prepare(LabDesk(folder, lab))


def _work(folder: Path, lab: SlurmLab, name: str, *, die_on: str = "") -> LabDesk:
    use(folder, LAB_RHYTHM)
    points, desk, scenario = Points(folder / "journal", die_on=die_on), LabDesk(folder, lab), SCENARIOS[name]
    desk.client = MortalClient(desk.client, points)
    end = time.monotonic() + ENOUGH_S
    with points.watched():
        while not scenario.is_over() and time.monotonic() < end:
            scenario.press(desk)
            desk.run(0.5)
    return desk


def _finish(folder: Path, lab: SlurmLab, name: str) -> None:
    desk, scenario = _work(folder, lab, name), SCENARIOS[name]
    desk.run(AFTERWARDS_S)

    def judged() -> Verdict:
        return verdict_on(scenario, desk, accepted(folder / "journal"), since=datetime.now(UTC) - timedelta(days=1))

    wait_until(lambda: judged() == Verdict(), timeout_s=15)  # accounting is a moment behind
    (folder / "verdict.json").write_text(json.dumps(asdict(judged())), encoding="utf-8")


def _tidy(lab: SlurmLab, job: str) -> None:
    lab.run("scancel", f"--name={job}")
    for node in lab.node_names:
        if "drain" in lab.run("sinfo", "-h", "-n", node, "-o", "%T"):
            lab.run("scontrol", "update", f"NodeName={node}", "State=RESUME")


def _report(name: str, folder: Path, *, points: int) -> Report:
    report = Report(scenario=f"{name} on a real Slurm", points=points, stages=points)
    for scenario, point, verdict in _judged(folder):
        if scenario == name:
            report.tried += 1
            report.kinds[point] += 1
            if verdict != asdict(Verdict()):
                report.failed[point] = verdict
    return report


def _judged(folder: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for file in sorted(folder.glob("*/trial.json")):
        name, point, verdict = json.loads(file.read_text(encoding="utf-8"))
        yield name, point, verdict
