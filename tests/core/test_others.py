"""Which other job of a run goes on with it, so that the failed one is left alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recovery.core.others import OtherJob, chained, said_of, took_up
from recovery.core.types import JobState

FAILED_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER, EARLIER = FAILED_AT + timedelta(minutes=1), FAILED_AT - timedelta(hours=1)


def other(state: JobState = JobState.PENDING, job_id: str = "12", **fields: Any) -> OtherJob:
    return OtherJob(job_id=job_id, state=state, **fields)


@pytest.mark.parametrize(
    ("found", "goes_on"),
    [
        (other(), True),
        (other(state_reason="Priority"), True),
        (other(state_reason="JobHeldUser", held=True), True),
        (other(JobState.RUNNING, started_at=LATER), True),
        (other(JobState.COMPLETING, started_at=LATER), True),
        (other(state_reason="Dependency"), False),
        (other(state_reason="DependencyNeverSatisfied"), False),
        (other(JobState.RUNNING, started_at=EARLIER), False),
        (other(ran_beside=True), False),  # both were put back when their node went
        (other(JobState.FAILED, started_at=LATER), False),
        (other(JobState.REVOKED), True),  # another cluster of the federation has it
        (other(job_id="11_4"), False),
        (other(job_id="11+1"), False),
        (other(job_id="111_3"), True),
    ],
)
def test_what_goes_on_with_the_run(found: OtherJob, goes_on: bool) -> None:
    assert (took_up("11_3", [found], failed_at=FAILED_AT) == found) is goes_on


def test_what_runs_is_named_before_what_waits() -> None:
    runs = other(JobState.RUNNING, "13", started_at=LATER)
    found = took_up("11", [other(), runs], failed_at=FAILED_AT)
    assert found == runs
    assert said_of(runs) == "job 13 of this run has started since the fault"
    assert said_of(other(held=True)) == "job 12 of this run already waits, held"


def test_the_next_of_a_chain_waits_for_another_job() -> None:
    assert chained("11", [other(), other(job_id="13", state_reason="Dependency")]) is not None
    assert chained("11", [other(), other(job_id="11_2", state_reason="Dependency")]) is None
