"""Kill the product at every point of an action, start it again, and compare with the simulated Slurm's own record.

One world is prepared up to the moment before. An undisturbed run names the points, and leaves a copy of the world as it
was at the beginning of each look. A trial makes the world again what it was then, lets a process work on until it is
killed at its point, lets a second process finish, and judges what both left behind.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
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
    tried: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    failed: dict[str, Any] = field(default_factory=dict)  # point → verdict

    def counts(self) -> dict[str, int]:
        found = {"points": self.points, "tried": self.tried}
        for wrong in ("doubles", "losses", "gaps"):
            found[wrong] = sum(bool(verdict[wrong]) for verdict in self.failed.values())
        return found

    def in_words(self) -> str:
        return f"{self.scenario}: {', '.join(f'{count} {what}' for what, count in self.counts().items())}"

    def as_json(self) -> dict[str, Any]:
        kinds = dict(sorted(self.kinds.items()))
        return {"scenario": self.scenario, **self.counts(), "kinds": kinds, "failed": self.failed}


def run(scenario: str, folder: Path, *, every: int, processes: int) -> Report:
    """Try every `every`-th point, and each one around a call; shared between so many processes."""
    slots = [folder / str(number) for number in range(processes)]
    side_by_side([
        partial(_share, scenario, slot, every=every, number=number, of=processes) for number, slot in enumerate(slots)
    ])  # fmt: skip
    report = Report(scenario=scenario)
    for slot in slots:
        part = json.loads((slot / "report.json").read_text(encoding="utf-8"))
        report.points = part["points"]
        report.tried += sum(part["kinds"].values())
        report.kinds.update(part["kinds"])
        report.failed |= part["failed"]
        shutil.rmtree(slot)
    return report


def _share(scenario: str, folder: Path, *, every: int, number: int, of: int) -> None:
    """One process's share of the trials, in a world of its own."""
    in_child(lambda: _prepare(folder / "trial", scenario))
    labels, begins = _whole(scenario, folder)
    wanted = [n for n, label in enumerate(labels) if n % every == 0 or " the " in label]
    kinds: Counter[str] = Counter()
    failed: dict[str, Any] = {}
    for point in wanted[number::of]:
        verdict = _trial(scenario, folder, begins, die_at=point)
        kinds[labels[point]] += 1
        if verdict != Verdict():
            failed[f"{point}: {labels[point]}"] = asdict(verdict)
    report = {"points": len(labels), "kinds": kinds, "failed": failed}
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")


def _whole(scenario: str, folder: Path) -> tuple[list[str], list[int]]:
    """The points of one undisturbed run, whose outcome must be right too, and the first point of each of its looks."""
    trial = folder / "trial"
    in_child(lambda: _finish(trial, scenario, keep=folder / "looks"))
    verdict = _stored_verdict(trial)
    if verdict != Verdict():
        raise AssertionError(f"{scenario} is wrong without any kill: {verdict}")
    labels, begins = json.loads((trial / "labels.json").read_text(encoding="utf-8"))
    return labels, begins


def _trial(scenario: str, folder: Path, begins: Sequence[int], *, die_at: int) -> Verdict:
    look = len(list(takewhile(lambda first: first <= die_at, begins))) - 1
    trial = folder / "trial"
    make_again(trial, folder / "looks" / str(look))
    in_child(lambda: _work(trial, SCENARIOS[scenario], die_at=die_at - begins[look]), killed=True)
    in_child(lambda: _finish(trial, scenario))
    return _stored_verdict(trial)


def _stored_verdict(folder: Path) -> Verdict:
    return Verdict(**json.loads((folder / "verdict.json").read_text(encoding="utf-8")))


# --- in a process of its own -----------------------------------------------------------------------------------------


def set_up(folder: Path, *, automatic: bool, rhythm: dict[str, float]) -> None:
    """An empty database in `folder`, two people, and a policy."""
    folder.mkdir(parents=True)
    use(folder, rhythm)
    call_command("migrate", verbosity=0)
    make_policy({"name": "all", "classes": "*", "mode": "auto" if automatic else "approve"})
    for role in (Role.OPERATOR, Role.APPROVER):
        make_user(role=role)


def _prepare(folder: Path, scenario: str) -> None:
    set_up(folder, automatic=scenario in BY_POLICY, rhythm=SIM_RHYTHM)
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


def _finish(folder: Path, scenario: str, *, keep: Path | None = None) -> None:
    desk, points, begins = _work(folder, SCENARIOS[scenario], keep=keep)
    desk.run(AFTERWARDS_S)
    (folder / "labels.json").write_text(json.dumps([points.labels, begins]), encoding="utf-8")
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
