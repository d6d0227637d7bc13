"""The words of the domain (docs/glossary.md) as types.

Everything here is a frozen value. Times are timezone-aware datetimes in UTC, durations are seconds
as float, steps are the trainer's own iteration numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple


class JobState(StrEnum):
    """State of a job or an attempt, in our words; each back end translates into these."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETING = "completing"  # ending: processes are still being removed, nodes not yet free
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    OUT_OF_MEMORY = "out_of_memory"
    BOOT_FAIL = "boot_fail"
    DEADLINE = "deadline"
    REQUEUED = "requeued"  # of an attempt only: it ended because the job was put back into the queue
    REVOKED = "revoked"  # another cluster of the federation has the job: here it never ran, and nothing failed
    UNKNOWN = "unknown"  # the scheduler gave no answer that we can name

    @property
    def is_terminal(self) -> bool:
        """True where the attempt has ended for good."""
        return self in TERMINAL_STATES


TERMINAL_STATES = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.PREEMPTED,
        JobState.OUT_OF_MEMORY,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.REQUEUED,
        JobState.REVOKED,
    }
)


class NodeState(StrEnum):
    """What the scheduler says of a node, reduced to what a decision needs."""

    UP = "up"  # idle, mixed or allocated: can run jobs
    DRAINING = "draining"  # takes no new job, still runs some
    DRAINED = "drained"
    DOWN = "down"  # down or not responding
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """What an attempt is doing. Thresholds are per phase."""

    QUEUED = "queued"
    STARTING = "starting"  # the scheduler runs it, nothing was read from it yet
    FIRST_STEP = "first_step"  # it spoke (or loaded), but no step is reported yet: compilation, warm-up
    TRAINING = "training"
    SAVING = "saving"
    EVALUATING = "evaluating"
    FINISHING = "finishing"
    UNKNOWN = "unknown"


class CheckpointState(StrEnum):
    """Only a complete checkpoint counts."""

    ANNOUNCED = "announced"  # the log says so, or a folder appears; not yet proved on disk
    COMPLETE = "complete"
    TORN = "torn"
    MISSING = "missing"  # was seen, is gone
    UNKNOWN = "unknown"  # the folder can't be read


class SignalKind(StrEnum):
    """One thing that a log line said."""

    PROGRESS = "progress"
    SAVE_STARTED = "save_started"
    SAVE_DURABLE = "save_durable"  # the trainer's own word that the save is finished
    LOADED = "loaded"
    FRESH_START = "fresh_start"  # says that it starts without a checkpoint
    FINISHED = "finished"
    EVAL_STARTED = "eval_started"  # an evaluation runs; steps pause meanwhile
    EVAL_FINISHED = "eval_finished"
    FAILURE = "failure"  # matches a rule of the failure catalogue


class FindingKind(StrEnum):
    CRASH = "crash"
    HANG = "hang"
    SLOWDOWN = "slowdown"
    LIMIT_NEAR = "limit_near"  # healthy, but its next checkpoint is due after its time limit
    UNDOING = "undoing"  # no fault: a person undoes what was done in a case that is closed

    @property
    def is_stop(self) -> bool:
        """Whether the run stood still by it: only that is an interruption."""
        return self in (FindingKind.CRASH, FindingKind.HANG)


class FailureClass(StrEnum):
    GPU_HARDWARE = "gpu_hardware"
    NODE_FAULT = "node_fault"
    NETWORK_FABRIC = "network_fabric"
    STORAGE_TRANSIENT = "storage_transient"
    STORAGE_FULL = "storage_full"
    HOST_OOM = "host_oom"
    GPU_OOM = "gpu_oom"
    USER_CODE = "user_code"
    NUMERICS = "numerics"
    LAUNCH_CONFIG = "launch_config"
    RENDEZVOUS = "rendezvous"
    WALLTIME = "walltime"
    PREEMPTION = "preemption"
    EXTERNAL_CANCEL = "external_cancel"
    SCHEDULER_LAUNCH = "scheduler_launch"
    CHECKPOINT_INCOMPLETE = "checkpoint_incomplete"
    NOT_RESUMED = "not_resumed"
    HANG_COLLECTIVE = "hang_collective"
    HANG_SILENT = "hang_silent"
    STRAGGLER = "straggler"
    COMPLETED = "completed"
    NOT_A_FAILURE = "not_a_failure"
    UNKNOWN = "unknown"


class Restart(StrEnum):
    """What we should do about the job."""

    YES = "yes"
    ONCE = "once"  # one try; a second failure alike stops
    AFTER_CHANGE = "after_change"  # a person must change something first
    NO = "no"  # pointless, unwanted, or already under way


class Exclude(StrEnum):
    NONE = "none"
    NODES = "nodes"  # exactly these
    IF_REPEATED = "if_repeated"  # suspect, not proven
    HOLD = "hold"  # a fabric or storage incident: exclude nobody, wait


class Role(StrEnum):
    """Role of an evidence line. The earliest cause wins, not the last or the loudest line."""

    CAUSE = "cause"
    CONSEQUENCE = "consequence"
    CONFIRMATION = "confirmation"


class Mode(StrEnum):
    """How far a policy lets the product go, least first."""

    OBSERVE = "observe"
    APPROVE = "approve"
    AUTO = "auto"


class ActionKind(StrEnum):
    REQUEUE = "requeue"
    REQUEUE_EXCLUDING = "requeue_excluding"  # hold the requeue, exclude nodes, read back, release
    RELEASE = "release"  # of a hold that Slurm itself left after a failed launch, or of our own
    HOLD = "hold"  # keeps a job from starting again and again; undone by releasing it
    CANCEL = "cancel"  # ends a job for good
    RESUBMIT = "resubmit"  # cancel, and submit the stored batch script again with changes
    EXTEND_TIME_LIMIT = "extend_time_limit"
    DRAIN = "drain"  # a node; its reason names the incident
    RESUME = "resume"  # a node that we drained
    RESTORE_OLDER = "restore_older"  # point the trainer at an older complete checkpoint, then requeue
    NOTHING = "nothing"  # with its reason: Slurm is already requeueing, a person must change something first, …

    @property
    def changes_scheduler(self) -> bool:
        return self is not ActionKind.NOTHING

    @property
    def restarts(self) -> bool:
        """Whether it starts the run again: only these use up a budget of restarts."""
        return self in RESTARTS

    @property
    def ends_attempt(self) -> bool:
        """Whether the execution that it is done to ends by it: that end is our doing, not a fault."""
        return self in PUT_BACK or self is ActionKind.CANCEL


RESTARTS = frozenset(
    {
        *(ActionKind.REQUEUE, ActionKind.REQUEUE_EXCLUDING, ActionKind.RELEASE, ActionKind.RESUBMIT),
        ActionKind.RESTORE_OLDER,
    }
)
PUT_BACK = RESTARTS - {ActionKind.RELEASE}  # those that begin by a new place in the queue; a release only lets go


class DecisionKind(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    AMEND = "amend"  # something else was proposed in its place, after it
    AUTO = "auto"
    EXPIRE = "expire"


class Rejection(StrEnum):
    """Why a recommendation was rejected: what a score and the next person learn from."""

    WRONG_CLASS = "wrong_class"
    WRONG_NODE = "wrong_node"
    WRONG_ACTION = "wrong_action"
    WRONG_CHECKPOINT = "wrong_checkpoint"
    USER_IS_ON_IT = "user_is_on_it"
    NOT_NOW = "not_now"
    OTHER = "other"


class Outcome(StrEnum):
    """How an incident ended."""

    RECOVERED = "recovered"
    RESTORED_OLDER = "restored_older"
    FROM_SCRATCH = "restarted_from_scratch"
    NO_PROGRESS = "no_progress"
    SAME_FAILURE = "same_failure"  # restored, and the same failure again at the same step
    NO_CHECKPOINT = "no_checkpoint"  # it trains, and no next checkpoint came
    GAVE_UP = "gave_up"
    STOPPED_ON_PURPOSE = "stopped_on_purpose"
    UNDONE = "undone"  # of a case of its own: what an earlier one did was undone
    FALSE_ALARM = "false_alarm"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """One line of a job's log. `offset` is the byte at which it starts, `number` counts from 1."""

    text: str
    file: str
    number: int
    offset: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One progress observation."""

    at: datetime
    step: int
    loss: float | None = None
    throughput: float | None = None  # in the trainer's own unit; only compared within one attempt
    step_time_s: float | None = None
    rank: int = -1  # -1: the trainer reports for all ranks together
    tokens: float | None = None  # trained on since the run began, where the trainer counts them


class Signal(NamedTuple):
    """One thing that one line of a log said, with where it stands. A tuple: a long log makes a hundred thousand."""

    kind: SignalKind
    file: str
    line: int
    offset: int
    text: str  # the line, without control characters, at most 500 characters
    rule: str  # the pattern that matched: "megatron.iteration", "cuda.ecc_uncorrectable"
    at: datetime | None = None  # the time that the line itself carries
    step: int | None = None
    path: str = ""  # of a save or a load: the folder that holds the run's checkpoints, as far as the line names one
    rank: int | None = None
    node: str = ""
    loss: float | None = None
    throughput: float | None = None
    step_time_s: float | None = None
    tokens: float | None = None  # trained on since the run began, where the trainer counts them


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEvent:
    """What Slurm, a kernel log or a GPU's counter said of a node."""

    at: datetime
    node: str
    text: str
    state: NodeState = NodeState.UNKNOWN
    exact: bool = True  # False: it came up some time after `at`, when it was looked for in vain


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointFact:
    step: int
    state: CheckpointState
    path: str = ""
    detail: str = ""  # why it is torn or unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    text: str
    source: str  # a log file's path, "scheduler", "node"
    role: Role
    rule: str
    line: int | None = None
    at: datetime | None = None
    rank: int | None = None
    node: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What a detector concluded at one moment."""

    kind: FindingKind
    since: datetime  # when the fault began, as far as can be told
    reason: str  # one sentence, shown as it is
    confidence: float
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    failure_class: FailureClass
    restart: Restart
    exclude: Exclude
    nodes: tuple[str, ...]  # to exclude; empty unless exclude is NODES
    confidence: float  # 0 … 1
    reason: str  # one sentence a person can act on
    evidence: tuple[Evidence, ...] = ()
    first_failure: Evidence | None = None
    coverage: dict[str, str] = field(default_factory=dict)  # kind of fact → what was looked for and found or not


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuFacts:
    """What was measured of an attempt's GPUs lately: means over its nodes; None where nothing was measured."""

    at: datetime  # of the newest reading
    nodes: int  # that have one
    utilisation: float | None = None  # percent
    power_w: float | None = None  # of one GPU
    usual_power_w: float | None = None  # the mean of this attempt before it fell silent
    most_utilisation: float | None = None  # the highest of any node in the last ten minutes; likewise
    most_power_w: float | None = None
    xids: tuple[tuple[str, int], ...] = ()  # node and code, each once, that came up within this attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptFacts:
    """All that detectors and the diagnosis may know of one attempt at one moment.

    `seen_at` is the time of the scheduler's answer that this rests on; `now` minus `seen_at` is the age of the picture.
    """

    now: datetime
    seen_at: datetime
    state: JobState
    number: int = 0
    state_reason: str = ""
    exit_code: int | None = None  # of the batch script
    exit_signal: int | None = None
    step_exit_codes: tuple[int, ...] = ()  # of the job's steps where accounting tells
    nodes: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    time_limit_s: float | None = None
    cancelled_by: str = ""  # user name or uid; "" when nobody is known to have cancelled it
    owner: str = ""  # user name of the job's owner; "" where that is not known
    ranks: int | None = None  # of the job, as its log says; None: not told
    gpus: int | None = None  # of the job; most trainers run a rank for each
    requeued_by_slurm: bool = False  # a later attempt of this job already waits or runs, not by our doing
    phase: Phase = Phase.UNKNOWN
    phase_since: datetime | None = None
    blind_reason: str = ""  # not empty: it can't be observed, and no detector may call it hung
    last_progress_at: datetime | None = None
    last_step: int | None = None
    workers_at: datetime | None = None  # when a launcher last started the workers anew within the attempt, as it says
    samples: tuple[Sample, ...] = ()  # oldest first, bounded; of this attempt only
    signals: tuple[Signal, ...] = ()  # failures and phase marks of this attempt, oldest first, bounded
    node_events: tuple[NodeEvent, ...] = ()  # of the attempt's nodes since it started
    checkpoints: tuple[CheckpointFact, ...] = ()  # of the run, oldest first
    gpu: GpuFacts | None = None  # None: nobody measures, or nothing was measured lately
    saved_at: datetime | None = None  # when the run's newest checkpoint was complete; asked for near the time limit
    save_every_s: float | None = None  # between two checkpoints of the run
    longest_wait_s: float = 0.0  # the longest silence that the run came back from, fading (detectors/hang.py)
    # Asked for when a step is overdue:
    longest_start_s: float = 0.0  # the longest of the run's earlier starts, to the first step
    written_at: datetime | None = None  # when files of a checkpoint that is not complete yet were last seen to change
    stalled_with: int = 0  # other running jobs that stopped within the same two minutes


@dataclass(frozen=True, kw_only=True, slots=True)
class PastFailure:
    """One earlier incident of the same run, for budgets and loops."""

    at: datetime
    failure_class: FailureClass
    step: int | None
    acted: bool  # whether we changed the scheduler for it
    rule: str = ""
    nodes: tuple[str, ...] = ()
    checkpoint_since: bool = False  # a new checkpoint became complete between it and the present failure
    elsewhere: bool = False  # after it the run went on on other nodes than `nodes`
    shared: bool = False  # it was part of an outbreak: other runs failed with it


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What we recommend, before it is stored and hashed."""

    action: ActionKind
    exclude_nodes: tuple[str, ...]
    headline: str  # "Requeue without gpu-17, restoring step 840 (12 steps lost)."
    reasons: tuple[str, ...]
    restore_step: int | None  # newest complete checkpoint; None: nothing to restore, it would start from scratch
    restore_path: str
    steps_at_stake: int | None  # work since that checkpoint, already lost
    gpu_hours_at_stake: float | None
    gpus_idle: int  # what waiting costs: this many GPUs (nodes where a cluster counts no GPUs) stand idle
    operations: tuple[str, ...]  # the exact scheduler operations, as they will be run
    parameters: dict[str, Any] = field(default_factory=dict)  # of the action, as recovery/core/plans/ reads them
