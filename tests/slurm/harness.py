"""What the contract suite needs of a back end under test: a small cluster it may break, and a way to let time pass.

The simulator provides `tests/slurm/simulator/harness.py: make_harness(tmp_path) -> Harness`; the Slurm commands get one
over a real lab (`tests/slurm/lab_fixture.py`). The suite (`test_contract.py`) runs every test on both.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeVar

from recovery.slurm.base import SlurmClient

T = TypeVar("T")


class Harness(Protocol):
    """One cluster with at least three idle nodes of one GPU-less kind, all in one partition, and a client on it.

    Jobs are submitted by an ordinary path of the back end (sbatch, the simulator's own submit), never by the client:
    the product submits nothing. Ids come back as the client names them.
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
