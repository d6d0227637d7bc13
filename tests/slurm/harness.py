"""What the contract suite needs of a back end under test: a small cluster it may break, and a way to let time pass.

Everything that a Harness does or tells it does by its own means (the lab's scontrol, the simulator's own world), never
through the client under test: a back end can't vouch for itself. The list of back ends is in `back_ends.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from recovery.slurm.base import SlurmClient

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTruth:
    """A job as its cluster has it."""

    state: str  # Slurm's base state: "PENDING"
    held: bool  # priority 0
    restart_count: int
    time_limit_s: float | None
    name: str
    user: str
    account: str
    partition: str
    comment: str
    admin_comment: str
    work_dir: str
    excluded_nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeTruth:
    drained: bool  # takes no new job, whatever runs on it
    down: bool
    reason: str


class Harness(Protocol):
    """One cluster with at least three idle nodes of one kind, all in one partition, and a client on it.

    Jobs are submitted by an ordinary path of the back end (sbatch, the simulator's own submit), not by the client.
    Ids come back as the client names them.
    """

    @property
    def client(self) -> SlurmClient: ...

    @property
    def user(self) -> str:
        """The user name under which `submit` submits and `cancel` cancels."""
        ...

    def submit(
        self,
        *,
        seconds: float,
        nodes: int = 1,
        exit_code: int = 0,
        requeue: bool = True,
        name: str = "train",
        comment: str = "",
        stdout: str = "",
    ) -> str:
        """Submit a job that runs for `seconds` on `nodes` whole nodes and ends with `exit_code`.

        `stdout` is the --output value with Slurm's own patterns, "" for Slurm's default; the working folder is below
        the harness's own. With `requeue` False a node failure ends the job.
        """
        ...

    def cancel(self, job_id: str) -> None:
        """Cancel as the job's own user does (scancel)."""
        ...

    def submit_array(self, *, tasks: int, seconds: float) -> list[str]:
        """An array of one-node tasks that all run at once: their ids "<array>_<task>", or [] where there are none."""
        ...

    def submit_het(self, *, components: int, seconds: float) -> list[str]:
        """A heterogeneous job of one-node components: their ids, "<job>+<offset>"; [] where there are none."""
        ...

    def user_hold(self, job_id: str) -> None:
        """Hold as the job's own user does (scontrol uhold)."""
        ...

    def admin_hold(self, job_id: str) -> None: ...

    def admin_release(self, job_id: str) -> None: ...

    def admin_requeue(self, job_id: str) -> None: ...

    def admin_drain(self, name: str, reason: str) -> None: ...

    def admin_resume(self, name: str) -> None: ...

    def reserve(self, name: str, nodes: tuple[str, ...], *, maintenance: bool) -> None:
        """Set nodes aside from now on for an hour, for the user `user`; close() takes it away again."""
        ...

    def job_truth(self, job_id: str) -> JobTruth | None:
        """The job as the cluster has it now; None where it knows none of that id."""
        ...

    def node_truth(self, name: str) -> NodeTruth: ...

    def switch_of(self, name: str) -> str:
        """The leaf that the node hangs on, of at least two."""
        ...

    def script_of(self, job_id: str) -> str:
        """The batch script that the cluster keeps for the job."""
        ...

    def environment_of(self, job_id: str) -> Mapping[str, str]:
        """The environment that was submitted with the job."""
        ...

    def fail_node(self, name: str) -> None:
        """Make the scheduler lose the node: its jobs lose it too. Returns once the order was given."""
        ...

    def advance(self, seconds: float) -> None:
        """Let that much of the cluster's time pass: a simulator moves its clock, a real cluster is waited for."""
        ...

    def now(self) -> datetime:
        """The cluster's own time, timezone-aware, UTC."""
        ...

    def close(self) -> None:
        """End what it started, so that the next test finds idle nodes."""
        ...


def wait_until(harness: Harness, look: Callable[[], T], *, within_s: float = 40, step_s: float = 0.25) -> T:
    """The first true answer of `look`, asked every `step_s` of the cluster's time; AssertionError with the last one."""
    answer = look()
    for _ in range(int(within_s / step_s)):
        if answer:
            return answer
        harness.advance(step_s)
        answer = look()
    assert answer, f"not seen within {within_s:g} s of the cluster's time; the last answer was {answer!r}"
    return answer
