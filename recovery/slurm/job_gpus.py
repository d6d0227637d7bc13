"""How many GPUs a job has or wants, and how many a node has, from Slurm's words for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOST_GPUS = 10**9  # more than a column of a database holds is no number of GPUs
_TRES = re.compile(r"(?:^|,)gres/gpu(?::[^=,]+)?=(\d{1,7})")
_UNTYPED_TRES = re.compile(r"(?:^|,)gres/gpu=(\d{1,7})")
_DETAIL = re.compile(r"(?:^|,)gpu(?::[^:(),]+)?:(\d{1,7})(?=[(,]|$)")
_REQUEST = re.compile(r"(?:^|,)(?:gres[:/])?gpu(?::(?!\d+(?:,|$))[^:=,]+)?(?:[:=](\d{1,7}))?(?=,|$)")


def gpus_of(job: Mapping[str, Any], *, node_count: int) -> int:
    """GPUs of the whole job; 0 where it has none or the cluster counts none.

    The allocation tells best, then the request. A site without AccountingStorageTRES=gres/gpu has neither in the
    resource strings: there the nodes' own detail, and the job's options, are what is left.
    """
    for key in ("tres_alloc_str", "tres_req_str"):
        count = _in_tres(_text(job, key))
        if count:
            return count
    details = job.get("gres_detail")
    if isinstance(details, list) and details:
        return min(MOST_GPUS, sum(int(number) for detail in details for number in _DETAIL.findall(str(detail))))
    for key, times in (("tres_per_job", 1), ("tres_per_node", node_count), ("tres_per_task", _tasks(job))):
        count = _requested(_text(job, key)) * times
        if count:
            return min(MOST_GPUS, count)
    return 0


def gpus_in_gres(text: str) -> int:
    """GPUs of a node: "gpu:a100:8(S:0-1),nic:2"."""
    return min(MOST_GPUS, sum(map(int, _DETAIL.findall(text))))


def _in_tres(text: str) -> int:
    """ "cpu=2,gres/gpu=8,gres/gpu:a100=8": the plain count includes the typed ones, where it is given."""
    untyped = _UNTYPED_TRES.search(text)
    return min(MOST_GPUS, int(untyped[1]) if untyped else sum(map(int, _TRES.findall(text))))


def _requested(text: str) -> int:
    """ "gres:gpu:a100:4" or "gres/gpu:4"; a GPU without a number is one."""
    return sum(int(number or 1) for number in _REQUEST.findall(text))


def _tasks(job: Mapping[str, Any]) -> int:
    """0 where a release gives no plain number: there the other options tell."""
    tasks = job.get("tasks")
    return tasks if isinstance(tasks, int) and 0 < tasks < 1_000_000 else 0


def _text(job: Mapping[str, Any], key: str) -> str:
    value = job.get(key)
    return value if isinstance(value, str) else ""
