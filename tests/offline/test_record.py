from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from recovery.core.types import CheckpointState, JobState, NodeState
from recovery.offline.record import JobRecordError, OfflineJob


def test_an_empty_record_is_one() -> None:
    job = OfflineJob.read({})
    assert (job.state, job.nodes, job.exit_code) == (JobState.UNKNOWN, (), None)


@pytest.mark.parametrize(
    ("word", "state", "by"),
    [
        ("FAILED", JobState.FAILED, ""),
        ("node_fail", JobState.NODE_FAIL, ""),
        ("OUT_OF_MEMORY", JobState.OUT_OF_MEMORY, ""),
        ("CANCELLED by 1001", JobState.CANCELLED, "1001"),
        ("CANCELLED+", JobState.CANCELLED, ""),
        ("", JobState.UNKNOWN, ""),
    ],
)
def test_states_are_read_as_slurm_writes_them(word: str, state: JobState, by: str) -> None:
    job = OfflineJob.read({"state": word})
    assert (job.state, job.cancelled_by) == (state, by)


@pytest.mark.parametrize(
    ("value", "code", "signal"), [("1:0", 1, None), ("0:15", 0, 15), (3, 3, None), ("7", 7, None), ("", None, None)]
)
def test_exit_codes_are_read_as_slurm_writes_them(value: object, code: int | None, signal: int | None) -> None:
    job = OfflineJob.read({"exit_code": value})
    assert (job.exit_code, job.exit_signal) == (code, signal)


def test_node_lists_are_expanded() -> None:
    assert OfflineJob.read({"nodes": "gpu-[01-03]"}).nodes == ("gpu-01", "gpu-02", "gpu-03")
    assert OfflineJob.read({"nodes": ["a", "b"]}).nodes == ("a", "b")


def test_who_cancelled_is_said_in_three_ways() -> None:
    assert OfflineJob.read({"user_cancelled_by": "ana"}).cancelled_by == "ana"
    assert OfflineJob.read({"cancelled_by": "root"}).cancelled_by == "root"
    assert OfflineJob.read({"user_cancelled_by": "ana", "state": "CANCELLED by 1001"}).cancelled_by == "ana"


@pytest.mark.parametrize(
    ("record", "requeued"),
    [
        ({"state": "PENDING", "restart_count": 1}, True),
        ({"state": "PENDING"}, False),
        ({"state": "RUNNING", "restart_count": 1}, False),
        ({"state": "NODE_FAIL", "requeued": True}, True),
    ],
)
def test_a_pending_job_with_restarts_was_requeued(record: dict[str, Any], requeued: bool) -> None:
    job = OfflineJob.read(record)
    assert job.requeued is requeued
    assert (job.state is JobState.PENDING) == (record["state"] == "PENDING" and not requeued)


def test_events_and_checkpoints_are_read() -> None:
    job = OfflineJob.read(
        {},
        node_events=[{"time": "2026-01-11T09:20:41Z", "node": "gpu-02", "text": "Not responding", "state": "down"}],
        checkpoints=[{"step": 400, "state": "complete", "path": "/ckpt"}],
    )
    (event,), (checkpoint,) = job.node_events, job.checkpoints
    assert (event.at, event.state) == (datetime(2026, 1, 11, 9, 20, 41, tzinfo=UTC), NodeState.DOWN)
    assert (checkpoint.step, checkpoint.state) == (400, CheckpointState.COMPLETE)


def test_a_time_without_a_zone_is_utc() -> None:
    assert OfflineJob.read({"start": "2026-01-11T09:00:00"}).start == datetime(2026, 1, 11, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"record": {"state": "EXPLODED"}}, "job.state: 'EXPLODED' is none of"),
        ({"record": {"state": 3}}, "job.state: must be a text"),
        ({"record": {"exit_code": "one"}}, 'job.exit_code: must look like "1:0"'),
        ({"record": {"nodes": "gpu-[01"}}, "job.nodes:"),
        ({"record": {"nodes": 7}}, "job.nodes: must be a node list"),
        ({"record": {"elapsed_s": "long"}}, "job.elapsed_s: must be a number"),
        ({"record": {"elapsed_s": True}}, "job.elapsed_s: must be a number"),
        ({"record": {"elapsed_s": -5}}, "job.elapsed_s: must lie between 0 and"),
        ({"record": {"elapsed_s": float("inf")}}, "job.elapsed_s: must lie between 0 and"),
        ({"record": {"time_limit_s": float("nan")}}, "job.time_limit_s: must lie between 0 and"),
        ({"record": {"start": "0001-01-01T00:00:00Z"}}, "job.start: must be a time"),
        ({"record": {"step_exit_codes": 5}}, "job.step_exit_codes: must be a list"),
        ({"record": {}, "node_events": 5}, "node_event: must be a list"),
        ({"record": {}, "checkpoints": {"step": 5}}, "checkpoint: must be a list"),
        ({"record": {"start": "monday"}}, "job.start: must be a time"),
        ({"record": {"colour": "red"}}, "job.colour: no such field"),
        ({"record": []}, "job: must be a table"),
        ({"record": {}, "node_events": [{"node": "a"}]}, "node_event[0]: needs time, node and text"),
        ({"record": {}, "node_events": [{"time": "x", "node": "a", "text": "b"}]}, "node_event[0].time: must be"),
        (
            {"record": {}, "node_events": [{"time": "2026-01-11T09:00:00Z", "node": "a", "text": "b", "state": "ill"}]},
            "node_event[0].state: must be one of",
        ),
        ({"record": {}, "checkpoints": [{"state": "complete"}]}, "checkpoint[0]: needs step and state"),
        ({"record": {}, "checkpoints": [{"step": 1, "state": "good"}]}, "checkpoint[0].state: must be one of"),
    ],
)
def test_a_wrong_field_is_named(parts: dict[str, Any], message: str) -> None:
    record = parts.pop("record")
    with pytest.raises(JobRecordError) as raised:
        OfflineJob.read(record, **parts)
    assert message in str(raised.value)
