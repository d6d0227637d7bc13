"""Other jobs of a failed job's run: which of them is somebody's own restart of it, and which is none.

Two executions must never write to one checkpoint folder. So where the run has been submitted or started anew since the
fault, whoever did it, the old job is not restarted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from recovery.core.types import JobState

ALIVE = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})
# … on this cluster or, by this cluster's word, on another one of its federation, as long as no end is known
SOMEWHERE = ALIVE | {JobState.REVOKED}
WAITS_FOR_ANOTHER = "Dependency"  # Slurm's word while --dependency (afterany, singleton, …) is not fulfilled
NEVER = "DependencyNeverSatisfied"


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherJob:
    """`started_at`: of its present execution, None while it waits. `ran_beside`: it ran before the fault already."""

    job_id: str
    state: JobState
    state_reason: str = ""
    held: bool = False
    started_at: datetime | None = None
    ran_beside: bool = False


def took_up(job_id: str, others: Sequence[OtherJob], *, failed_at: datetime) -> OtherJob | None:
    """The one of `others` that goes on with the run instead of `job_id`; None where there is none.

    None are: what ran beside it before the fault; tasks of the same array and components of the same heterogeneous job,
    which were submitted together; the next job of a chain, as long as Slurm lets it wait for another one.
    """
    found = [other for other in others if _goes_on(other, job_id, failed_at=failed_at)]
    return min(found, key=lambda other: (other.state is JobState.PENDING, other.held), default=None)


def chained(job_id: str, others: Sequence[OtherJob]) -> OtherJob | None:
    """The next job of a chain: it waits for another one, and may start as soon as `job_id` is ended for good."""
    waits = (o for o in others if o.state is JobState.PENDING and o.state_reason == WAITS_FOR_ANOTHER)
    return next((other for other in waits if not _together(other.job_id, job_id)), None)


def said_of(other: OtherJob) -> str:
    """As a clause."""
    if other.state is JobState.REVOKED:
        return f"another cluster of the federation has job {other.job_id} of this run"
    if other.state is not JobState.PENDING:
        return f"job {other.job_id} of this run has started since the fault"
    return f"job {other.job_id} of this run already waits{', held' if other.held else ' in the queue'}"


def _goes_on(other: OtherJob, job_id: str, *, failed_at: datetime) -> bool:
    if other.state not in SOMEWHERE or other.ran_beside or _together(other.job_id, job_id):
        return False
    if other.state is JobState.PENDING:
        return other.state_reason not in (WAITS_FOR_ANOTHER, NEVER)
    return other.started_at is None or other.started_at >= failed_at


def _together(one: str, other: str) -> bool:
    """4711_3 and 4711_4 of an array, 4711+0 and 4711+1 of a heterogeneous job."""
    return re.split(r"[_+]", one)[0] == re.split(r"[_+]", other)[0]
