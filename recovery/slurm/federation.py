"""Jobs of a federation: which cluster a record speaks of.

Each cluster of a federation has records of jobs that are not its own to judge (measured on 22.05; docs/back-ends.md):

- The *origin*, where a job was submitted, keeps a record of it as long as it lives: REVOKED while another cluster has
  the job, with a start that moves and the exit code of that other cluster.
- Every other cluster that may start it has a *copy*, which waits. When the job starts elsewhere, or is held, that
  copy's id becomes Slurm's NO_VAL and its state REVOKED; it goes within a minute. So does the record of an execution
  that was put back. A copy may also FAIL (BadConstraints) where its cluster can't run it: the job itself lives on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from recovery.core.types import JobState
from recovery.slurm.base import ENDED_ELSEWHERE, IS_ELSEWHERE, JobRecord
from recovery.slurm.json_values import BadAnswer

# Above so many the id of a job carries the number of its origin: no job outside of a federation has one.
FIRST_ID = 1 << 26
NO_ID = 2**32 - 2  # Slurm's NO_VAL, which stands for the id of a record that was revoked
_NONE = frozenset({"", "NA", "N/A", "(null)"})


class Place(NamedTuple):
    """What Slurm says of one job: the cluster that answers, the one it was submitted to, and where it is now."""

    here: str
    origin: str
    active: str  # names, between commas

    @property
    def elsewhere(self) -> str:
        """Its origin, where that is another cluster than the one that answers."""
        return "" if self.origin in _NONE or self.origin == self.here else self.origin

    @property
    def is_copy(self) -> bool:
        return bool(self.elsewhere) and self.here not in self.active.split(",")


def is_of_one(raw_id: str) -> bool:
    """Whether only a job of a federation can have this number."""
    return int(raw_id) >= FIRST_ID


def with_origins(records: Iterable[JobRecord], numbers: Mapping[int, str], *, here: str) -> list[JobRecord]:
    """Accounting doesn't tell where a job was submitted; its id does, by the number of a cluster. `numbers`: their
    names, as far as they are told. One that is not is another cluster's than `here`: nobody knows where its jobs are.
    """
    return [
        dataclasses.replace(record, federated=True, origin=_origin(record.raw_id, numbers, here))
        if record.raw_id and is_of_one(record.raw_id)
        else record
        for record in records
    ]


def _origin(raw_id: str, numbers: Mapping[int, str], here: str) -> str:
    number = int(raw_id) // FIRST_ID
    name = numbers.get(number, "")
    return "" if name and name == here else name or f"number {number}"


def never_ran(raw_id: str, state: JobState, *, nodes: tuple[str, ...]) -> bool:
    """Whether accounting's row is of a copy that FAILED because its cluster can't run the job, which lives on."""
    return state is JobState.FAILED and not nodes and is_of_one(raw_id)


def _ran(record: JobRecord) -> bool:
    if record.state in (JobState.PENDING, JobState.REVOKED):
        return False
    return bool(record.nodes) or not record.state.is_terminal


def placed(record: JobRecord, place: Place | None) -> JobRecord:
    """The record with what its place means. Where another cluster has the job, nothing of it ran here.

    What runs here or has run here is no copy, whatever else is said of it. Raises BadAnswer for a place of nowhere.
    """
    if place is None or place.origin in _NONE:
        return record
    if place.here in _NONE:
        raise BadAnswer(f"job {record.job_id} is of a federation, and its record does not name this cluster")
    copy = place.is_copy and not _ran(record)
    told = dataclasses.replace(record, federated=True, origin=place.elsewhere, copy=copy)
    if told.state is not JobState.REVOKED and not (told.copy and told.state.is_terminal):
        return told
    start, end = record.started_at, record.ended_at
    over = end if end is not None and start is not None and end <= start else None  # else its limit, or not known
    return dataclasses.replace(
        told, state=JobState.REVOKED, state_reason=ENDED_ELSEWHERE if over else IS_ELSEWHERE, started_at=None,
        ended_at=over, exit_code=None, exit_signal=None, nodes=(),
    )  # fmt: skip
