"""Whole jobs out of `sacct`: those that ended in a span of time, with what a job's row needs.

What users write (names, comments, paths) is asked for here, so each question has a separator of its own, made by
chance, as squeue's (cli_squeue.py). Every job in the answer had ended before the question was put: nobody can write the
separator into it any more. Steps are not asked for: a busy job has thousands.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from recovery.core.types import JobState
from recovery.slurm import federation, hostlist, job_paths
from recovery.slurm.base import JobRecord
from recovery.slurm.job_gpus import gpus_of
from recovery.slurm.job_paths import PathFacts
from recovery.slurm.json_values import MAX_COUNT, BadAnswer, clean, time_of
from recovery.slurm.names import is_job_id, user_name
from recovery.slurm.sacct import attempt_state
from recovery.slurm.states import ENDS

# Our name for a column, and sacct's. The first one is a number and nothing else, which tells where a row begins.
COLUMNS: dict[str, str] = {
    "raw_id": "JobIDRaw",
    "job_id": "JobID",
    "state": "State",
    "submitted": "Submit",
    "eligible": "Eligible",
    "start": "Start",
    "end": "End",
    "exit_code": "ExitCode",
    "nodes": "NodeList",
    "node_count": "NNodes",
    "tres": "AllocTRES",
    "tres_asked": "ReqTRES",
    "time_limit": "TimelimitRaw",
    "user": "User",
    "uid": "UID",
    "account": "Account",
    "partition": "Partition",
    "qos": "QOS",
    "reservation": "Reservation",
    "features": "Constraints",
    "name": "JobName",
    "comment": "Comment",
    "work_dir": "WorkDir",
}
LATER = {"stdout": "StdOut", "stderr": "StdErr"}  # not in 22.05

NOTHING = frozenset({"", "None", "Unknown", "None assigned", "(null)"})
YEAR_MINUTES = 365 * 24 * 60  # slurmctld's stand-in for an unlimited time limit once the job runs
_EXIT = re.compile(r"(\d{1,5}):(\d{1,3})")
Row = dict[str, str]


def columns(offered: str) -> dict[str, str]:
    """Those to be asked for, by what `sacct --helpformat` lists."""
    known = frozenset(offered.split())
    return COLUMNS | {name: column for name, column in LATER.items() if column in known}


def arguments(start: datetime, end: datetime, asked: Sequence[str], separator: str) -> list[str]:
    """The arguments for sacct, all users. Times are read and written in UTC (the caller sets TZ)."""
    options = [
        "--local",
        "--allusers",
        "--duplicates",
        "--allocations",
        "--noheader",
        "--parsable",
        f"--delimiter={separator}",
    ]
    options += [f"--state={','.join(ENDS)}", f"--starttime={_written(start)}", f"--endtime={_written(end, up=True)}"]
    return [*options, f"--format={','.join(asked)}"]


def ended(answer: str, names: Sequence[str], separator: str, *, start: datetime, end: datetime) -> list[JobRecord]:
    """Every execution that ended in this time, the first to end first. Raises BadAnswer."""
    rows = (row for row in _rows(answer, names, separator) if is_job_id(row["job_id"]))  # "6_[1-4]" never were jobs
    records = [record for row in rows if (record := _record(row)) is not None]
    return numbered(record for record in records if record.ended_at is not None and start <= record.ended_at <= end)


def numbered(records: Iterable[JobRecord]) -> list[JobRecord]:
    """By their ends, each with its place among those of its job as restart count, where it has none of its own."""
    places: dict[str, int] = {}
    told: list[JobRecord] = []
    for record in sorted(records, key=lambda record: record.submitted_at):
        place = max(places.get(record.job_id, 0), record.restart_count)
        places[record.job_id] = place + 1
        told.append(dataclasses.replace(record, restart_count=place))
    return sorted(told, key=_end)


def _end(record: JobRecord) -> datetime:
    return record.ended_at or record.submitted_at


def _rows(answer: str, names: Sequence[str], separator: str) -> list[Row]:
    """Each row ends with the separator and a line end, which stands before the first column of the next one."""
    parts = clean(answer).split(separator)
    rest, width = parts.pop(), len(names)
    if rest.strip("\n") or len(parts) % width:
        raise BadAnswer(f"it ends in the middle of a job: {rest[:200]!r}")
    found = [dict(zip(names, parts[at : at + width], strict=True)) for at in range(0, len(parts), width)]
    for place, row in enumerate(found):
        begins = row["raw_id"].removeprefix("\n") if place else row["raw_id"]
        if not (begins.isascii() and begins.isdigit() and len(begins) <= 10) or (place and begins == row["raw_id"]):
            raise BadAnswer(f"a row does not begin with a job's number: {row['raw_id'][:200]!r}")
        row["raw_id"] = begins
    return found


def _record(row: Row) -> JobRecord | None:
    """None for what has not ended."""
    state, ended_at = attempt_state(row["state"]), _time(row["end"])
    if not state.is_terminal or ended_at is None:
        return None
    submitted, exit_code = _time(row["submitted"]), _EXIT.fullmatch(row["exit_code"] or "0:0")
    if submitted is None or exit_code is None:
        raise BadAnswer(f"job {row['job_id']} has no submit time or no exit code")
    nodes = _nodes(row["nodes"])
    if federation.never_ran(row["raw_id"], state, nodes=nodes):
        state = JobState.REVOKED
    ran = state is not JobState.REVOKED  # else another cluster of the federation has it, and its exit code is of there
    user = _text(row["user"]) or _user(row["uid"])
    stdout, stderr = (_path(row, row.get(name, ""), user=user, nodes=nodes) for name in ("stdout", "stderr"))
    node_count = len(nodes) or _number(row["node_count"])
    return JobRecord(
        job_id=row["job_id"],
        raw_id=row["raw_id"],
        name=row["name"],
        user=user,
        state=state,
        submitted_at=submitted,
        account=_text(row["account"]),
        partition=_text(row["partition"]),
        qos=_text(row["qos"]),
        eligible_at=_time(row["eligible"]),
        started_at=_time(row["start"]) if ran else None,
        ended_at=ended_at,
        exit_code=int(exit_code[1]) if ran else None,
        exit_signal=(int(exit_code[2]) or None) if ran else None,
        nodes=nodes,
        node_count=node_count,
        gpus=gpus_of({"tres_alloc_str": row["tres"], "tres_req_str": row["tres_asked"]}, node_count=node_count),
        time_limit_s=time_limit_s(_number(row["time_limit"])),
        comment=_text(row["comment"]),
        work_dir=_text(row["work_dir"]),
        stdout=stdout,
        stderr="" if stderr == stdout else stderr,
        reservation=_text(row["reservation"]),
        features=_text(row["features"]),
    )


def time_limit_s(minutes: int) -> float | None:
    """None where there is none."""
    return None if minutes in (0, YEAR_MINUTES) else minutes * 60.0


def _path(row: Row, pattern: str, *, user: str, nodes: tuple[str, ...]) -> str:
    array, _, task = row["job_id"].partition("_")
    facts = PathFacts(
        raw_id=int(row["raw_id"]),
        array_id=int(array) if task else 0,
        array_task=int(task) if task else None,
        name=row["name"],
        user=user,
        node=nodes[0] if nodes else "",
        work_dir=row["work_dir"],
    )
    return job_paths.expand(_text(pattern), facts)


def _written(at: datetime, *, up: bool = False) -> str:
    """Whole seconds, the second before or (`up`) behind."""
    seconds = math.ceil(at.timestamp()) if up else math.floor(at.timestamp())
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _text(value: str) -> str:
    return "" if value in NOTHING else value


def _time(value: str) -> datetime | None:
    return None if value in NOTHING else time_of(value)


def _number(value: str) -> int:
    """0 for what is none: "UNLIMITED", "Partition_Limit"."""
    return min(int(value), MAX_COUNT) if value.isascii() and value.isdigit() and len(value) <= 12 else 0


def _user(uid: str) -> str:
    if not (uid.isascii() and uid.isdigit()):
        raise BadAnswer("a job has no user")
    return user_name(int(uid))


def _nodes(value: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(_text(value))
    except hostlist.BadHostlist as error:
        raise BadAnswer(str(error)) from error
