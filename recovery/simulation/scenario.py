"""What a scenario file says (docs/scenarios.md), as values. Times are seconds after the scenario's start."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from recovery.core.fleet import SharedKind
from recovery.core.lifecycle import IncidentState
from recovery.core.types import ActionKind, DecisionKind, FailureClass, FindingKind, JobState, Outcome
from recovery.slurm.base import Operation
from recovery.slurm.simulator import ClusterSpec, JobSpec, TroubleKind


class Deed(StrEnum):
    """What can happen to a cluster, or be done to it by its users and administrators."""

    CRASH_NODE = "crash_node"  # loses power; Slurm notices after node_timeout_s
    CRASH_RACK = "crash_rack"
    FAIL_NODE = "fail_node"  # an administrator sets it down
    DRAIN_NODE = "drain_node"
    RESTORE_NODE = "restore_node"
    RESERVE = "reserve"
    CANCEL = "cancel"
    REQUEUE = "requeue"
    HOLD = "hold"
    RELEASE = "release"
    LOSE_CHECKPOINT = "lose_checkpoint"
    TROUBLE = "trouble"  # the scheduler fails to answer, in one of the ways of `how`
    PAUSE = "pause"  # the desk itself stands still: nobody looks


class Saying(StrEnum):
    """What an operator can say to a question."""

    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeskSettings:
    """The product's settings while the scenario runs; the defaults are those of a fresh installation."""

    poll_s: float = 10
    settle_s: float = 20
    stale_after_s: float = 60
    hang_floor_s: float = 300
    hang_first_step_s: float = 1800
    hang_saving_s: float = 900


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedJob:
    at_s: float
    spec: JobSpec
    resumes_at: int = 0  # a complete checkpoint of that step lies there when the scenario begins; 0: none
    job_id: str = ""  # an id that the controller has forgotten, to be used again


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedEvent:
    at_s: float
    do: Deed
    job: str = ""  # name of a job
    nodes: tuple[str, ...] = ()
    rack: str = ""
    by: str = ""
    reason: str = ""
    step: int = 0
    how: TroubleKind = TroubleKind.UNREACHABLE
    operations: tuple[Operation, ...] = ()  # (): all of them
    for_s: float = 0  # how long trouble, a pause or a reservation lasts
    back_after_s: float = 0
    within_s: float = 2
    starts_in_s: float = 0
    name: str = ""  # of a reservation
    users: tuple[str, ...] = ()
    maintenance: bool = False
    hold: bool = False  # requeue and hold


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptedDecision:
    """What the operator says to each question about `run`, so long after it was asked."""

    say: Saying
    run: str = ""  # "": every run
    after_s: float = 10
    times: int = 100  # so many questions are answered, later ones are left open
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedIncident:
    """None: whatever it is. The incidents of a run are expected in the order of their detection."""

    run: str
    kind: FindingKind | None = None
    failure_class: FailureClass | None = None
    state: IncidentState | None = None
    outcome: Outcome | None = None
    action: ActionKind | None = None  # of the last recommendation
    excluded: tuple[str, ...] | None = None
    restore_step: int | None = None  # that the last recommendation names
    restored_step: int | None = None
    next_checkpoint_step: int | None = None
    actions: int | None = None  # changes of the scheduler that the desk began
    decided: DecisionKind | None = None
    alarm: str = ""  # a part of its text
    trouble: Outcome | None = None  # what verification says went wrong, while the case is open
    danger: str = ""  # a part of the sentence on the checkpoint that is about to be destroyed
    by_others: bool | None = None  # somebody else started the run again


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedJob:
    """The job's own truth at the end, and what the desk shows of it."""

    name: str
    job_id: str = ""  # where several have the name
    state: JobState | None = None
    requeues: int | None = None
    not_on: tuple[str, ...] = ()  # nodes that its last attempt must not have run on
    shown: JobState | None = None
    blind: bool | None = None
    refused: bool = False  # Slurm refuses its submission: then there is nothing else to expect of it


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedOutbreak:
    """None: whatever it is. Outbreaks are expected in the order of their first failure."""

    runs: int | None = None
    incidents: int | None = None  # a run that was struck twice has two
    shared: SharedKind | None = None  # the most telling of what they have in common
    closed: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    incidents: tuple[ExpectedIncident, ...] = ()  # all of them: another one is a difference
    jobs: tuple[ExpectedJob, ...] = ()
    outbreaks: tuple[ExpectedOutbreak, ...] = ()  # all of them, too
    suspects: tuple[str, ...] | None = None  # the nodes that are suspects at the end; None: whichever
    actions: int | None = None  # of all incidents together


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    title: str
    for_s: float
    cluster: ClusterSpec
    jobs: tuple[PlannedJob, ...]
    desk: DeskSettings = DeskSettings()
    policy: dict[str, Any] | None = None  # whole rules of recovery/core/policy.py; None: none was ever saved
    events: tuple[PlannedEvent, ...] = ()
    decisions: tuple[ScriptedDecision, ...] = ()
    expect: Expectation = field(default_factory=Expectation)
