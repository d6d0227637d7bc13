"""The requests that change something, as values: what a preview shows is what is sent."""

from __future__ import annotations

import math
from typing import Any

from recovery.slurm.base import Operation, SlurmRefused
from recovery.slurm.names import check_job_id, check_node_name, check_node_names, one_line, whole
from recovery.slurm.rest_http import Request, path_of

MAX_TEXT = 1000
_FLAT = "v0.0.38"  # plain numbers; later versions have an object for them
_WANTS_ENVIRONMENT = "v0.0.39"  # of every change of a job, as if it were submitted; null leaves it as it is


def of(version: str, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> Request:
    """The request for one operation on a job or a node. `value`: time limit in seconds, admin comment, drain reason.

    Raises JobNotFound and SlurmRefused for what is no id, no node, no number.
    """
    match operation:
        case Operation.REQUEUE | Operation.REQUEUE_HOLD:
            return requeue(version, subject, hold=operation is Operation.REQUEUE_HOLD)
        case Operation.CANCEL:
            return cancel(version, subject)
        case Operation.DRAIN_NODE:
            return _node(version, subject, {"state": ["DRAIN"], "reason": _reason(subject, value)})
        case Operation.RESUME_NODE:
            return _node(version, subject, {"state": ["RESUME"]})
        case _:
            return _update(version, subject, _change(version, operation, nodes, value))


def requeue(version: str, job_id: str, *, hold: bool) -> Request:
    """A heterogeneous job is requeued as a whole, by its first component "4711+0"; others are refused."""
    leader = whole(job_id, tried=f"requeue {job_id}")
    path = path_of("slurm", version, "job", leader, "requeue")
    return Request(method="GET", path=path, params={"Hold": "true"} if hold else None)


def cancel(version: str, job_id: str) -> Request:
    """A heterogeneous job is cancelled as a whole, too."""
    return Request(method="DELETE", path=path_of("slurm", version, "job", whole(job_id, tried=f"cancel {job_id}")))


def _update(version: str, job_id: str, body: dict[str, Any]) -> Request:
    check_job_id(job_id)
    whole_body = {"environment": None} | body if version == _WANTS_ENVIRONMENT else body
    return Request(method="POST", path=path_of("slurm", version, "job", job_id), body=whole_body)


def _change(version: str, operation: Operation, nodes: tuple[str, ...], value: str) -> dict[str, Any]:
    match operation:
        case Operation.HOLD:
            return {"hold": True}
        case Operation.RELEASE:
            return {"hold": False}
        case Operation.SET_EXCLUDED_NODES:
            check_node_names(nodes, tried="exclude nodes")
            return {"excluded_nodes": list(nodes) or [""]}  # an empty list is taken for "leave it" (26.05)
        case Operation.SET_ADMIN_COMMENT:
            return {"admin_comment": one_line(value, MAX_TEXT)}
        case Operation.SET_TIME_LIMIT:
            return {"time_limit": _minutes(version, _number(value))}
    raise SlurmRefused(f"{operation} is no change of a job", tried=operation.value, permanent=True)


def _node(version: str, name: str, body: dict[str, Any]) -> Request:
    check_node_name(name, tried="change a node")
    return Request(method="POST", path=path_of("slurm", version, "node", name), body=body)


def _reason(node: str, text: str) -> str:
    reason = one_line(text, MAX_TEXT)
    if not reason:
        raise SlurmRefused("a drain needs a reason", tried=f"drain node {node}"[:100], permanent=True)
    return reason


def _minutes(version: str, seconds: float) -> int | dict[str, Any]:
    """Slurm counts in minutes, of which there is at least one."""
    minutes = max(1, math.ceil(seconds / 60))
    return minutes if version == _FLAT else {"set": True, "infinite": False, "number": minutes}


def _number(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 10 * 365 * 86_400:
        raise SlurmRefused(f"{value[:50]!r} is no time limit in seconds", tried="set a time limit", permanent=True)
    return seconds
