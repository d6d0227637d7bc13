"""Kill the product at every point of a recovery, start it again, and compare with the simulated Slurm's own record.

One world is prepared up to the moment before the fault. Each trial puts a copy in its place (the world knows its
folder by name), lets a process work on the copy until it
is killed at its point, lets a second process finish, and judges what both left behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import cast

from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import JobState
from recovery.models import Action, Attempt, Event, Incident
from recovery.slurm.base import SlurmClient
from recovery.slurm.simulator import Fault, FaultKind
from tests.pipeline.sim_desk import RHYTHM, START, SimDesk, make_policy
from tests.torture.points import MortalClient, Points

ENOUGH = timedelta(minutes=12)  # of virtual time: a killed worker's lease of 90 s runs out several times over
SCENARIOS: dict[str, Fault] = {
    "requeue_excluding": Fault(kind=FaultKind.ECC, step=33, rank=9),
    "requeue": Fault(kind=FaultKind.HANG, step=33),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong after a trial; nothing, where the product kept its word."""

    doubles: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)  # in the record of what was done
    story: list[str] = field(default_factory=list)  # where something is wrong: what was recorded


@dataclass(slots=True)
class Report:
    scenario: str
    points: int = 0
    tried: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    failed: dict[str, Verdict] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return {
            "scenario": self.scenario,
            "points": self.points,
            "tried": self.tried,
            "doubles": sum(bool(verdict.doubles) for verdict in self.failed.values()),
            "losses": sum(bool(verdict.losses) for verdict in self.failed.values()),
            "gaps": sum(bool(verdict.gaps) for verdict in self.failed.values()),
            "kinds": dict(sorted(self.kinds.items())),
            "failed": {point: asdict(verdict) for point, verdict in self.failed.items()},
        }


def run(scenario: str, folder: Path, *, every: int) -> Report:
    """Try every `every`-th point, and each one around a call of the scheduler."""
    report = Report(scenario=scenario)
    before, trial = folder / "before", folder / "trial"
    _in_child(lambda: _prepare(trial, SCENARIOS[scenario]))
    trial.rename(before)
    labels = _whole(before, trial)
    report.points = len(labels)
    for number, label in enumerate(labels):
        if number % every and " the call " not in label:
            continue
        verdict = _trial(before, trial, die_at=number)
        report.tried += 1
        report.kinds[label] += 1
        if verdict != Verdict():
            report.failed[f"{number}: {label}"] = verdict
    return report


def _whole(before: Path, folder: Path) -> list[str]:
    """The points of one undisturbed run, whose outcome must be right too."""
    shutil.copytree(before, folder)
    _in_child(lambda: _finish(folder))
    verdict = _stored_verdict(folder)
    if verdict != Verdict():
        raise AssertionError(f"wrong without any kill: {verdict}")
    labels = cast("list[str]", json.loads((folder / "labels.json").read_text(encoding="utf-8")))
    shutil.rmtree(folder)
    return labels


def _trial(before: Path, folder: Path, *, die_at: int) -> Verdict:
    shutil.copytree(before, folder)
    _in_child(lambda: _work(folder, die_at=die_at), killed=True)
    _in_child(lambda: _finish(folder))
    verdict = _stored_verdict(folder)
    shutil.rmtree(folder)
    return verdict


def _stored_verdict(folder: Path) -> Verdict:
    return Verdict(**json.loads((folder / "verdict.json").read_text(encoding="utf-8")))


# --- in a process of its own -----------------------------------------------------------------------------------------


def _in_child(work: Callable[[], object], *, killed: bool = False) -> None:
    """Run it in a forked process, and see that it ended as it should."""
    connections.close_all()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, this process ends here and says so
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if killed and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
        raise AssertionError(f"it should have been killed, and ended with {status}")
    if not killed and status:
        raise AssertionError(f"a process of the trial ended with {status}")


def _use(folder: Path) -> None:
    database = str(folder / "recovery.sqlite3")
    settings.DATABASES["default"]["NAME"] = connection.settings_dict["NAME"] = database
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(folder.parent)]
    for name, value in RHYTHM.items():
        setattr(settings, name, value)


def _prepare(folder: Path, fault: Fault) -> None:
    folder.mkdir(parents=True)
    _use(folder)
    call_command("migrate", verbosity=0)
    make_policy({"name": "all", "classes": "*", "mode": "auto"})
    desk = SimDesk(folder / "world")
    desk.submit(fault)
    desk.run_until(lambda: Attempt.objects.filter(last_step__gte=26).exists())
    _store_time(folder, desk.now)


def _work(folder: Path, *, die_at: int | None) -> tuple[SimDesk, Points]:
    """Go on until the case is closed, or until this process dies."""
    _use(folder)
    points = Points(die_at=die_at)
    desk = SimDesk(folder / "world", now=datetime.fromisoformat((folder / "now").read_text(encoding="utf-8")))
    desk.client = cast("SlurmClient", MortalClient(desk.client, points))
    end = START + ENOUGH
    with points.watched():
        while not _is_closed() and desk.now < end:
            desk.run(2)
            _store_time(folder, desk.now)
    return desk, points


def _finish(folder: Path) -> None:
    desk, points = _work(folder, die_at=None)
    (folder / "labels.json").write_text(json.dumps(points.labels), encoding="utf-8")
    (folder / "verdict.json").write_text(json.dumps(asdict(_judge(desk))), encoding="utf-8")


def _store_time(folder: Path, now: datetime) -> None:
    (folder / "now").write_text(now.isoformat(), encoding="utf-8")


def _is_closed() -> bool:
    cases = Incident.objects.values_list("state", flat=True)
    return bool(cases) and set(cases) == {IncidentState.CLOSED}


# --- the judgement ---------------------------------------------------------------------------------------------------


def _judge(desk: SimDesk) -> Verdict:
    doubles, losses, gaps = _doubles(desk), _losses(desk), _gaps()
    wrong = doubles or losses or gaps
    return Verdict(doubles=doubles, losses=losses, gaps=gaps, story=_story() if wrong else [])


def _story() -> list[str]:
    events = Event.objects.exclude(verb__contains=".call_").order_by("pk")
    return [f"{e.at:%H:%M:%S} {e.subject_kind} {e.subject_id} {e.verb}: {e.reason}" for e in events]


def _doubles(desk: SimDesk) -> list[str]:
    """By Slurm's own record: one restart, two executions; and one case, one action."""
    (job,) = desk.client.jobs()
    attempts = desk.client.attempts([job.job_id], since=START)[job.job_id]
    counted = {
        "restarts": (job.restart_count, 1),
        "executions": (len(attempts), 2),
        "cases": (Incident.objects.count(), 1),
        "actions": (Action.objects.count(), 1),
    }
    return [f"{what}: {found}" for what, (found, right) in counted.items() if found > right]


def _losses(desk: SimDesk) -> list[str]:
    (job,) = desk.client.jobs()
    incident = Incident.objects.earliest("pk")
    action = Action.objects.filter(incident=incident).first()
    wrong = {
        f"the job is {job.state}": job.state is not JobState.RUNNING,
        "the job was never put back": job.restart_count < 1,
        f"the case is {incident.state} {incident.outcome}: {incident.alarm}": incident.outcome != "recovered",
        "the case has no action": action is None,
        "the action did not converge": action is not None and action.state != ActionState.CONVERGED,
        "the exclusion is lost": action is not None and not set(action.exclude_nodes) <= set(job.excluded_nodes),
    }
    return [what for what, is_so in wrong.items() if is_so]


def _gaps() -> list[str]:
    """Each change of state is written down once, and the chain of them has no break."""
    gaps = []
    for kind, row in (("incident", Incident.objects.earliest("pk")), ("action", Action.objects.first())):
        events = Event.objects.filter(subject_kind=kind, subject_id=row.pk if row else 0).exclude(new="")
        moves = list(events.order_by("pk").values_list("old", "new"))
        for (_, new), (old, _) in pairwise(moves):
            if new != old:
                gaps.append(f"{kind}: from {new} to {old} without a word")
        if row is not None and (not moves or moves[-1][1] != row.state):
            gaps.append(f"{kind}: {row.state} is not what the last event says")
    return gaps
