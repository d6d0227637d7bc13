"""What the contract suite's tests share (test_contract*.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import ParamSpec, cast

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import JobRecord, NotSupported, Operation, SlurmClient, Submission
from tests.slurm.harness import Harness, wait_until

LONG_S = 600.0  # longer than any test looks
UNKNOWN_JOB = "2000000"
UNKNOWN_NODE = "no-such-node"
SCRIPT = "#!/bin/sh\n# a stored script\nsleep 600\n"

P = ParamSpec("P")

JOB_CALLS: dict[Operation, Callable[[SlurmClient, str], object]] = {
    Operation.JOB: lambda client, job_id: client.job(job_id),
    Operation.BATCH_SCRIPT: lambda client, job_id: client.batch_script(job_id),
    Operation.REQUEUE: lambda client, job_id: client.requeue(job_id, hold=False),
    Operation.REQUEUE_HOLD: lambda client, job_id: client.requeue(job_id, hold=True),
    Operation.SET_EXCLUDED_NODES: lambda client, job_id: client.set_excluded_nodes(job_id, ()),
    Operation.RELEASE: lambda client, job_id: client.release(job_id),
    Operation.HOLD: lambda client, job_id: client.hold(job_id),
    Operation.CANCEL: lambda client, job_id: client.cancel(job_id),
    Operation.SET_TIME_LIMIT: lambda client, job_id: client.set_time_limit(job_id, 3600),
    Operation.SET_ADMIN_COMMENT: lambda client, job_id: client.set_admin_comment(job_id, "by hand"),
}
NODE_CALLS: dict[Operation, Callable[[SlurmClient, str], object]] = {
    Operation.DRAIN_NODE: lambda client, name: client.drain_node(name, "bad GPU"),
    Operation.RESUME_NODE: lambda client, name: client.resume_node(name),
}


def _on(call: Callable[[SlurmClient, str], object], subject: str, client: SlurmClient) -> object:
    return call(client, subject)


# Each call on what there is not, so that it changes nothing.
HARMLESS: dict[Operation, Callable[[SlurmClient], object]] = {
    Operation.JOBS: lambda client: client.jobs(),
    Operation.ATTEMPTS: lambda client: client.attempts([UNKNOWN_JOB], since=datetime(2026, 1, 1, tzinfo=UTC)),
    Operation.ENDED_BETWEEN: lambda client: client.ended_between(
        datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    ),
    Operation.NODES: lambda client: client.nodes(),
    Operation.PARTITIONS: lambda client: client.partitions(),
    Operation.RESERVATIONS: lambda client: client.reservations(),
    Operation.TOPOLOGY: lambda client: client.topology(),
    Operation.SUBMIT: lambda client: client.submit(Submission(script="no script", user="ada", work_dir="/tmp")),
    **{operation: functools.partial(_on, call, UNKNOWN_JOB) for operation, call in JOB_CALLS.items()},
    **{operation: functools.partial(_on, call, UNKNOWN_NODE) for operation, call in NODE_CALLS.items()},
}


def needs(*operations: Operation) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A test of what a back end may lack: where it does, the test is that it says so, and that the call is denied."""

    def decorate(test: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            client = cast(Harness, kwargs.get("harness") or kwargs["accounted"]).client
            missing = [operation for operation in operations if not client.can(operation)]
            for operation in missing:
                assert_denied(client, operation)
            if not missing:
                test(*args, **kwargs)

        return run

    return decorate


def assert_denied(client: SlurmClient, operation: Operation) -> None:
    can = client.can(operation)
    assert can.reason
    assert can.remedy
    with pytest.raises(NotSupported):
        HARMLESS[operation](client)


def wait_for(harness: Harness, job_id: str, state: JobState, *, restarts: int = 0) -> JobRecord:
    def look() -> JobRecord | None:
        record = harness.client.job(job_id)
        return record if (record.state, record.restart_count) == (state, restarts) else None

    found = wait_until(harness, look)
    assert found is not None
    return found


def running(harness: Harness, **job: object) -> JobRecord:
    """A job that runs and will go on running."""
    return wait_for(harness, harness.submit(seconds=LONG_S, **job), JobState.RUNNING)  # type: ignore[arg-type]


def waiting(harness: Harness) -> str:
    """A job that waits because another has all nodes."""
    running(harness, nodes=len(harness.client.nodes()))
    return harness.submit(seconds=LONG_S)


def truth_becomes(harness: Harness, job_id: str, state: str) -> None:
    """Until the cluster itself has the job in this state."""

    def look() -> bool:
        truth = harness.job_truth(job_id)
        return truth is not None and truth.state == state

    wait_until(harness, look)
