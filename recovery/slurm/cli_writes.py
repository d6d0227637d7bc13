"""The commands that change something, as argument lists: checked, the same for running and for showing them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable

from recovery.slurm.base import NotSupported, Operation, SlurmRefused
from recovery.slurm.names import check_job_id, check_node_name, check_node_names, one_line, whole
from recovery.slurm.submissions import MAX_TIME_LIMIT_S

MAX_ADMIN_COMMENT = 1000
MAX_REASON = 500

Argv = tuple[str, ...]


def requeue(job_id: str, *, hold: bool) -> Argv:
    leader = whole(job_id, tried=f"requeue {job_id}")
    return ("scontrol", "requeuehold" if hold else "requeue", leader)


def set_excluded_nodes(job_id: str, nodes: tuple[str, ...]) -> Argv:
    check_job_id(job_id)
    check_node_names(nodes, tried=f"exclude nodes of job {job_id}")
    return ("scontrol", "update", f"JobId={job_id}", f"ExcNodeList={','.join(nodes)}")


def release(job_id: str) -> Argv:
    check_job_id(job_id)
    return ("scontrol", "release", job_id)


def hold(job_id: str) -> Argv:
    check_job_id(job_id)
    return ("scontrol", "hold", job_id)


def cancel(job_id: str) -> Argv:
    """Without --verbose scancel says nothing where there was nothing to cancel; a component's id would end it alone."""
    return ("scancel", "--verbose", whole(job_id, tried=f"cancel {job_id}"))


def set_time_limit(job_id: str, seconds: float) -> Argv:
    check_job_id(job_id)
    return ("scontrol", "update", f"JobId={job_id}", f"TimeLimit={minutes(seconds, tried=f'limit job {job_id}')}")


def minutes(seconds: float, *, tried: str) -> int:
    """Slurm's unit, rounded up. Raises SlurmRefused for what is no time limit."""
    if not 0 < seconds <= MAX_TIME_LIMIT_S:  # not a number is not between either
        raise SlurmRefused(f"{seconds} s is no time limit", tried=tried, permanent=True)
    return math.ceil(seconds / 60)


def set_admin_comment(job_id: str, text: str) -> Argv:
    check_job_id(job_id)
    return ("scontrol", "update", f"JobId={job_id}", f"AdminComment={one_line(text, MAX_ADMIN_COMMENT)}")


def drain_node(name: str, reason: str) -> Argv:
    tried = f"drain node {name[:100]!r}"
    check_node_name(name, tried=tried)
    words = one_line(reason, MAX_REASON)
    if not words:
        raise SlurmRefused("Slurm drains no node without a reason", tried=tried, permanent=True)
    return ("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={words}")


def resume_node(name: str) -> Argv:
    check_node_name(name, tried=f"resume node {name[:100]!r}")
    return ("scontrol", "update", f"NodeName={name}", "State=RESUME")


def preview(operation: Operation, subject: str, *, nodes: tuple[str, ...], value: str) -> str:
    """The command of a write, as a line for a shell. NotSupported for a read, and for a submission."""
    commands: dict[Operation, Callable[[], Argv]] = {
        Operation.REQUEUE: lambda: requeue(subject, hold=False),
        Operation.REQUEUE_HOLD: lambda: requeue(subject, hold=True),
        Operation.SET_EXCLUDED_NODES: lambda: set_excluded_nodes(subject, nodes),
        Operation.RELEASE: lambda: release(subject),
        Operation.HOLD: lambda: hold(subject),
        Operation.CANCEL: lambda: cancel(subject),
        Operation.SET_TIME_LIMIT: lambda: set_time_limit(subject, _number(value)),
        Operation.SET_ADMIN_COMMENT: lambda: set_admin_comment(subject, value),
        Operation.DRAIN_NODE: lambda: drain_node(subject, value),
        Operation.RESUME_NODE: lambda: resume_node(subject),
    }
    if operation not in commands:
        raise NotSupported(f"{operation} has no one-line command", tried=f"preview {operation}", permanent=True)
    return shlex.join(commands[operation]())


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan
