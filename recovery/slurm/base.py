"""The contract that every back end keeps: what can be asked of Slurm and what can be done to it.

Reads either return a whole, consistent answer or raise SlurmError: an error, a time-out, a partial or
unparsable answer is *no observation*, never an empty one. Writes return when the scheduler accepted the call; what it
did is only known from a later read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from recovery.core.types import JobState, NodeState

# The `state_reason` of a job that a held requeue (and nobody since) keeps in the queue. Slurm 22.05 shows such a job as
# JobHeldUser with the description "job requeued in held state"; an administrator's hold on top makes it JobHeldAdmin.
HELD_BY_REQUEUE = "RequeuedHeld"

# Somebody's hold. Put on a running job it shows in the reason alone, and takes effect when the job is put back; Slurm
# 22.05 then calls it RequeuedHeld after a held requeue, as if it were ours.
HELD_BY_PEOPLE = frozenset({"JobHeldAdmin", "JobHeldUser"})


# The `state_reason` of a job that another cluster of the federation has, and of one whose end there is known.
IS_ELSEWHERE, ENDED_ELSEWHERE = "OnAnotherCluster", "EndedOnAnotherCluster"

MAX_TRIED = 300  # characters of what was tried, in a sentence for people


class SlurmError(Exception):
    """A call that gave no trustworthy answer.

    `permanent` is True where trying again can't help (unknown job, permission denied); `tried` is the operation in
    words, for people. After a failed *write* whose `permanent` is False the effect is unknown and must be observed.
    """

    def __init__(self, message: str, *, tried: str, permanent: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.tried = tried
        self.permanent = permanent

    def __str__(self) -> str:
        tried = (
            self.tried if len(self.tried) <= MAX_TRIED else f"{self.tried[: MAX_TRIED - 1]}…"
        )  # it may name all jobs
        return f"{tried}: {self.message}"


class SlurmUnreachable(SlurmError):
    """No answer, or half of one: nothing was observed."""


class SlurmRefused(SlurmError):
    """Slurm answered and said no (permission, unknown job, wrong state)."""


class NotSupported(SlurmRefused):
    """This back end (or this release behind it) has no such call: `can` says so before anybody tries."""


class JobNotFound(SlurmRefused):
    """The scheduler no longer knows the job: ended longer than MinJobAge ago, or never was."""


class Operation(StrEnum):
    """Everything that may be asked of a cluster or done to it, by the name of its call."""

    JOBS = "jobs"
    JOB = "job"
    ATTEMPTS = "attempts"
    ENDED_BETWEEN = "ended_between"
    NODES = "nodes"
    PARTITIONS = "partitions"
    RESERVATIONS = "reservations"
    TOPOLOGY = "topology"
    BATCH_SCRIPT = "batch_script"
    REQUEUE = "requeue"
    REQUEUE_HOLD = "requeue_hold"
    SET_EXCLUDED_NODES = "set_excluded_nodes"
    RELEASE = "release"
    HOLD = "hold"
    CANCEL = "cancel"
    SET_TIME_LIMIT = "set_time_limit"
    SET_ADMIN_COMMENT = "set_admin_comment"
    DRAIN_NODE = "drain_node"
    RESUME_NODE = "resume_node"
    SUBMIT = "submit"

    @property
    def is_write(self) -> bool:
        return self not in READS


READS = frozenset(
    {
        *(Operation.JOBS, Operation.JOB, Operation.ATTEMPTS, Operation.NODES, Operation.PARTITIONS),
        *(Operation.RESERVATIONS, Operation.TOPOLOGY, Operation.BATCH_SCRIPT, Operation.ENDED_BETWEEN),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Can:
    """Whether a cluster can be asked for something; `reason` and `remedy` are sentences for people where it can't."""

    yes: bool
    reason: str = ""
    remedy: str = ""

    def __bool__(self) -> bool:
        return self.yes


YES = Can(yes=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """The scheduler's present word on one job, in our names.

    `submitted_at` is overwritten by Slurm at each requeue, so it belongs to the attempt; `restart_count` is 0 on the
    first attempt. `stdout` and `stderr` are absolute paths with Slurm's patterns expanded, "" where the job has none.
    """

    job_id: str  # "4711", or "4711_3" for an array task
    name: str
    user: str
    state: JobState
    submitted_at: datetime
    state_reason: str = ""  # Slurm's own word: "NonZeroExitCode", "BeginTime", "JobHeldAdmin"
    account: str = ""
    partition: str = ""
    restart_count: int = 0
    requeueable: bool = True
    held: bool = False  # priority 0: somebody (perhaps we) holds it
    eligible_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None  # None while it runs
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    node_count: int = 0  # wanted or allocated
    excluded_nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    gpus: int = 0
    time_limit_s: float | None = None
    comment: str = ""
    work_dir: str = ""
    stdout: str = ""
    stderr: str = ""
    batch_host: str = ""
    qos: str = ""
    features: str = ""  # the constraint as it was written: "h100&ib", "" for none
    reservation: str = ""
    admin_comment: str = ""
    unique_id: str = ""  # Slurm's own identity of this execution (SLUID), where the release has one
    federated: bool = False  # a job of a federation: Slurm may start it on several clusters
    origin: str = ""  # in a federation: where it was submitted, "" where that is this cluster
    copy: bool = False  # in a federation: it only waits here beside its origin, and was not started here
    raw_id: str = ""  # the number of its record: of an array task its own, which %j gives; "" where it isn't told


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsPicture:
    """All jobs at one moment. `jobs` is None where nothing has changed since the picture that `mark` came with."""

    jobs: list[JobRecord] | None
    mark: str = ""  # to be given back at the next look; "" where the back end can't tell


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRecord:
    """One execution of a job, from accounting. The number is its place by submit time, from 0."""

    job_id: str
    number: int
    state: JobState
    submitted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    cancelled_by: str = ""  # uid or name as accounting gives it
    step_exit_codes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRecord:
    name: str
    state: NodeState
    partitions: tuple[str, ...] = ()
    raw_state: str = ""  # Slurm's own words: "IDLE+DRAIN"
    reason: str = ""
    reason_by: str = ""
    reason_at: datetime | None = None
    features: tuple[str, ...] = ()  # those active now
    gpus: int = 0
    switch: str | None = None  # the leaf that it hangs on, "" for none; None where this list doesn't tell
    jobs_on_it: bool = False  # some job has (a part of) it: allocated, mixed or completing


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionRecord:
    """`up` is False where it takes no jobs or starts none (DOWN, DRAIN, INACTIVE)."""

    name: str
    up: bool
    nodes: tuple[str, ...]
    default: bool = False
    time_limit_s: float | None = None  # None: unlimited


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservationRecord:
    """Nodes set aside for somebody for a time; `users` and `accounts` are who may use them (all empty: nobody)."""

    name: str
    nodes: tuple[str, ...]
    starts_at: datetime
    ends_at: datetime
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    maintenance: bool = False  # flag MAINT: no job may run into it


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A batch script to be submitted, on behalf of `user` where that isn't us. "" and None leave Slurm's default.

    `environment` is added to what Slurm gives a batch job; nothing of our own environment goes with it.
    """

    script: str  # whole, with its #!-line
    user: str
    work_dir: str
    name: str = ""
    account: str = ""
    partition: str = ""
    comment: str = ""
    admin_comment: str = ""
    excluded_nodes: tuple[str, ...] = ()
    time_limit_s: float | None = None
    hold: bool = False
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What is known of the controller.

    `requeue_delay_s` is what a requeued job waits at least: Slurm's cred_expire plus 1.
    """

    release: str  # "22.05.8"
    accounting: bool  # whether past attempts can be asked for
    requeue_delay_s: float
    latency_s: float
    min_job_age_s: float | None = None  # how long ended jobs stay known; None where it can't be told
    store_flags: tuple[str, ...] = ()  # AccountingStoreFlags: "job_comment", "job_script", …
    controller_time: datetime | None = None  # its clock when it answered, to the second
    cluster_name: str = ""  # ClusterName of its slurm.conf, "" where the back end can't tell
    federation: str | None = None  # the federation that it is in, "" for none; None where that was not told
    siblings: tuple[str, ...] = ()  # the other clusters of that federation
    unsynced: tuple[str, ...] = ()  # those of them that this one is out of step with, as while their controller is down


class RightsLevel(StrEnum):
    """What Slurm lets us do to other people's jobs, and to nodes."""

    FULL = "full"  # root, SlurmUser or an administrator: jobs and nodes, and submitting as others where we are root
    OPERATOR = "operator"  # jobs of others; nodes and admin comments are an administrator's (docs/privileges.md)
    OWN = "own"  # our own jobs only
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rights:
    """As whom we speak to Slurm, and how the level is known, in words."""

    user: str
    level: RightsLevel
    how: str


class SlurmClient(Protocol):
    """One cluster. Every call may raise SlurmError; none blocks longer than its time-out (10 s unless configured).

    Calls that `can` denies raise NotSupported and touch nothing.
    """

    def can(self, operation: Operation) -> Can:
        """Whether this back end has the call here. Says nothing of rights: those are asked for with `rights`."""
        ...

    def health(self) -> Health: ...

    def rights(self) -> Rights: ...

    def jobs(self) -> list[JobRecord]:
        """Every job that the controller knows, finished ones within MinJobAge too."""
        ...

    def jobs_since(self, mark: str) -> JobsPicture:
        """As jobs(), but without the jobs where nothing has changed since `mark` ("": always all jobs)."""
        ...

    def job(self, job_id: str) -> JobRecord:
        """One job, read fresh. Raises JobNotFound."""
        ...

    def attempts(self, job_ids: Sequence[str], *, since: datetime) -> dict[str, list[AttemptRecord]]:
        """All attempts of these jobs that accounting knows of, oldest first; a job that it doesn't know is left out.

        One question, however many jobs. `since` must not be later than the first submission, or numbers start too
        late. Raises SlurmRefused where there is no accounting.
        """
        ...

    def ended_between(self, start: datetime, end: datetime) -> list[JobRecord]:
        """Every execution of anybody's job that ended in this time by accounting's word, the first to end first; in a
        federation with those that another cluster took (REVOKED).

        One question. `restart_count` is Slurm's own where accounting keeps it, else the place among those of that job
        in the answer. What accounting doesn't keep is as in a JobRecord without it: holds, exclusions, before 24.05
        the files of its output, without AccountingStoreFlags=job_comment the comment. Raises SlurmRefused where there
        is no accounting. A user without a level in Slurm gets fewer, where slurmdbd's PrivateData hides others' jobs.
        """
        ...

    def nodes(self) -> list[NodeRecord]: ...

    def partitions(self) -> list[PartitionRecord]: ...

    def reservations(self) -> list[ReservationRecord]: ...

    def topology(self) -> dict[str, str]:
        """The leaf that each node hangs on (a switch, block or ring), by the node; a node on none is left out."""
        ...

    def batch_script(self, job_id: str) -> str:
        """The script that the job was submitted with.

        Raises JobNotFound; SlurmRefused where it isn't kept or is not ours to read.
        """
        ...

    def requeue(self, job_id: str, *, hold: bool) -> None:
        """Put a running or ended job back into the queue (`hold`: and keep it there).

        Raises SlurmRefused where it already is pending: not an error to a caller that wanted exactly this.
        """
        ...

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        """Replace the job's list of excluded nodes (the caller merges)."""
        ...

    def release(self, job_id: str) -> None: ...

    def hold(self, job_id: str) -> None:
        """Keep a pending job from starting, so that its owner can't release it (an administrator's hold)."""
        ...

    def cancel(self, job_id: str) -> None:
        """End a job for good. Raises SlurmRefused where it has ended already."""
        ...

    def set_time_limit(self, job_id: str, seconds: float) -> None:
        """Set the whole time limit of a pending or running job, in seconds; Slurm counts in minutes (rounded up)."""
        ...

    def set_admin_comment(self, job_id: str, text: str) -> None:
        """Replace the comment that only administrators write; one line, at most 1000 characters."""
        ...

    def drain_node(self, name: str, reason: str) -> None:
        """Let a node take no new jobs; those that run on it go on.

        Raises SlurmRefused where it is drained already: the reason of whoever did it stays.
        """
        ...

    def resume_node(self, name: str) -> None:
        """Let a drained (or down) node take jobs again. Raises SlurmRefused where there is nothing to resume."""
        ...

    def submit(self, submission: Submission) -> str:
        """Submit a batch script; the new job's id.

        What can't be submitted raises SlurmRefused before Slurm is asked (submissions.py).
        """
        ...

    def preview(self, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> str:
        """The exact command or request that a write would run, without running it.

        `subject` is the job id or the node; `nodes` those to exclude; `value` the time limit in seconds, the admin
        comment or the drain reason, as text. Raises NotSupported where `can` says no.
        """
        ...
