"""All jobs out of `squeue` as text: ten to fifteen times cheaper than its JSON, and with every field that we need.

What users write (names, comments, paths) may hold any byte, and so could imitate any fixed separator. Therefore each
question has a separator of its own, made by chance, which squeue puts behind every field. It is handed over in the
environment (SQUEUE_FORMAT2), which other users can't see. A record is as many fields as were asked for: one more or one
less, and the whole answer counts as none.

Three things squeue can't tell. 22.05 has no long name for the excluded nodes, so they are asked for beside it (%x: node
names that slurmctld has checked). The nodes of a job that is ending become fewer, first of all by the one that was
lost: all of them stand in `scontrol show job --details` (cli_scontrol.allocated_nodes). And whether somebody has put a
hold of their own on a job that was requeued held, only its JSON tells (cli_json.reasons).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from recovery.core.types import JobState
from recovery.slurm.federation import is_of_one
from recovery.slurm.json_values import BadAnswer, clean
from recovery.slurm.states import REQUEUED_IN_HELD_STATE, job_state

OPTIONS = ("--noheader", "--all", "--local", "--noconvert", "--states=all")
FORMAT_VARIABLE = "SQUEUE_FORMAT2"
EXCLUDED_FORMAT = "%A|%x"
NO_EXCLUDED_FIELD = "Invalid job format specification: ExcNodes"  # squeue of 22.05 goes on without it

# Our name for a field, and squeue's (squeue(1), --Format). SLUID and ExcNodes: later releases; empty in 22.05.
FIELDS: dict[str, str] = {
    "raw_id": "JobID",
    "array_id": "ArrayJobID",
    "array_task": "ArrayTaskID",
    "het_id": "HetJobID",
    "het_offset": "HetJobOffset",
    "state": "State",
    "reason": "Reason",
    "submitted": "SubmitTime",
    "restarts": "RestartCnt",
    "priority": "PriorityLong",
    "requeue": "Requeue",
    "eligible": "EligibleTime",
    "start": "StartTime",
    "end": "EndTime",
    "exit_code": "exit_code",
    "nodes": "NodeList",
    "node_count": "NumNodes",
    "tasks": "NumTasks",
    "required": "ReqNodes",
    "tres": "tres-alloc",  # of a job that waits: what it asks for
    "tres_per_job": "tres-per-job",
    "tres_per_node": "tres-per-node",
    "tres_per_task": "tres-per-task",
    "time_limit": "TimeLimit",
    "user": "UserName",
    "uid": "UserID",
    "account": "Account",
    "partition": "Partition",
    "qos": "QOS",
    "batch": "BatchFlag",
    "batch_host": "BatchHost",
    "reservation": "Reservation",
    "features": "Feature",
    "name": "Name",
    "comment": "Comment",
    "admin_comment": "admin_comment",
    "work_dir": "WorkDir",
    "stdout": "STDOUT",
    "stderr": "STDERR",
    "excluded": "ExcNodes",
    "unique_id": "SLUID",
}


class Listing(NamedTuple):
    """What squeue said: to its long question, and to the one beside it where that was needed."""

    text: str
    parts: list[str]  # the same, cut at its separator
    beside: str | None
    tried: str

    def digest(self, reasons: Mapping[str, str]) -> str:
        """The same for the same answers, whatever the separator was."""
        digest = hashlib.sha256("\0".join(self.parts).encode())
        digest.update(repr((self.beside, sorted(reasons.items()))).encode(errors="replace"))
        return digest.hexdigest()

    @property
    def is_plain(self) -> bool:
        """Whether it tells everything itself, so that the same answer means the same jobs."""
        return bool(self.text) and REQUEUED_IN_HELD_STATE not in self.text

    def rows(self) -> list[Row]:
        """Raises BadAnswer."""
        found = rows_of(self.parts)
        return found if self.beside is None else with_excluded(found, excluded_nodes(self.beside))


class Row(NamedTuple):
    """One job, each field as squeue writes it."""

    raw_id: str
    array_id: str
    array_task: str
    het_id: str
    het_offset: str
    state: str
    reason: str
    submitted: str
    restarts: str
    priority: str
    requeue: str
    eligible: str
    start: str
    end: str
    exit_code: str
    nodes: str
    node_count: str
    tasks: str
    required: str
    tres: str
    tres_per_job: str
    tres_per_node: str
    tres_per_task: str
    time_limit: str
    user: str
    uid: str
    account: str
    partition: str
    qos: str
    batch: str
    batch_host: str
    reservation: str
    features: str
    name: str
    comment: str
    admin_comment: str
    work_dir: str
    stdout: str
    stderr: str
    excluded: str
    unique_id: str

    @property
    def task(self) -> str:
        """The number of an array's task; "" for what is none, and for the tasks that wait together."""
        return self.array_task if is_number(self.array_task) else ""

    @property
    def job_id(self) -> str:
        """ "4711", "4711_3" for an array task, "4711+1" for a component: as Slurm writes them.

        The tasks of an array that were never started share one record, whose id is the array's own; each gets a record
        of its own when it starts.
        """
        if self.task:
            return f"{self.array_id}_{self.task}"
        in_het = is_number(self.het_id) and self.het_id != "0"
        return f"{self.het_id}+{self.het_offset}" if in_het else self.raw_id


# --- the question ----------------------------------------------------------------------------------------------------


def new_separator() -> str:
    """48 bits of chance behind a letter: squeue would take a digit for the field's width."""
    return "~" + secrets.token_urlsafe(6)


def format_of(separator: str) -> str:
    """The value of SQUEUE_FORMAT2. Width 0 is as wide as the value."""
    return ",".join(f"{name}:0{separator}" for name in FIELDS.values())


# --- the answer ------------------------------------------------------------------------------------------------------


def cut(answer: str, separator: str) -> list[str]:
    """The fields of all jobs, one after the other, and what stands behind the last separator."""
    return clean(answer).split(separator)


def rows(answer: str, separator: str) -> list[Row]:
    """Every job of the answer. Raises BadAnswer where it is not whole records and nothing else."""
    return rows_of(cut(answer, separator))


def rows_of(parts: Sequence[str]) -> list[Row]:
    """As `rows`, of an answer that is cut already."""
    *fields, rest = parts
    width = len(Row._fields)
    if not fields:
        if rest:
            raise BadAnswer(f"it is no list of jobs: {rest[:200]!r}")
        return []
    if rest != "\n" or len(fields) % width:
        raise BadAnswer("it ends in the middle of a job")
    for start in range(0, len(fields), width):
        fields[start] = _raw_id(fields[start], first=not start)
    return [Row._make(fields[start : start + width]) for start in range(0, len(fields), width)]


def _raw_id(value: str, *, first: bool) -> str:
    """Each record ends with a line end, behind the last separator: before the first field of the next one."""
    raw_id = value if first else value[1:]
    if not is_number(raw_id) or not (first or value.startswith("\n")):
        raise BadAnswer(f"{value[:50]!r} is no job id")
    return raw_id


def with_excluded(found: Sequence[Row], excluded: Mapping[str, str]) -> list[Row]:
    """With the excluded nodes of each job by raw id. Raises BadAnswer as `in_both`."""
    known = in_both(found, excluded)
    return [row._replace(excluded=excluded[row.raw_id]) if excluded[row.raw_id] else row for row in known]


def in_both(found: Sequence[Row], told: Mapping[str, object]) -> list[Row]:
    """The jobs of a list that a second one, by raw id, has too. One that it lacks had ended, or only waited here beside
    other clusters of a federation, and has left in between.

    Raises BadAnswer where it had not: that is half an answer, as is an empty one.
    """
    known = [row for row in found if row.raw_id in told]
    if len(known) < len(found):
        lacking = [row for row in found if row.raw_id not in told and not state_of(row.state).is_terminal]
        missed = next((row.raw_id for row in lacking if not (told and _may_be_copy(row))), "")
        if missed:
            raise BadAnswer(f"job {missed} is in one list and not in the other")
    return known


def _may_be_copy(row: Row) -> bool:
    return is_of_one(row.raw_id) and state_of(row.state) is JobState.PENDING


def excluded_nodes(answer: str) -> dict[str, str]:
    """The excluded nodes of each job as a hostlist, by the job's raw id."""
    found = {}
    for line in clean(answer).splitlines():
        raw_id, bar, nodes = line.partition("|")
        if not bar or not is_number(raw_id):
            raise BadAnswer(f"{line[:100]!r} is no job with its excluded nodes")
        found[raw_id] = nodes
    if answer and not answer.endswith("\n"):
        raise BadAnswer("it ends in the middle of a line")
    return found


def ending(found: Sequence[Row]) -> list[Row]:
    """Those whose list of nodes may already be too short."""
    return [row for row in found if state_of(row.state) is JobState.COMPLETING]


def held_by_requeue(found: Sequence[Row]) -> list[Row]:
    """Those that a held requeue holds, and perhaps somebody else besides."""
    return [row for row in found if row.reason == REQUEUED_IN_HELD_STATE]


@lru_cache(maxsize=256)
def state_of(word: str) -> JobState:
    return job_state((word,))


def is_number(value: str, digits: int = 10) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= digits
