"""What pyslurm's process tells (native_child.py), in our words. Raises BadAnswer where that can't be trusted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from recovery.core.types import JobState
from recovery.slurm import json_values as values
from recovery.slurm.base import HELD_BY_REQUEUE, Health, JobRecord, NodeRecord, PartitionRecord, ReservationRecord
from recovery.slurm.hostlist import is_node_name
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.states import has_jobs, node_state

Entry = Mapping[str, Any]

_CRED_EXPIRE = re.compile(r"cred_expire=(\d{1,6})")


def is_doubtful(record: JobRecord) -> bool:
    """Whether pyslurm may tell less of this job than Slurm knows.

    It takes 128 away from exit codes that are 128 or more; it shows the description of a held requeue instead of the
    reason, so that a hold of somebody else on top can't be seen; and the nodes of a job that is ending become fewer.
    """
    ended = record.state.is_terminal and record.exit_signal is None
    changed_code = ended and (bool(record.exit_code) or record.state is JobState.FAILED)
    return changed_code or record.state is JobState.COMPLETING or record.state_reason == HELD_BY_REQUEUE


def completed(record: JobRecord, told: JobRecord | None) -> JobRecord:
    """A doubtful record with what Slurm's own commands say; where they say nothing, with less and nothing wrong."""
    if told is None or (told.state, told.restart_count) != (record.state, record.restart_count):
        reason = "JobHeldUser" if record.state_reason == HELD_BY_REQUEUE else record.state_reason
        return dataclasses.replace(record, exit_code=None, state_reason=reason)
    return dataclasses.replace(
        record, exit_code=told.exit_code, state_reason=told.state_reason, nodes=told.nodes, node_count=told.node_count
    )


def node_of(entry: Entry) -> NodeRecord:
    name, words = values.text(entry, "name"), values.words(entry, "state")
    if not is_node_name(name) or not words:
        raise BadAnswer(f"a node has no usable name or state ({str(entry)[:200]})")
    return NodeRecord(
        name=name,
        state=node_state(words),
        partitions=_texts(entry, "partitions"),
        raw_state="+".join(words),
        reason=values.text(entry, "reason"),
        reason_by=values.text(entry, "reason_set_by_user"),
        reason_at=values.time(entry, "reason_changed_at"),
        features=_texts(entry, "features"),
        gpus=values.number(entry, "gpus") or 0,
        jobs_on_it=has_jobs(words),
    )


def partition_of(entry: Entry) -> PartitionRecord:
    minutes = values.number(entry, "max_minutes")
    return PartitionRecord(
        name=_name(entry),
        up=values.text(entry, "state") == "UP",
        nodes=values.nodes(entry, "nodes"),
        default=values.flag(entry, "default"),
        time_limit_s=None if minutes is None else minutes * 60.0,
    )


def reservation_of(entry: Entry) -> ReservationRecord:
    return ReservationRecord(
        name=_name(entry),
        nodes=values.nodes(entry, "nodes"),
        starts_at=_time(entry, "start_time"),
        ends_at=_time(entry, "end_time"),
        users=_texts(entry, "users"),
        accounts=_texts(entry, "accounts"),
        maintenance=values.flag(entry, "maintenance"),
    )


def health_of(entry: Entry, *, latency_s: float, default_cred_expire_s: int) -> Health:
    release = values.text(entry, "release")
    if not release:
        raise BadAnswer("it names no release")
    cred_expire = _CRED_EXPIRE.search(",".join(_texts(entry, "auth_info")))
    min_job_age = values.number(entry, "min_job_age")
    return Health(
        release=release,
        accounting=values.text(entry, "storage").endswith("slurmdbd"),
        requeue_delay_s=(int(cred_expire[1]) if cred_expire else default_cred_expire_s) + 1.0,
        latency_s=latency_s,
        min_job_age_s=None if min_job_age is None else float(min_job_age),
        store_flags=tuple(flag.lower() for flag in _texts(entry, "store_flags")),
        cluster_name=values.text(entry, "cluster_name"),
    )


def _name(entry: Entry) -> str:
    name = values.text(entry, "name")
    if not name:
        raise BadAnswer(f"an entry has no name ({str(entry)[:200]})")
    return name


def _texts(entry: Entry, key: str) -> tuple[str, ...]:
    found = entry.get(key)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise BadAnswer(f"{key} is no list of texts")
    return tuple(values.clean(text) for text in found)


def _time(entry: Entry, key: str) -> datetime:
    found = values.time(entry, key)
    if found is None:
        raise BadAnswer(f"{key} is not set")
    return found
