"""The cluster, its jobs, and what was read of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from recovery.core.detectors.alarm import AlarmKind
from recovery.core.types import CheckpointState, JobState, NodeState, Phase, SignalKind
from recovery.doctor import Group, Result, State
from recovery.models import Alarm, Attempt, Checkpoint, Cluster, Examination, Job, LogFile, Node, Run, Sample, Signal
from recovery.pipeline.samples import store_samples
from tests.factories.base import ago, numbers


def make_cluster(**fields: Any) -> Cluster:
    """A simulated cluster with a fresh, good picture."""
    defaults = {
        "name": f"lab-{next(numbers)}",
        "backend": "simulator",
        "options": {"state_dir": "/var/lib/recovery/simulator"},
        "release": "22.05.8",
        "accounting": True,
        "seen_at": ago(3),
        "tried_at": ago(3),
    }
    return Cluster.objects.create(**{**defaults, **fields})


def make_examination(*, cluster: Cluster | None = None, **fields: Any) -> Examination:
    """What the doctor found two minutes ago: one result of each state."""
    at = ago(120)
    results = [
        Result(
            group=Group.CALLS, what=f"call {state}", detail=f"it is {state}", state=state, at=at,
            remedy="Mend it." if state is State.BROKEN else "",
        ).as_json()
        for state in State
    ]  # fmt: skip
    defaults = {"at": at, "results": results, "next_look_at": ago(-180)}
    return Examination.objects.create(cluster=cluster or make_cluster(), **{**defaults, **fields})


def make_node(*, cluster: Cluster | None = None, **fields: Any) -> Node:
    defaults = {
        "name": f"gpu-{next(numbers):02d}",
        "state": NodeState.UP,
        "raw_state": "ALLOCATED",
        "partitions": ["train"],
        "changed_at": ago(86_400),
    }
    return Node.objects.create(cluster=cluster or make_cluster(), **{**defaults, **fields})


def make_run(*, cluster: Cluster | None = None, **fields: Any) -> Run:
    name = fields.get("name", f"llama-70b-{next(numbers)}")
    defaults = {
        "name": name,
        "key": f"run:{name}",
        "user": "mira",
        "checkpoint_dir": f"/ckpt/{name}",
        "created_at": ago(7200),
    }
    return Run.objects.create(cluster=cluster or make_cluster(), **{**defaults, **fields})


def make_job(*, run: Run | None = None, **fields: Any) -> Job:
    """A running job of 8 nodes with 8 GPUs each."""
    run = run or make_run()
    job_id = str(fields.get("job_id", 4700 + next(numbers)))
    submitted_at = fields.get("first_submitted_at", ago(7200))
    defaults = {
        "cluster": run.cluster,
        "job_id": job_id,
        "first_submitted_at": submitted_at,
        "submitted_at": submitted_at,
        "name": run.name,
        "user": run.user,
        "account": "research",
        "partition": "train",
        "work_dir": f"/home/{run.user}",
        "stdout": f"/logs/{run.name}-{job_id}.out",
        "stderr": f"/logs/{run.name}-{job_id}.out",
        "node_count": 8,
        "gpus": 64,
        "time_limit_s": 86_400.0,
        "state": JobState.RUNNING,
        "seen_at": ago(3),
    }
    return Job.objects.create(run=run, **{**defaults, **fields})


def make_attempt(*, job: Job | None = None, **fields: Any) -> Attempt:
    """An attempt that trains; with an ended `state` it ended eight minutes ago."""
    state = JobState(fields.get("state", JobState.RUNNING))
    job = job or make_job(state=JobState.PENDING if state is JobState.REQUEUED else state)
    defaults = {
        "number": job.restart_count,
        "state": state,
        "submitted_at": job.submitted_at,
        "started_at": ago(7000),
        "ended_at": ago(480) if state.is_terminal else None,
        "exit_code": 1 if state is JobState.FAILED else None,
        "nodes": [f"gpu-{number:02d}" for number in range(1, job.node_count + 1)],
        "seen_at": ago(3),
        "phase": Phase.TRAINING,
        "phase_since": ago(6500),
        "first_step": 1,
        "last_step": 852,
        "last_progress_at": ago(485) if state.is_terminal else ago(20),
        "read_at": ago(3),
    }
    return Attempt.objects.create(job=job, **{**defaults, **fields})


def make_log_file(*, attempt: Attempt | None = None, **fields: Any) -> LogFile:
    attempt = attempt or make_attempt()
    defaults = {"path": attempt.job.stdout, "inode": 4711, "offset": 120_000, "line": 1841, "grew_at": ago(20)}
    return LogFile.objects.create(attempt=attempt, **{**defaults, "head": "0" * 64, **fields})


def make_samples(
    *,
    attempt: Attempt | None = None,
    count: int = 100,
    first_step: int = 1,
    every_s: float = 30.0,
    last_at: datetime | None = None,
    **fields: Any,
) -> list[Sample]:
    """`count` samples, one each step and every `every_s` seconds, the last one at `last_at` (else 20 s ago)."""
    attempt = attempt or make_attempt()
    end = last_at or ago(20)
    rows = [
        Sample(
            attempt=attempt,
            step=first_step + i,
            at=end - timedelta(seconds=every_s * (count - 1 - i)),
            **{"loss": 2.0 + 3.0 / (first_step + i), "throughput": 410.0, "step_time_s": every_s, **fields},
        )
        for i in range(count)
    ]
    store_samples(rows)
    return rows


def make_signal(*, attempt: Attempt | None = None, **fields: Any) -> Signal:
    """A line that names an uncorrectable memory error."""
    number = next(numbers)
    attempt = attempt or make_attempt()
    defaults = {
        "kind": SignalKind.FAILURE,
        "rule": "cuda.ecc_uncorrectable",
        "at": ago(482),
        "rank": 13,
        "node": "gpu-02",
        "file": attempt.job.stdout,
        "line": number,
        "offset": 80 * number,
        "text": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    }
    return Signal.objects.create(attempt=attempt, **{**defaults, **fields})


def make_checkpoint(*, run: Run | None = None, step: int = 840, **fields: Any) -> Checkpoint:
    """A complete checkpoint in Megatron's layout."""
    run = run or make_run()
    state = CheckpointState(fields.get("state", CheckpointState.COMPLETE))
    defaults = {
        "path": f"{run.checkpoint_dir}/iter_{step:07d}",
        "state": state,
        "size_bytes": 140_000_000_000,
        "fingerprint": f"{step:064x}",
        "first_seen_at": ago(900),
        "completed_at": ago(860) if state is CheckpointState.COMPLETE else None,
        "checked_at": ago(10),
    }
    return Checkpoint.objects.create(run=run, step=step, **{**defaults, **fields})


def make_alarm(*, attempt: Attempt | None = None, **fields: Any) -> Alarm:
    """A loss that is no number any more; it holds."""
    attempt = attempt or make_attempt()
    defaults = {
        "kind": AlarmKind.NUMERICS,
        "since": ago(300),
        "raised_at": ago(120),
        "seen_at": ago(5),
        "reason": "The loss is no number since step 610, in each of the last 10 reports.",
        "remedy": "Look at the loss before more is trained and saved.",
    }
    return Alarm.objects.create(run=attempt.job.run, attempt=attempt, **{**defaults, **fields})
