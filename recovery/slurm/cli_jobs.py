"""One job of squeue's text in our names. How the text is asked for and taken apart is in cli_squeue.py.

Strict where a wrong guess would act on the wrong thing: one job without a usable id, state, time or list of nodes, and
the whole answer counts as none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from recovery.core.types import JobState
from recovery.slurm import hostlist, job_paths
from recovery.slurm.base import JobRecord
from recovery.slurm.cli_squeue import Row, is_number, state_of
from recovery.slurm.job_gpus import gpus_of
from recovery.slurm.job_paths import PathFacts
from recovery.slurm.json_values import MAX_COUNT, BadAnswer, time_of
from recovery.slurm.names import user_name
from recovery.slurm.states import state_reason

_NOTHING = frozenset({"", "N/A", "n/a", "(null)", "NONE", "None", "Unknown"})
_TIME_LIMIT = re.compile(r"(?:(\d{1,7})-)?(?:(\d{1,2}):)?(\d{1,2}):(\d{2})")
_YEAR_S = 365 * 86_400.0  # slurmctld's stand-in for an unlimited time limit once the job runs
_NOBODY, _NOBODY_UID = "nobody", "65534"  # squeue's word for a user that it doesn't know


def record(row: Row, *, allocated: Mapping[str, tuple[str, ...]], reasons: Mapping[str, str]) -> JobRecord:
    """The job in our names. Raises BadAnswer.

    By raw id, `allocated` has all nodes of the jobs that are ending, `reasons` the words for those held by a requeue.
    """
    state = state_of(row.state)
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
        raw_id=row.raw_id,
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


# --- single fields ---------------------------------------------------------------------------------------------------


def _text(value: str) -> str:
    return "" if value in _NOTHING else value


def _count(value: str) -> int:
    if not is_number(value) or int(value) > MAX_COUNT:
        raise BadAnswer(f"{value[:50]!r} is no count")
    return int(value)


@lru_cache(maxsize=256)
def _node_count(value: str) -> int:
    """ "4", or the least of "2-4"; 0 where it can't be told."""
    first = value.partition("-")[0]
    return int(first) if is_number(first, 6) else 0


@lru_cache(maxsize=65_536)
def _time(value: str) -> datetime | None:
    return None if value in _NOTHING else time_of(value)


def _nodes(value: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(value)
    except hostlist.BadHostlist as error:
        raise BadAnswer(str(error)) from error


@lru_cache(maxsize=1024)
def _exit(value: str) -> tuple[int | None, int | None]:
    """Exit code and signal. 22.05 gives a raw wait status, later releases "code:signal"."""
    code, colon, signal = value.partition(":")
    if not is_number(code) or (colon and not is_number(signal)):
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
    if not is_number(row.uid):
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
