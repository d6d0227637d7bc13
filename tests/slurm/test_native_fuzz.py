"""What pyslurm's process might say, with one value wrong anywhere: records, or no observation, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.slurm.cli_json import job_record
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.native_records import health_of, is_doubtful, node_of, partition_of, reservation_of
from tests.slurm.test_rest_fuzz import anything, places

NODE = {
    "name": "n1", "state": "IDLE+DRAIN", "partitions": ["main"], "reason": "bad GPU", "reason_set_by_user": "root",
    "reason_changed_at": 1_790_000_000, "features": ["h100"], "gpus": 8,
}  # fmt: skip
PARTITION = {"name": "main", "state": "UP", "nodes": "n[1-4]", "max_minutes": None, "default": True}
RESERVATION = {
    "name": "swap", "nodes": "n4", "start_time": 1_790_000_000, "end_time": 1_790_003_600, "users": ["root"],
    "accounts": [], "maintenance": True,
}  # fmt: skip
HEALTH = {
    "release": "26.05.5", "auth_info": ["cred_expire=5"], "min_job_age": 300, "storage": "accounting_storage/slurmdbd",
    "store_flags": ["JOB_SCRIPT"], "cluster_name": "lab",
}  # fmt: skip
JOB = {
    "job_id": 7, "name": "train", "user_name": "ada", "job_state": "FAILED", "submit_time": 1_790_000_000,
    "restart_cnt": 0, "exit_code": 256, "nodes": "n[1-2]", "standard_output": "%x-%j.log", "batch_flag": True,
    "current_working_directory": "/home/ada", "time_limit": 60, "priority": 1, "requeue": True, "node_count": 2,
    "end_time": 1_790_000_100, "start_time": 1_790_000_050, "comment": "{}", "tres_alloc_str": "gres/gpu=16",
    "excluded_nodes": "", "standard_error": "",
}  # fmt: skip
PARSERS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], object]]] = {
    "node": (NODE, node_of),
    "partition": (PARTITION, partition_of),
    "reservation": (RESERVATION, reservation_of),
    "health": (HEALTH, lambda entry: health_of(entry, latency_s=0.1, default_cred_expire_s=120)),
    "job": (JOB, lambda entry: is_doubtful(job_record(entry))),
}


@pytest.mark.parametrize("kind", PARSERS)
def test_what_is_broken_below_is_whole_here(kind: str) -> None:
    entry, parse = PARSERS[kind]
    assert parse(entry) is not None


@pytest.mark.parametrize("kind", PARSERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_wrong_value_anywhere(kind: str, data: st.DataObject) -> None:
    entry, parse = PARSERS[kind]
    broken = copy.deepcopy(entry)
    *way, last = data.draw(st.sampled_from([path for path in places(entry) if path]))
    inner: Any = broken
    for step in way:
        inner = inner[step]
    if data.draw(st.booleans()):
        inner[last] = data.draw(anything)
    else:
        del inner[last]
    with suppress(BadAnswer):
        parse(broken)
