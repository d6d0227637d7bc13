"""The world's own state: plain values that JSON can hold. Times are seconds since 1970 as float."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from recovery.core.types import JobState
from recovery.slurm.simulator.spec import ClusterSpec, JobSpec, Trainer


class Activity(StrEnum):
    """What the processes of a running attempt are doing."""

    STARTING = "starting"
    LOADING = "loading"
    STEPPING = "stepping"
    SAVING = "saving"
    STUCK = "stuck"  # silent until the collective's time-out
    DYING = "dying"  # has written its last words
    SILENT = "silent"  # hangs, or its node is gone: nothing happens any more


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """How an attempt ends, in the scheduler's words."""

    state: JobState
    reason: str = ""
    exit_code: int = 0
    exit_signal: int = 0
    step_exit_codes: tuple[int, ...] = ()


@dataclass(kw_only=True, slots=True)
class Training:
    """The processes of one attempt. `step` is the last finished iteration."""

    activity: Activity
    next_at: float | None  # when `activity` is over; None: never
    since: float  # when something last moved
    total: int
    step: int = 0
    trains_since: float | None = None
    took_s: float = 0  # the iteration under way
    first: bool = True  # the next iteration is this attempt's first
    slow: float = 1.0
    nans: int = 0
    nan: bool = False
    saves: bool = True
    tear: bool = False
    full: bool = False  # the disk: the next save fails
    fault: int | None = None  # the one that it is stuck in
    end: End | None = None  # what it is dying of


@dataclass(kw_only=True, slots=True)
class Attempt:
    """One execution, as accounting keeps it."""

    state: JobState
    submitted_at: float
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int = 0
    exit_signal: int = 0
    nodes: tuple[str, ...] = ()
    cancelled_by: str = ""
    step_exit_codes: tuple[int, ...] = ()


@dataclass(kw_only=True, slots=True)
class Job:
    """A job that the controller knows, with its present attempt."""

    number: int  # order of submission: the queue's order
    job_id: str
    spec: JobSpec
    log: str  # path of the log, below the state directory; "": it writes none
    submitted_at: float
    state: JobState = JobState.PENDING
    reason: str = ""
    restart_count: int = 0
    held: bool = False
    excluded: tuple[str, ...] = ()
    begin_at: float = 0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int = 0
    exit_signal: int = 0
    step_exit_codes: tuple[int, ...] = ()
    cancelled_by: str = ""
    nodes: tuple[str, ...] = ()  # held until COMPLETING is over
    limit_at: float | None = None
    completing_until: float | None = None
    purge_at: float | None = None
    time_limit_s: float | None = None  # the spec's, until somebody changes it
    admin_comment: str = ""
    record_id: str = ""  # the plain number that Slurm counts by: another than job_id for the tasks of an array
    array_id: str = ""  # "" where it is no array and no task of one
    task: int | None = None  # of the array; None also for the one record of all tasks that still wait
    waiting_tasks: tuple[int, ...] = ()  # those that this record stands for
    log_size: int = 0
    fired: dict[str, int] = field(default_factory=dict)  # number of a fault → the attempt that it last struck
    past: list[Attempt] = field(default_factory=list)
    stream: int | None = None  # of the workload, where it submitted the job
    training: Training | None = None

    def due(self) -> float | None:
        """When something happens to this job next, by itself."""
        times = [self.limit_at, self.completing_until, self.purge_at]
        if self.training is not None:
            times.append(self.training.next_at)
        return min((t for t in times if t is not None), default=None)

    def attempt(self) -> Attempt:
        """The present attempt as a record of accounting."""
        return Attempt(
            state=self.state,
            submitted_at=self.submitted_at,
            started_at=self.started_at,
            ended_at=self.ended_at,
            exit_code=self.exit_code,
            exit_signal=self.exit_signal,
            nodes=self.nodes,
            cancelled_by=self.cancelled_by,
            step_exit_codes=self.step_exit_codes,
        )


@dataclass(kw_only=True, slots=True)
class Node:
    name: str
    gpus: int
    features: tuple[str, ...] = ()
    rack: str = ""
    used: int = 0
    down: bool = False
    drained: bool = False
    crashed: bool = False  # without power, not yet noticed
    reason: str = ""
    reason_by: str = ""
    reason_at: float | None = None
    notice_at: float | None = None
    back_at: float | None = None
    back_after_s: float = 0
    crash_at: float | None = None  # it will lose power then: one of a rack that goes down

    def due(self) -> float | None:
        return min((t for t in (self.crash_at, self.notice_at, self.back_at) if t is not None), default=None)

    @property
    def takes_jobs(self) -> bool:
        return not (self.down or self.drained)


@dataclass(kw_only=True, slots=True)
class Reservation:
    name: str
    nodes: tuple[str, ...]
    starts_at: float
    ends_at: float
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    maintenance: bool = False


@dataclass(kw_only=True, slots=True)
class Checkpoint:
    step: int
    complete: bool


@dataclass(kw_only=True, slots=True)
class Run:
    """The checkpoint folder of one run: what lies in it, oldest first, and what the tracker file says."""

    saved: list[Checkpoint] = field(default_factory=list)
    tracker: int | None = None
    trainer: Trainer = Trainer.MEGATRON

    def restorable(self) -> int | None:
        """The newest complete checkpoint that the tracker covers; Megatron looks no further than its tracker."""
        steps = [c.step for c in self.saved if c.complete and self.tracker is not None and c.step <= self.tracker]
        return max(steps, default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What accounting keeps of a job beside its executions."""

    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    node_count: int = 0
    gpus: int = 0
    time_limit_s: float | None = None
    comment: str = ""
    work_dir: str = ""
    stdout: str = ""


@dataclass(kw_only=True, slots=True)
class Forgotten:
    """What accounting still knows of jobs with one id that the controller has dropped."""

    name: str
    attempts: list[Attempt]
    log: str
    run: str
    forget_at: float | None
    described: Described = field(default_factory=Described)


class TroubleKind(StrEnum):
    """Ways in which the scheduler fails to answer."""

    UNREACHABLE = "unreachable"  # refuses the connection: nothing is answered, nothing is done
    HALF_ANSWER = "half_answer"  # what comes back can't be parsed; a write was carried out
    LOST_ANSWER = "lost_answer"  # a write is carried out, its answer never arrives; reads time out
    EMPTY_LIST = "empty_list"  # the job list comes back empty, without an error
    NO_ACCOUNTING = "no_accounting"  # only slurmdbd is down


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    kind: TroubleKind
    until: float
    operations: tuple[str, ...] = ()  # method names of SlurmClient; (): all of them


@dataclass(kw_only=True, slots=True)
class State:
    spec: ClusterSpec
    now: float
    next_number: int = 0
    next_id: int = 0
    wrapped: bool = False  # ids are given out for the second time
    jobs: dict[str, Job] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    forgotten: dict[str, list[Forgotten]] = field(default_factory=dict)
    changes: int = 0  # grows whenever the record of some job changes: the mark of a picture
    appended: dict[str, int] = field(default_factory=dict)  # logs that are never emptied → their size
    schedule_at: float | None = None
    workload_at: float | None = None
    generations: list[int] = field(default_factory=list)  # of each stream of the workload
    trouble: Trouble | None = None
