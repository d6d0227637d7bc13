"""Plays a scenario: the real pipeline in virtual time, on a simulated cluster, with a scripted operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from recovery.access import actor_for
from recovery.core.lifecycle import IncidentState
from recovery.models import Cluster, Event, Incident, Membership, PolicyVersion
from recovery.models.access import Role
from recovery.pipeline import decide, reconcile
from recovery.simulation.events import carry_out
from recovery.simulation.scenario import Deed, PlannedEvent, PlannedJob, Saying, Scenario, ScriptedDecision
from recovery.simulation.telling import Moment, Refusal, Story, Watcher, of_the_desk, result_of
from recovery.slurm.base import SlurmError
from recovery.slurm.simulator import LiveStore, SimulatedCluster, SimulatorClient

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CLUSTER = "simulated"
OPERATOR = "scripted-operator"  # the account that decides what is asked


def play(scenario: Scenario, folder: Path, *, at_each_look: Callable[[float], None] = lambda _: None) -> Story:
    """What came of it. Jobs write their logs and checkpoints below `folder`; the database is the connected one.

    `at_each_look` is told the virtual seconds since the beginning.
    """
    with _settings_of(scenario, folder):
        return _Stage(scenario, folder, at_each_look).play()


class _Stage:
    """One run: the clock, the cluster, and what is still to come."""

    def __init__(self, scenario: Scenario, folder: Path, at_each_look: Callable[[float], None]) -> None:
        self.scenario = scenario
        self.at_each_look = at_each_look
        self.now = START
        store = LiveStore(folder)
        self.world = SimulatedCluster(folder, clock=lambda: self.now, store=store)
        self.client = SimulatorClient(folder, clock=lambda: self.now, store=store)
        self.world.create(scenario.cluster)
        self.moments: list[Moment] = []
        self.refusals: list[Refusal] = []
        self.watcher = Watcher(self.world, START)
        self.blind_until = START  # the desk itself stands still
        self._asked: dict[int, datetime] = {}  # recommendation → since when its question stands
        self._answered = [0] * len(scenario.decisions)
        self._first_event = Event.objects.count()

    def play(self) -> Story:
        began = time.perf_counter()
        self._furnish()
        agenda: list[PlannedJob | PlannedEvent] = [*self.scenario.jobs, *self.scenario.events]
        agenda.sort(key=lambda planned: planned.at_s)
        end = START + timedelta(seconds=self.scenario.for_s)
        next_tick = START
        while self.now < end:
            due = START + timedelta(seconds=agenda[0].at_s) if agenda else end
            self.now = min(due, next_tick, end)
            while agenda and agenda[0].at_s <= (self.now - START).total_seconds():
                self._do(agenda.pop(0))
            if self.now >= next_tick:
                self._tick()
                self.at_each_look((self.now - START).total_seconds())
                next_tick = self.now + timedelta(seconds=self.scenario.desk.poll_s)
        self._tick()
        return self._story(time.perf_counter() - began)

    def _furnish(self) -> None:
        """What is there when the scenario begins."""
        operator, _ = User.objects.get_or_create(username=OPERATOR)
        Membership.objects.get_or_create(user=operator, role=Role.ADMIN)
        self.operator = actor_for(operator)
        Cluster.objects.create(
            name=CLUSTER, backend="simulator", poll_interval_s=self.scenario.desk.poll_s, next_look_at=self.now
        )
        if self.scenario.policy is not None:
            PolicyVersion.objects.create(
                number=1, rules=self.scenario.policy, author="scenario", reason="scenario", created_at=self.now
            )
        for job in self.scenario.jobs:
            if job.resumes_at:
                spec = job.spec
                self.world.put_checkpoint(spec.run_key, job.resumes_at, shards=spec.shards, trainer=spec.trainer)

    def _do(self, planned: PlannedJob | PlannedEvent) -> None:
        at_s = (self.now - START).total_seconds()
        try:
            if isinstance(planned, PlannedJob):
                job_id = self.world.submit(planned.spec, job_id=planned.job_id or None)
                what = f"{planned.spec.user} submits {planned.spec.name} (job {job_id})"
            else:
                what = carry_out(planned, self.world, now=self.now)
                if planned.do is Deed.PAUSE:
                    self.blind_until = self.now + timedelta(seconds=planned.for_s)
        except SlurmError as error:
            what = f"refused: {error}"
            if isinstance(planned, PlannedJob):
                self.refusals.append(Refusal(job=planned.spec.name, reason=str(error)))
        self.moments.append(Moment(at_s=at_s, who="people" if isinstance(planned, PlannedJob) else "event", what=what))

    def _tick(self) -> None:
        self.world.advance()
        self.moments += self.watcher.look(self.now)
        if self.now < self.blind_until:
            return
        reconcile.tick(client_for=lambda cluster: self.client, clock=lambda: self.now)
        self._decide()

    # --- the operator ------------------------------------------------------------------------------------------------
    def _decide(self) -> None:
        """Answer every question that has stood for as long as the operator takes."""
        for incident in Incident.objects.filter(state=IncidentState.AWAITING_DECISION).select_related("run"):
            question = incident.recommendations.get(superseded_at=None)
            since = self._asked.setdefault(question.pk, self.now)
            number = self._who_answers(incident.run.name)
            if number is None or self.now - since < timedelta(seconds=self.scenario.decisions[number].after_s):
                continue
            self._answered[number] += 1
            self._say(self.scenario.decisions[number], question.pk, question.hash)

    def _who_answers(self, run: str) -> int | None:
        for number, decision in enumerate(self.scenario.decisions):
            if decision.run in ("", run) and self._answered[number] < decision.times:
                return number
        return None

    def _say(self, decision: ScriptedDecision, question: int, shown: str) -> None:
        try:
            if decision.say is Saying.APPROVE:
                decide.approve(question, shown_hash=shown, actor=self.operator, comment=decision.reason, now=self.now)
            else:
                decide.reject(question, shown_hash=shown, actor=self.operator, reason=decision.reason, now=self.now)
        except (decide.OutOfDate, decide.AlreadyDecided) as error:
            at_s = (self.now - START).total_seconds()
            self.moments.append(Moment(at_s=at_s, who="operator", what=f"decided too late: {error}"))

    def _story(self, wall_s: float) -> Story:
        moments = [*self.moments, *of_the_desk(self._first_event, START)]
        moments.sort(key=lambda moment: moment.at_s)  # stable: what happens precedes what is seen of it
        return result_of(self.scenario, self.world, moments=moments, refusals=self.refusals, wall_s=wall_s)


@contextmanager
def _settings_of(scenario: Scenario, folder: Path) -> Iterator[None]:
    """The product's settings as the scenario wants them, and back."""
    desk = scenario.desk
    wanted: dict[str, Any] = {
        "LOG_ROOTS": [str(folder)],
        "CHECKPOINT_ROOTS": [str(folder)],
        "LOG_TIME_ZONE": "UTC",
        "TICK_S": desk.poll_s,
        "SETTLE_S": desk.settle_s,
        "STALE_AFTER_S": desk.stale_after_s,
        "HANG_FLOOR_S": desk.hang_floor_s,
        "HANG_FIRST_STEP_S": desk.hang_first_step_s,
        "HANG_SAVING_S": desk.hang_saving_s,
    }
    before = {name: getattr(settings, name) for name in wanted}
    for name, value in wanted.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)
