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

import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from recovery.core.types import JobState
from recovery.slurm import hostlist, job_paths
from recovery.slurm.base import JobRecord
from recovery.slurm.job_gpus import gpus_of
from recovery.slurm.job_paths import PathFacts
from recovery.slurm.json_values import MAX_COUNT, BadAnswer, clean
from recovery.slurm.names import user_name
from recovery.slurm.states import REQUEUED_IN_HELD_STATE, job_state, state_reason

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

_NOTHING = frozenset({"", "N/A", "n/a", "(null)", "NONE", "None", "Unknown"})
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_TIME_LIMIT = re.compile(r"(?:(\d{1,7})-)?(?:(\d{1,2}):)?(\d{1,2}):(\d{2})")
_YEAR_S = 365 * 86_400.0  # slurmctld's stand-in for an unlimited time limit once the job runs
_NOBODY, _NOBODY_UID = "nobody", "65534"  # squeue's word for a user that it doesn't know


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
        return self.array_task if _is_number(self.array_task) else ""

    @property
    def job_id(self) -> str:
        """ "4711", "4711_3" for an array task, "4711+1" for a component: as Slurm writes them.

        The tasks of an array that were never started share one record, whose id is the array's own; each gets a record
        of its own when it starts.
        """
        if self.task:
            return f"{self.array_id}_{self.task}"
        in_het = _is_number(self.het_id) and self.het_id != "0"
        return f"{self.het_id}+{self.het_offset}" if in_het else self.raw_id


# --- the question ----------------------------------------------------------------------------------------------------


def new_separator() -> str:
    """48 bits of chance behind a letter: squeue would take a digit for the field's width."""
    return "~" + secrets.token_urlsafe(6)


def format_of(separator: str) -> str:
    """The value of SQUEUE_FORMAT2. Width 0 is as wide as the value."""
    return ",".join(f"{name}:0{separator}" for name in FIELDS.values())


# --- the answer ------------------------------------------------------------------------------------------------------


def rows(answer: str, separator: str) -> list[Row]:
    """Every job of the answer. Raises BadAnswer where it is not whole records and nothing else."""
    parts = clean(answer).split(separator)
    rest, width = parts.pop(), len(Row._fields)
    if not parts:
        if rest:
            raise BadAnswer(f"it is no list of jobs: {rest[:200]!r}")
        return []
    if rest != "\n" or len(parts) % width:
        raise BadAnswer("it ends in the middle of a job")
    for start in range(0, len(parts), width):
        parts[start] = _raw_id(parts[start], first=not start)
    return [Row._make(parts[start : start + width]) for start in range(0, len(parts), width)]


def _raw_id(value: str, *, first: bool) -> str:
    """Each record ends with a line end, behind the last separator: before the first field of the next one."""
    raw_id = value if first else value[1:]
    if not _is_number(raw_id) or not (first or value.startswith("\n")):
        raise BadAnswer(f"{value[:50]!r} is no job id")
    return raw_id


def with_excluded(found: Sequence[Row], excluded: Mapping[str, str]) -> list[Row]:
    """With the excluded nodes of each job by raw id. A job that these lack has left in between."""
    known = [row for row in found if row.raw_id in excluded]
    return [row._replace(excluded=excluded[row.raw_id]) if excluded[row.raw_id] else row for row in known]


def excluded_nodes(answer: str) -> dict[str, str]:
    """The excluded nodes of each job as a hostlist, by the job's raw id."""
    found = {}
    for line in clean(answer).splitlines():
        raw_id, bar, nodes = line.partition("|")
        if not bar or not _is_number(raw_id):
            raise BadAnswer(f"{line[:100]!r} is no job with its excluded nodes")
        found[raw_id] = nodes
    if answer and not answer.endswith("\n"):
        raise BadAnswer("it ends in the middle of a line")
    return found


def record(row: Row, *, allocated: Mapping[str, tuple[str, ...]], reasons: Mapping[str, str]) -> JobRecord:
    """The job in our names. Raises BadAnswer.

    By raw id, `allocated` has all nodes of the jobs that are ending, `reasons` the words for those held by a requeue.
    """
    state = _state(row.state)
    submitted = _time(row.submitted)
    if submitted is None:
        raise BadAnswer(f"job {row.raw_id} has no submit time")
    waits, ended = state is JobState.PENDING, state.is_terminal
    nodes = allocated.get(row.raw_id) or _nodes(row.nodes)
    node_count = len(nodes) or _node_count(row.node_count)
    exit_code, exit_signal = _exit(row.exit_code) if ended else (None, None)
    user = _user(row)
    stdout, stderr = _outputs(row, user=user, nodes=nodes)
    return JobRecord(
        job_id=row.job_id,
        name=row.name,
        user=user,
        state=state,
        submitted_at=submitted,
        state_reason=reasons.get(row.raw_id) or state_reason(row.reason),
        account=_text(row.account),
        partition=_text(row.partition),
        restart_count=_count(row.restarts),
        requeueable=row.requeue == "1",
        held=waits and row.priority == "0",
        eligible_at=_time(row.eligible),
        started_at=None if waits else _time(row.start),  # of a waiting job: an estimate
        ended_at=_time(row.end) if ended else None,  # of a running job: when its limit ends
        exit_code=exit_code,
        exit_signal=exit_signal,
        nodes=nodes,
        node_count=node_count,
        excluded_nodes=_nodes(row.excluded),
        required_nodes=_nodes(row.required),
        gpus=_gpus(row.tres, row.tres_per_job, row.tres_per_node, row.tres_per_task, row.tasks, node_count),
        time_limit_s=_time_limit_s(row.time_limit),
        comment=_text(row.comment),
        work_dir=row.work_dir,
        stdout=stdout,
        stderr=stderr,
        batch_host=_text(row.batch_host),
        qos=_text(row.qos),
        features=_text(row.features),
        reservation=_text(row.reservation),
        admin_comment=_text(row.admin_comment),
        unique_id=_text(row.unique_id),
    )


def ending(found: Sequence[Row]) -> list[Row]:
    """Those whose list of nodes may already be too short."""
    return [row for row in found if _state(row.state) is JobState.COMPLETING]


def held_by_requeue(found: Sequence[Row]) -> list[Row]:
    """Those that a held requeue holds, and perhaps somebody else besides."""
    return [row for row in found if row.reason == REQUEUED_IN_HELD_STATE]


# --- single fields ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _state(word: str) -> JobState:
    return job_state((word,))


def _is_number(value: str, digits: int = 10) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= digits


def _text(value: str) -> str:
    return "" if value in _NOTHING else value


def _count(value: str) -> int:
    if not _is_number(value) or int(value) > MAX_COUNT:
        raise BadAnswer(f"{value[:50]!r} is no count")
    return int(value)


@lru_cache(maxsize=256)
def _node_count(value: str) -> int:
    """ "4", or the least of "2-4"; 0 where it can't be told."""
    first = value.partition("-")[0]
    return int(first) if _is_number(first, 6) else 0


@lru_cache(maxsize=65_536)
def _time(value: str) -> datetime | None:
    if value in _NOTHING:
        return None
    if not _TIME.fullmatch(value):
        raise BadAnswer(f"{value[:50]!r} is no time")
    try:
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    except ValueError as error:
        raise BadAnswer(f"{value[:50]!r} is no time") from error


def _nodes(value: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(value)
    except hostlist.BadHostlist as error:
        raise BadAnswer(str(error)) from error


@lru_cache(maxsize=1024)
def _exit(value: str) -> tuple[int | None, int | None]:
    """Exit code and signal. 22.05 gives a raw wait status, later releases "code:signal"."""
    code, colon, signal = value.partition(":")
    if not _is_number(code) or (colon and not _is_number(signal)):
        raise BadAnswer(f"{value[:50]!r} is no exit code")
    if colon:
        return int(code) & 0xFF, (int(signal) & 0x7F) or None
    return (int(code) >> 8) & 0xFF, (int(code) & 0x7F) or None


@lru_cache(maxsize=4096)
def _time_limit_s(value: str) -> float | None:
    """ "1-12:00:00", "90:00"; None for Slurm's words for unlimited and not set."""
    if value.isalpha() or value in _NOTHING or value == "NOT_SET":
        return None
    match = _TIME_LIMIT.fullmatch(value)
    if match is None:
        raise BadAnswer(f"{value[:50]!r} is no time limit")
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    total = float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    return None if total in (0.0, _YEAR_S) else total


@lru_cache(maxsize=4096)
def _gpus(tres: str, per_job: str, per_node: str, per_task: str, tasks: str, node_count: int) -> int:
    fields = {"tres_alloc_str": tres, "tres_per_job": per_job, "tres_per_node": per_node, "tres_per_task": per_task}
    return gpus_of(fields | {"tasks": _node_count(tasks)}, node_count=node_count)


def _user(row: Row) -> str:
    if not _is_number(row.uid):
        raise BadAnswer(f"job {row.raw_id} has no user")
    unknown = not row.user or (row.user == _NOBODY and row.uid != _NOBODY_UID)
    return user_name(int(row.uid)) if unknown else row.user


def _outputs(row: Row, *, user: str, nodes: tuple[str, ...]) -> tuple[str, str]:
    """Paths of stdout and stderr; "" for a stderr that goes where stdout goes, and where there is no single file.

    Of a batch job that could not be launched at once BatchFlag counts the tries: 2, 3, ….
    """
    in_array = row.array_task not in _NOTHING
    if row.batch == "0" or (in_array and not row.task):
        return "", ""
    facts = PathFacts(
        raw_id=int(row.raw_id),
        array_id=_count(row.array_id) if in_array else 0,
        array_task=_count(row.task) if row.task else None,
        name=row.name,
        user=user,
        node=_text(row.batch_host) or (nodes[0] if nodes else ""),
        work_dir=row.work_dir,
    )
    stdout = _path(row.stdout, facts) or job_paths.expand(job_paths.default_pattern(facts), facts)
    stderr = _path(row.stderr, facts)
    return stdout, "" if stderr == stdout else stderr


def _path(written: str, facts: PathFacts) -> str:
    """A file of the job.

    For one that names none 22.05 makes up a name with the number of the job's record, which of an array's task is not
    the file that is written.
    """
    pattern = _text(written)
    if pattern == f"{facts.work_dir}/slurm-{facts.raw_id}.out":
        pattern = job_paths.default_pattern(facts)
    return job_paths.expand(pattern, facts)
