"""The contract that every back end keeps: what can be asked of Slurm and what can be done to it.

Reads either return a whole, consistent answer or raise SlurmError: an error, a time-out, a partial or
unparsable answer is *no observation*, never an empty one. Writes return when the scheduler accepted the call; what it
did is only known from a later read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from recovery.core.types import JobState, NodeState

# The `state_reason` of a job that a held requeue (and nobody since) keeps in the queue. Slurm 22.05 shows such a job as
# JobHeldUser with the description "job requeued in held state"; an administrator's hold on top makes it JobHeldAdmin.
HELD_BY_REQUEUE = "RequeuedHeld"

# Somebody's hold. Put on a running job it shows in the reason alone, and takes effect when the job is put back; Slurm
# 22.05 then calls it RequeuedHeld after a held requeue, as if it were ours.
HELD_BY_PEOPLE = frozenset({"JobHeldAdmin", "JobHeldUser"})


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
        return f"{self.tried}: {self.message}"


class SlurmUnreachable(SlurmError):
    """No answer, or half of one: nothing was observed."""


class SlurmRefused(SlurmError):
    """Slurm answered and said no (permission, unknown job, wrong state)."""


class JobNotFound(SlurmRefused):
    """The scheduler no longer knows the job: ended longer than MinJobAge ago, or never was."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What is known of the controller.

    `requeue_delay_s` is what a requeued job waits at least: Slurm's cred_expire plus 1.
    """

    release: str  # "22.05.8"
    accounting: bool  # whether past attempts can be asked for
    requeue_delay_s: float
    latency_s: float


class SlurmClient(Protocol):
    """One cluster. Every call may raise SlurmError; none blocks longer than its time-out (10 s unless configured)."""

    def health(self) -> Health: ...

    def jobs(self) -> list[JobRecord]:
        """Every job that the controller knows, finished ones within MinJobAge too."""
        ...

    def job(self, job_id: str) -> JobRecord:
        """One job, read fresh. Raises JobNotFound."""
        ...

    def attempts(self, job_id: str, *, since: datetime) -> list[AttemptRecord]:
        """All attempts that accounting knows of, oldest first. Raises SlurmRefused where there is no accounting."""
        ...

    def nodes(self) -> list[NodeRecord]: ...

    def requeue(self, job_id: str, *, hold: bool) -> None:
        """Put a running or ended job back into the queue (`hold`: and keep it there).

        Raises SlurmRefused where it already is pending: not an error to a caller that wanted exactly this.
        """
        ...

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        """Replace the job's list of excluded nodes (the caller merges)."""
        ...

    def release(self, job_id: str) -> None: ...

    def preview(self, operation: str, job_id: str, nodes: tuple[str, ...] = ()) -> str:
        """The exact command or request that one of requeue, requeue_hold, set_excluded_nodes, release would run."""
        ...
