"""Whole jobs out of slurmdbd's, as slurmrestd v0.0.42 and newer give them: those that ended in a span of time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from recovery.slurm import json_values as values
from recovery.slurm.base import JobRecord
from recovery.slurm.job_gpus import gpus_of
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.rest_attempts import attempt_of, job_id_of
from recovery.slurm.rest_http import Request, path_of
from recovery.slurm.sacct_jobs import numbered, time_limit_s


def question(version: str, start: datetime, end: datetime) -> Request:
    """Of all users. Steps are not asked for: a busy job has thousands."""
    params = {
        "start_time": str(math.floor(start.timestamp())),
        "end_time": str(math.ceil(end.timestamp())),
        "show_duplicates": "true",
        "skip_steps": "true",
    }
    return Request(method="GET", path=path_of("slurmdb", version, "jobs"), params=params)


def ended(entries: Iterable[Mapping[str, Any]], *, cluster: str, start: datetime, end: datetime) -> list[JobRecord]:
    """Every execution that ended in this time, the first to end first. Raises BadAnswer.

    `cluster`: the answer's own; several may share one slurmdbd. "" where it doesn't say.
    """
    own = (entry for entry in entries if values.text(entry, "cluster") in ("", cluster) or not cluster)
    records = (_record(entry) for entry in own if not _waits_with_others(entry))
    return numbered(record for record in records if record.ended_at is not None and start <= record.ended_at <= end)


def _waits_with_others(entry: Mapping[str, Any]) -> bool:
    """The one record of all tasks of an array that never started: they never were jobs."""
    array = _mapping(entry, "array")
    return bool(values.number(array, "job_id")) and values.number(array, "task_id") is None


def _record(entry: Mapping[str, Any]) -> JobRecord:
    job_id = job_id_of(entry)
    attempt = attempt_of(entry, job_id=job_id, number=0)
    comment, tres, times = _mapping(entry, "comment"), _mapping(entry, "tres"), _mapping(entry, "time")
    node_count = len(attempt.nodes) or values.count(entry, "allocation_nodes") or 0
    stdout, stderr = values.text(entry, "stdout_expanded"), values.text(entry, "stderr_expanded")
    asked = {"tres_alloc_str": _written(tres, "allocated"), "tres_req_str": _written(tres, "requested")}
    return JobRecord(
        job_id=job_id,
        raw_id=str(values.number(entry, "job_id") or ""),
        unique_id=values.text(entry, "sluid"),
        name=values.text(entry, "name"),
        user=values.text(entry, "user"),
        state=attempt.state,
        submitted_at=attempt.submitted_at,
        account=values.text(entry, "account"),
        partition=values.text(entry, "partition"),
        qos=values.text(entry, "qos"),
        restart_count=values.count(entry, "restart_cnt") or 0,
        eligible_at=values.time(times, "eligible"),
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        exit_code=attempt.exit_code,
        exit_signal=attempt.exit_signal,
        nodes=attempt.nodes,
        node_count=node_count,
        gpus=gpus_of(asked, node_count=node_count),
        time_limit_s=time_limit_s(values.number(times, "limit") or 0),
        comment=values.text(comment, "job"),
        work_dir=values.text(entry, "working_directory"),
        stdout=stdout,
        stderr="" if stderr == stdout else stderr,
        reservation=values.text(_mapping(entry, "reservation"), "name"),
        features=values.text(entry, "constraints"),
    )


def _written(tres: Mapping[str, Any], key: str) -> str:
    """As in Slurm's texts: "cpu=2,gres/gpu=8"."""
    listed = tres.get(key)
    found = listed if isinstance(listed, list) else []
    if not all(isinstance(each, dict) for each in found):
        raise BadAnswer(f"{key} of a job's resources is not a list of objects")
    return ",".join(f"{values.text(each, 'type')}/{values.text(each, 'name')}={each.get('count')}" for each in found)


def _mapping(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = entry.get(key)
    return value if isinstance(value, dict) else {}
