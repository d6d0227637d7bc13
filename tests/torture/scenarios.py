"""One scenario for each action: the moment before it, what people press, and how the world must look after it.

They run on the simulator and on a real Slurm alike (desks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from django.contrib.auth.models import User

from recovery.access import actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.plans import Hold
from recovery.core.types import ActionKind, JobState, NodeState, Outcome
from recovery.models import Action, Attempt, Incident, Recommendation
from recovery.pipeline import decide
from recovery.pipeline.decide import OutOfDate
from recovery.pipeline.observe import hold_of
from recovery.pipeline.propose import propose
from recovery.slurm.base import JobRecord, NodeRecord

S = IncidentState


class Desk(Protocol):
    """The product beside one cluster. `now` is what the product takes for the present."""

    client: Any

    @property
    def now(self) -> datetime: ...

    def train(self, fault: str, *, requeueable: bool = True, time_limit_s: float | None = None) -> str:
        """Submit a training job in which `fault` strikes in its first attempt; its id."""
        ...

    def run(self, seconds: float) -> None: ...

    def run_until(self, done: Callable[[], bool]) -> None: ...

    def admin_requeue(self, job_id: str) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """`restarts` and `executions` are those of the first job, `jobs` all that were submitted, by Slurm's own record.

    `calls` are those that Slurm and the disk must have accepted, each once; `over` the states in which the case rests.
    `earlier` counts the actions of the preparation.
    """

    kind: ActionKind
    prepare: Callable[[Desk], None]
    press: Callable[[Desk], None]
    calls: tuple[str, ...]
    over: tuple[IncidentState, ...] = (S.CLOSED,)
    outcome: Outcome | None = Outcome.RECOVERED
    state: JobState = JobState.RUNNING
    restarts: int = 0
    executions: int = 1
    jobs: int = 1
    earlier: int = 0
    wrong: Callable[[Desk, JobRecord], Mapping[str, bool]] = field(default=lambda desk, job: {})

    def is_over(self) -> bool:
        states = set(Incident.objects.values_list("state", flat=True))
        acted = not self.calls or _done(self.kind)
        return acted and bool(states) and states <= set(self.over)


def _done(kind: ActionKind) -> bool:
    return Action.objects.filter(kind=kind).exclude(state__in=[ActionState.INTENDED, ActionState.CALLED]).exists()


def incident() -> Incident:
    return Incident.objects.latest("pk")


def job_id() -> str:
    return Attempt.objects.earliest("pk").job.job_id


# --- people -----------------------------------------------------------------------------------------------------------


def nobody(desk: Desk) -> None:
    """The policy decides."""


def proposes(
    kind: ActionKind, given: Callable[[], Mapping[str, Any]] = dict, without: Callable[[], Sequence[str]] = tuple
) -> Callable[[Desk], None]:
    """One person proposes it, another approves it, until it is under way: whoever got no answer presses again."""

    def press(desk: Desk) -> None:
        if Action.objects.filter(kind=kind).exists():
            return
        row = Recommendation.objects.filter(superseded_at=None).last()
        try:
            if row is None or row.action != kind:
                row = propose(
                    incident().pk, action=kind, parameters=given(), exclude_nodes=without(), reason="tried in a test",
                    actor=actor_for(User.objects.get(username="operator")), client=desk.client, now=desk.now,
                )  # fmt: skip
            _approve(row, desk)
        except OutOfDate:
            return

    return press


def _approve(row: Recommendation, desk: Desk) -> None:
    try:
        decide.approve(
            row.pk, shown_hash=row.hash, actor=actor_for(User.objects.get(username="approver")), now=desk.now
        )
    except OutOfDate:
        return


# --- the moments before -----------------------------------------------------------------------------------------------


def trains(fault: str, **options: Any) -> Callable[[Desk], None]:
    """Until steps are read that no checkpoint holds; the fault comes later."""

    def prepare(desk: Desk) -> None:
        desk.train(fault, **options)
        desk.run_until(lambda: Attempt.objects.filter(last_step__gte=26).exists())

    return prepare


def waits_for_people(fault: str, **options: Any) -> Callable[[Desk], None]:
    """Until the case lies before people."""

    def prepare(desk: Desk) -> None:
        desk.train(fault, **options)
        desk.run_until(lambda: Incident.objects.filter(state__in=[S.AWAITING_DECISION, S.WATCHING]).exists())

    return prepare


def held_by_us(desk: Desk) -> None:
    """Held by us while it hung, then put back by an administrator: it waits for us."""
    waits_for_people("hang")(desk)
    _carry_out(ActionKind.HOLD, desk)
    desk.admin_requeue(job_id())
    desk.run_until(lambda: Attempt.objects.filter(number=1, state=JobState.PENDING).exists())


def drained_by_us(desk: Desk) -> None:
    waits_for_people("ecc")(desk)
    _carry_out(ActionKind.DRAIN, desk, last_node)
    desk.run(64)  # its health must have been seen for a minute


def _carry_out(kind: ActionKind, desk: Desk, given: Callable[[], Mapping[str, Any]] = dict) -> None:
    press = proposes(kind, given)

    def done() -> bool:
        press(desk)
        return Action.objects.filter(kind=kind, state=ActionState.CONVERGED).exists()

    desk.run_until(done)


def last_node() -> dict[str, str]:
    return {"node": incident().attempt.nodes[-1]}


def first_node() -> list[str]:
    return list(incident().attempt.nodes[:1])


def before_the_torn() -> dict[str, int]:
    return {"step": 20}


def longer() -> dict[str, float]:
    return {"seconds": LIMIT_S + 3600}


# --- the moments after ------------------------------------------------------------------------------------------------

LIMIT_S = 7200.0


def _excludes(desk: Desk, job: JobRecord) -> dict[str, bool]:
    excluded = set(Action.objects.get().exclude_nodes)
    return {"the exclusion is lost": not excluded or not excluded <= set(job.excluded_nodes)}


def _is_held(desk: Desk, job: JobRecord) -> dict[str, bool]:
    return {f"it is not held: {job.state_reason}": hold_of(job) is not Hold.ADMIN}


def _is_free(desk: Desk, job: JobRecord) -> dict[str, bool]:
    return {f"it is still held: {job.state_reason}": hold_of(job) is not Hold.NONE}


def _is_longer(desk: Desk, job: JobRecord) -> dict[str, bool]:
    return {f"its limit is {job.time_limit_s}": job.time_limit_s != LIMIT_S + 3600}


def _node(desk: Desk) -> NodeRecord:
    name = incident().attempt.nodes[-1]
    nodes: list[NodeRecord] = desk.client.nodes()
    return next(node for node in nodes if node.name == name)


def _is_drained(desk: Desk, job: JobRecord) -> dict[str, bool]:
    node, key = _node(desk), Action.objects.get().key
    return {
        f"{node.name} is {node.state}: {node.reason}": node.state is not NodeState.DRAINED or key not in node.reason
    }


def _is_in_service(desk: Desk, job: JobRecord) -> dict[str, bool]:
    node = _node(desk)
    return {f"{node.name} is {node.state}": node.state is not NodeState.UP}


def _restored_older(desk: Desk, job: JobRecord) -> dict[str, bool]:
    """The torn checkpoint that the tracker named is left as it is."""
    step = incident().restored_step
    return {f"restored at step {step}": step is None or step != Action.objects.get().parameters["step"]}


K = ActionKind
Watched = partial(Scenario, over=(S.WATCHING,), outcome=None)
SCENARIOS: dict[str, Scenario] = {
    "requeue": Scenario(
        kind=K.REQUEUE, prepare=trains("hang"), press=nobody, restarts=1, executions=2,
        calls=("set_admin_comment", "requeue"),
    ),
    "requeue_excluding": Scenario(
        kind=K.REQUEUE_EXCLUDING, prepare=trains("ecc"), press=nobody, restarts=1, executions=2, wrong=_excludes,
        calls=("requeue", "set_admin_comment", "set_excluded_nodes", "release"),
    ),
    "release": Scenario(
        kind=K.RELEASE, prepare=held_by_us, press=proposes(K.RELEASE), restarts=1, executions=2, earlier=1,
        calls=("set_admin_comment", "release"), wrong=_is_free,
    ),
    "hold": Watched(
        kind=K.HOLD, prepare=waits_for_people("hang"), press=proposes(K.HOLD), wrong=_is_held,
        calls=("set_admin_comment", "hold"),
    ),
    "cancel": Scenario(
        kind=K.CANCEL, prepare=waits_for_people("hang"), press=proposes(K.CANCEL), state=JobState.CANCELLED,
        calls=("set_admin_comment", "cancel"), outcome=Outcome.STOPPED_ON_PURPOSE,
    ),
    "resubmit": Scenario(
        kind=K.RESUBMIT, prepare=waits_for_people("hang_here"), press=proposes(K.RESUBMIT, without=first_node),
        state=JobState.CANCELLED, calls=("submit", "cancel", "release"), jobs=2,
    ),
    "extend_time_limit": Watched(
        kind=K.EXTEND_TIME_LIMIT, prepare=waits_for_people("hang", time_limit_s=LIMIT_S), wrong=_is_longer,
        press=proposes(K.EXTEND_TIME_LIMIT, longer), calls=("set_admin_comment", "set_time_limit"),
    ),
    "drain": Watched(
        kind=K.DRAIN, prepare=waits_for_people("ecc"), press=proposes(K.DRAIN, last_node), state=JobState.FAILED,
        calls=("drain_node",), wrong=_is_drained,
    ),
    "resume": Watched(
        kind=K.RESUME, prepare=drained_by_us, press=proposes(K.RESUME, last_node), state=JobState.FAILED,
        calls=("resume_node",), wrong=_is_in_service, earlier=1,
    ),
    "restore_older": Scenario(
        kind=K.RESTORE_OLDER, prepare=waits_for_people("torn"), press=proposes(K.RESTORE_OLDER, before_the_torn),
        restarts=1, executions=2,
        calls=("write_tracker", "set_admin_comment", "requeue"), wrong=_restored_older,
    ),
    "nothing": Watched(
        kind=K.NOTHING, prepare=trains("traceback"), press=nobody, calls=(), state=JobState.FAILED,
    ),
}  # fmt: skip
# A policy that decides by itself stands in the way of what people press: only these are decided by it.
BY_POLICY = frozenset({"requeue", "requeue_excluding", "nothing"})
