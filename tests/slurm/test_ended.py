"""Jobs that ended in a span of time, as real accounting told them (tests/slurm/record.py, record_rest.py)."""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recovery.core.types import JobState
from recovery.slurm import rest_ended, sacct_jobs
from recovery.slurm.base import JobRecord
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.rest_versions import operations
from recovery.slurm.states import ENDS
from tests.slurm import record
from tests.slurm.record import SEPARATOR
from tests.slurm.test_fuzz import broken
from tests.slurm.test_recorded import RECORDED, Recording

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
BY_SACCT = sorted(path.parent.name for path in RECORDED.glob("*/sacct_ended.txt"))
BY_REST = sorted(path.parts[-3:-1] for path in RECORDED.glob("rest-*/*/ended.txt"))


def told(release: str, *, start: datetime = START, end: datetime = END) -> list[JobRecord]:
    recording = Recording(release)
    names = list(sacct_jobs.columns(recording.read("sacct_columns.txt")))
    return sacct_jobs.ended(recording.read("sacct_ended.txt"), names, SEPARATOR, start=start, end=end)


def told_by_rest(release: str, version: str, *, cluster: str = "lab") -> list[JobRecord]:
    answer = (RECORDED / release / version / "ended.txt").read_bytes().partition(b"\n")[2]
    return rest_ended.ended(json.loads(answer)["jobs"], cluster=cluster, start=START, end=END)


def test_what_is_recorded_is_what_is_asked_for() -> None:
    assert [*sacct_jobs.COLUMNS.values(), *sacct_jobs.LATER.values()] == record.COLUMNS
    start = START + timedelta(seconds=0.5)
    asked = sacct_jobs.arguments(start, END, record.COLUMNS, SEPARATOR)
    assert f"--state={','.join(ENDS)}" in asked
    assert "--starttime=2026-01-01T00:00:00" in asked
    assert "--endtime=2027-01-01T00:00:00" in asked


def test_old_and_new_releases_are_recorded() -> None:
    assert {"22.05", "26.05"} <= set(BY_SACCT)
    assert {version for _, version in BY_REST} >= {"v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"}
    assert all("ended_between" in operations(version) for _, version in BY_REST)


@pytest.fixture(params=[*BY_SACCT, *("/".join(way) for way in BY_REST)])
def jobs(request: pytest.FixtureRequest) -> list[JobRecord]:
    release, _, version = request.param.partition("/")
    return told_by_rest(release, version) if version else told(release)


def test_each_end_is_told_with_how_it_was(jobs: list[JobRecord]) -> None:
    (failed,) = [job for job in jobs if job.exit_code == 4]
    assert (failed.state, failed.time_limit_s, failed.nodes) == (JobState.FAILED, 1800.0, ("n1",))
    assert (failed.user, failed.account, failed.partition, failed.qos) == ("root", "root", "main", "normal")
    assert (failed.work_dir, failed.name, failed.restart_count) == ("/home/ada", "wrap", 0)
    assert failed.stderr in ("", f"/home/ada/err-{failed.job_id}.log")
    (signalled,) = [job for job in jobs if job.exit_signal == 11]
    assert signalled.state is JobState.FAILED
    assert {job.state for job in jobs} >= {JobState.CANCELLED, JobState.FAILED, JobState.REQUEUED}


def test_nothing_is_told_that_runs_or_waits(jobs: list[JobRecord]) -> None:
    assert all(job.state.is_terminal and job.ended_at is not None for job in jobs)
    assert [job.ended_at for job in jobs] == sorted(job.ended_at for job in jobs if job.ended_at is not None)
    assert not [job for job in jobs if "llama" in job.comment]  # it runs


@pytest.mark.parametrize("release", BY_SACCT)
def test_newer_releases_tell_where_the_output_went(release: str) -> None:
    (failed,) = [job for job in told(release) if job.exit_code == 4]
    named = release >= "24.05"
    assert failed.stdout == (f"/home/ada/slurm-{failed.job_id}.out" if named else "")
    assert failed.stderr == (f"/home/ada/err-{failed.job_id}.log" if named else "")


@pytest.mark.parametrize(("release", "version"), BY_REST)
def test_jobs_of_another_cluster_of_the_same_slurmdbd_are_not_ours(release: str, version: str) -> None:
    assert told_by_rest(release, version)
    assert told_by_rest(release, version, cluster="") == told_by_rest(release, version)
    assert told_by_rest(release, version, cluster="other") == []


@pytest.mark.parametrize("release", BY_SACCT)
def test_only_ends_within_the_span_count(release: str) -> None:
    jobs = told(release)
    first = jobs[0].ended_at
    assert first is not None
    later = told(release, start=first + timedelta(seconds=1))
    assert 0 < len(later) < len(jobs)
    assert told(release, end=first) == [job for job in jobs if job.ended_at == first]


def row(**fields: str) -> str:
    values = dict.fromkeys(sacct_jobs.COLUMNS, "") | {
        "raw_id": "12", "job_id": "12", "state": "FAILED", "submitted": "2026-05-01T10:00:00",
        "start": "2026-05-01T10:00:01", "end": "2026-05-01T10:00:09", "exit_code": "7:0", "nodes": "n[1-2]",
        "user": "ada", "uid": "1000", "name": "train", "work_dir": "/ada", "tres": "cpu=2,gres/gpu=16",
    }  # fmt: skip
    return "".join(f"{value}{SEPARATOR}" for value in (values | fields).values()) + "\n"


def parsed(text: str) -> list[JobRecord]:
    return sacct_jobs.ended(text, list(sacct_jobs.COLUMNS), SEPARATOR, start=START, end=END)


@pytest.mark.parametrize("field", ["name", "comment", "work_dir"])
@pytest.mark.parametrize("written", ["\n13", "a|b", "x\ny\n", "\x1f", "12~12"])
def test_what_a_user_writes_stays_in_its_field(field: str, written: str) -> None:
    one, other = parsed(row(**{field: written}) + row(raw_id="13", job_id="13"))
    assert getattr(one, field) == written
    assert dataclasses.replace(one, **{field: getattr(other, field)}) == dataclasses.replace(
        other, job_id="12", raw_id="12"
    )


def test_gpus_and_ids_are_read() -> None:
    task, component = parsed(row(job_id="4_3", raw_id="5") + row(job_id="6+1", raw_id="7"))
    assert (task.job_id, task.raw_id, task.gpus, task.node_count) == ("4_3", "5", 16, 2)
    assert (component.job_id, component.raw_id) == ("6+1", "7")
    assert parsed(row(job_id="4_[1-3]")) == []  # tasks that never were jobs


def test_executions_of_one_job_are_counted() -> None:
    later = {"submitted": "2026-05-01T11:00:00", "end": "2026-05-01T11:00:09"}
    found = parsed(row(**later) + row(state="REQUEUED"))
    assert [(job.restart_count, job.state) for job in found] == [(0, JobState.REQUEUED), (1, JobState.FAILED)]


def test_that_another_cluster_of_the_federation_took_a_job_is_told_and_did_not_run_here() -> None:
    later = {"submitted": "2026-05-01T11:00:00", "end": "2026-05-01T11:00:09", "nodes": "None assigned"}
    failed, taken = parsed(row() + row(state="REVOKED", **later))
    assert (failed.exit_code, taken.restart_count, taken.state) == (7, 1, JobState.REVOKED)
    assert (taken.started_at, taken.exit_code, taken.nodes) == (None, None, ())


@pytest.mark.parametrize(
    "broken", [row()[:-30], row()[3:], row() + "x", row(exit_code="?"), row(submitted="Unknown"), row(nodes="n[1-")]
)
def test_half_an_answer_is_none(broken: str) -> None:
    with pytest.raises(BadAnswer):
        parsed(broken)


def test_no_end_is_no_record_and_no_answer_is_no_jobs() -> None:
    assert parsed(row(end="Unknown", state="RUNNING")) == []
    assert parsed("") == []


@pytest.mark.parametrize("release", BY_SACCT)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(data=st.data())
def test_a_broken_answer_is_records_or_none(release: str, data: st.DataObject) -> None:
    recording = Recording(release)
    names = list(sacct_jobs.columns(recording.read("sacct_columns.txt")))
    text = data.draw(broken(recording.read("sacct_ended.txt")))
    found: list[JobRecord] = []
    with suppress(BadAnswer):
        found = sacct_jobs.ended(text, names, SEPARATOR, start=START, end=END)
    for job in found:
        assert "\0" not in job.name + job.comment + job.stdout
        assert 0 <= job.node_count < 2**31
        assert 0 <= (job.exit_code or 0) < 2**31
