"""Kill the product at every point of an action, start it again, and compare with the simulated Slurm's own record.

One world is prepared up to the moment before. An undisturbed run names the points, and leaves a copy of the world as it
was at the beginning of each look. A trial makes the world again what it was then, lets a process work on until it is
killed at its point, lets a second process finish, and judges what both left behind.

Of points between which nothing is committed and nobody is called, the last is tried: a kill at any of them leaves the
same behind (test_points.py). Those around calls are tried all the same.
"""

from __future__ import annotations

import json
import shutil
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

from django.core.management import call_command

from recovery.models import Action, Incident
from recovery.models.access import Role
from recovery.slurm.base import SlurmClient
from tests.factories import make_user
from tests.pipeline.sim_desk import START, make_policy
from tests.torture.desks import SIM_RHYTHM, VirtualDesk
from tests.torture.judge import Verdict, judge
from tests.torture.points import MortalClient, Points, accepted
from tests.torture.processes import in_child, make_again, side_by_side, use
from tests.torture.scenarios import BY_POLICY, SCENARIOS, Desk, Scenario

ENOUGH = timedelta(minutes=12)  # of virtual time: a killed worker's lease of 90 s runs out several times over
AFTERWARDS_S = 20.0  # that nothing more is done is looked at for so long
OUR_MARK = "set_admin_comment"  # our key on the job: begun once, and done without where its answer is not known


@dataclass(slots=True)
class Report:
    scenario: str
    points: int = 0
    stages: int = 0  # that differ in what a kill leaves behind
    tried: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    failed: dict[str, Any] = field(default_factory=dict)  # point → verdict

    def counts(self) -> dict[str, int]:
        found = {"points": self.points, "stages": self.stages, "tried": self.tried}
        for wrong in ("doubles", "losses", "gaps"):
            found[wrong] = sum(bool(verdict[wrong]) for verdict in self.failed.values())
        return found

    def in_words(self) -> str:
        return f"{self.scenario}: {', '.join(f'{count} {what}' for what, count in self.counts().items())}"

    def as_json(self) -> dict[str, Any]:
        kinds = dict(sorted(self.kinds.items()))
        return {"scenario": self.scenario, **self.counts(), "kinds": kinds, "failed": self.failed}


@dataclass(frozen=True, slots=True)
class Whole:
    """An undisturbed run: its points, the stage of each, and the first point of each of its looks."""

    labels: Sequence[str]
    stages: Sequence[int]
    begins: Sequence[int]

    def look_of(self, point: int) -> int:
        return bisect_right(self.begins, point) - 1

    def last_of_each_stage(self) -> list[int]:
        """A new look is a new stage: it begins from a world that has moved on."""
        return sorted({(self.look_of(n), stage): n for n, stage in enumerate(self.stages)}.values())

    def around_calls(self) -> set[int]:
        return {n for n, label in enumerate(self.labels) if " the " in label}


def run(scenario: str, folder: Path, *, every: int, processes: int) -> Report:
    """Try every `every`-th stage, and each one around a call; shared between so many processes.

    The templates lie beside `folder`.
    """
    slots = [folder / str(number) for number in range(processes)]
    side_by_side([
        partial(_share, scenario, slot, every=every, number=number, of=processes) for number, slot in enumerate(slots)
    ])  # fmt: skip
    report = Report(scenario=scenario)
    for slot in slots:
        part = json.loads((slot / "report.json").read_text(encoding="utf-8"))
        report.points, report.stages = part["points"], part["stages"]
        report.tried += sum(part["kinds"].values())
        report.kinds.update(part["kinds"])
        report.failed |= part["failed"]
        shutil.rmtree(slot)
    return report


def _share(scenario: str, folder: Path, *, every: int, number: int, of: int) -> None:
    """One process's share of the trials, in a world of its own."""
    in_child(lambda: prepare(folder / "trial", scenario, templates=folder.parent.parent))
    whole = _whole(scenario, folder)
    stages = whole.last_of_each_stage()
    wanted = sorted(whole.around_calls() | set(stages[::every]))
    kinds: Counter[str] = Counter()
    failed: dict[str, Any] = {}
    for point in wanted[number::of]:
        verdict = _trial(scenario, folder, whole, die_at=point)
        kinds[whole.labels[point]] += 1
        if verdict != Verdict():
            failed[f"{point}: {whole.labels[point]}"] = asdict(verdict)
    report = {"points": len(whole.labels), "stages": len(stages), "kinds": kinds, "failed": failed}
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")


def _whole(scenario: str, folder: Path) -> Whole:
    """The points of one undisturbed run, whose outcome must be right too."""
    trial = folder / "trial"
    in_child(lambda: finish(trial, scenario, keep=folder / "looks"))
    verdict = stored_verdict(trial)
    if verdict != Verdict():
        raise AssertionError(f"{scenario} is wrong without any kill: {verdict}")
    return Whole(**json.loads((trial / "points.json").read_text(encoding="utf-8")))


def _trial(scenario: str, folder: Path, whole: Whole, *, die_at: int) -> Verdict:
    look = whole.look_of(die_at)
    trial = folder / "trial"
    make_again(trial, folder / "looks" / str(look))
    in_child(lambda: _work(trial, SCENARIOS[scenario], die_at=die_at - whole.begins[look]), killed=True)
    in_child(lambda: finish(trial, scenario))
    return stored_verdict(trial)


def stored_verdict(folder: Path) -> Verdict:
    return Verdict(**json.loads((folder / "verdict.json").read_text(encoding="utf-8")))


# --- in a process of its own -----------------------------------------------------------------------------------------


def make_templates(folder: Path, rhythm: dict[str, float]) -> None:
    """What every world begins with, made once for each kind of policy."""
    for automatic in (True, False):
        in_child(partial(_set_up, folder / f"empty-{automatic}", automatic=automatic, rhythm=rhythm))


def template_of(scenario: str, folder: Path) -> Path:
    return folder / f"empty-{scenario in BY_POLICY}"


def _set_up(folder: Path, *, automatic: bool, rhythm: dict[str, float]) -> None:
    """An empty database in `folder`, two people, and a policy."""
    folder.mkdir(parents=True)
    use(folder, rhythm)
    call_command("migrate", verbosity=0)
    make_policy({"name": "all", "classes": "*", "mode": "auto" if automatic else "approve"})
    for role in (Role.OPERATOR, Role.APPROVER):
        make_user(role=role)


def prepare(folder: Path, scenario: str, *, templates: Path) -> None:
    shutil.copytree(template_of(scenario, templates), folder)
    use(folder, SIM_RHYTHM)
    desk = VirtualDesk(folder / "world")
    SCENARIOS[scenario].prepare(desk)
    (folder / "began").write_text(desk.now.isoformat(), encoding="utf-8")
    _store_time(folder, desk.now)


def _work(
    folder: Path, scenario: Scenario, *, die_at: int | None = None, keep: Path | None = None
) -> tuple[VirtualDesk, Points, list[int]]:
    """Go on until the case rests, or until this process dies. `keep`: a copy of the world before each look."""
    use(folder, SIM_RHYTHM)
    points = Points(folder / "journal", die_at=die_at)
    desk = VirtualDesk(folder / "world", now=_time(folder, "now"))
    desk.client = cast("SlurmClient", MortalClient(desk.client, points))
    begins: list[int] = []
    end = _time(folder, "began") + ENOUGH
    with points.watched():
        while not scenario.is_over() and desk.now < end:
            if keep is not None:
                shutil.copytree(folder, keep / str(len(begins)))
            begins.append(len(points.labels))
            scenario.press(desk)
            desk.run(2)
            _store_time(folder, desk.now)
    return desk, points, begins


def finish(folder: Path, scenario: str, *, keep: Path | None = None) -> None:
    desk, points, begins = _work(folder, SCENARIOS[scenario], keep=keep)
    desk.run(AFTERWARDS_S)
    whole = Whole(points.labels, points.stages, begins)
    (folder / "points.json").write_text(json.dumps(asdict(whole)), encoding="utf-8")
    verdict = verdict_on(SCENARIOS[scenario], desk, accepted(folder / "journal"), since=START)
    (folder / "verdict.json").write_text(json.dumps(asdict(verdict)), encoding="utf-8")


def _store_time(folder: Path, now: datetime) -> None:
    (folder / "now").write_text(now.isoformat(), encoding="utf-8")


def _time(folder: Path, name: str) -> datetime:
    return datetime.fromisoformat((folder / name).read_text(encoding="utf-8"))


# --- the judgement ---------------------------------------------------------------------------------------------------


def verdict_on(scenario: Scenario, desk: Desk, calls: Sequence[str], *, since: datetime) -> Verdict:
    """By Slurm's own record: its jobs, their restarts, its accounting of executions, its nodes."""
    jobs, incident = sorted(desk.client.jobs(), key=lambda job: int(job.job_id)), Incident.objects.earliest("pk")
    if not jobs:
        return judge({"jobs that Slurm still lists": (0, scenario.jobs)}, {}, now=desk.now)
    first = jobs[0]
    attempts = desk.client.attempts([first.job_id], since=since)[first.job_id]
    effects = {
        "jobs": (len(jobs), scenario.jobs),
        "restarts": (first.restart_count, scenario.restarts),
        "executions": (len(attempts), scenario.executions),
        "cases": (Incident.objects.count(), 1),
        "actions": (Action.objects.count(), scenario.earlier + bool(scenario.calls)),
        **{f"the call {name}": (max(calls.count(name), name == OUR_MARK), 1) for name in scenario.calls},
    }
    stranger = sorted(set(calls) - set(scenario.calls))
    wrong = {
        f"the job is {first.state}": first.state is not scenario.state,
        f"the last job is {jobs[-1].state}": scenario.jobs > 1 and jobs[-1].state.is_terminal,
        f"the case is {incident.state} {incident.outcome}: {incident.alarm}": (
            incident.state not in scenario.over or (incident.outcome or None) != scenario.outcome
        ),
        f"nobody asked for {stranger}": bool(stranger),
        **scenario.wrong(desk, first),
    }
    return judge(effects, wrong, now=desk.now)
