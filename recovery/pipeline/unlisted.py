"""Part of poll: jobs that were in the last picture and are in this one no more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.types import TERMINAL_STATES, JobState
from recovery.models import Attempt, Cluster, Job
from recovery.pipeline.bulk import chunks

ARRAY_STARTED = "ArrayStarted"  # the reason of an array's waiting record when its last task has become a job of its own

ASKING = "Slurm no longer lists the job; accounting has not said yet how it ended."
NOBODY_TO_ASK = "Slurm no longer lists the job, and there is no accounting that could tell how it ended."


class Listed(NamedTuple):
    """A job of the last picture, as little of it as tells whether there is anything to do. Of 10,000 one is light."""

    pk: int
    job_id: str
    state: str
    key: str

    @property
    def is_open(self) -> bool:
        return self.state not in TERMINAL_STATES

    @property
    def is_running(self) -> bool:
        return self.is_open and self.state not in (JobState.PENDING, JobState.UNKNOWN)


def listed_jobs(cluster: Cluster) -> dict[str, Listed]:
    """The jobs of the cluster's last picture, by job id; one query."""
    rows = Job.objects.filter(cluster=cluster, listed=True).order_by("first_submitted_at")
    found = map(Listed._make, rows.values_list("pk", "job_id", "state", "record_key"))
    return {row.job_id: row for row in found}


def store_unlisted(gone: Sequence[Listed], listed: Collection[str], *, accounting: bool, now: datetime) -> None:
    """Ended jobs may leave the list; of one that had not ended the state is unknown from now on.

    `listed`: the ids of this picture.
    """
    for some in chunks([row.pk for row in gone]):
        Job.objects.filter(pk__in=some).update(listed=False, record_key="")
    arrays = {job_id.partition("_")[0] for job_id in listed if "_" in job_id}
    lost: list[Listed] = []
    split: list[int] = []
    for row in gone:
        if row.state == JobState.PENDING and row.job_id in arrays:
            split.append(row.pk)
        elif row.is_open:
            lost.append(row)
    _end_array_records(split, now=now)
    _lose(lost, accounting=accounting, now=now)


def _end_array_records(keys: Sequence[int], *, now: datetime) -> None:
    """The waiting record of an array is gone when its last task has started: nothing vanished, and nothing failed."""
    for some in chunks(keys):
        Job.objects.filter(pk__in=some).update(state=JobState.COMPLETED, state_reason=ARRAY_STARTED, seen_at=now)
        Attempt.objects.filter(job_id__in=some, closed_at=None).update(
            state=JobState.COMPLETED, state_reason=ARRAY_STARTED, seen_at=now, ended_at=now, closed_at=now,
            next_look_at=None,
        )  # fmt: skip


def _lose(rows: Sequence[Listed], *, accounting: bool, now: datetime) -> None:
    reason = ASKING if accounting else NOBODY_TO_ASK
    for some in chunks([row.pk for row in rows]):
        jobs = Job.objects.filter(pk__in=some).exclude(state__in=TERMINAL_STATES)
        jobs.update(state=JobState.UNKNOWN, vanished_at=now, unknown_reason=reason)
        lost = Attempt.objects.filter(job_id__in=some, closed_at=None).exclude(state__in=TERMINAL_STATES)
        lost.update(state=JobState.UNKNOWN, seen_at=now, next_look_at=now)
    audit.record_all(
        "job.vanished",
        [(row.pk, f"Slurm no longer lists job {row.job_id}; how it ended is unknown.") for row in rows],
        actor=SYSTEM, at=now, subject_kind="job",
    )  # fmt: skip
