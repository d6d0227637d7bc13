"""What real releases of Slurm printed as text (tests/slurm/record.py), read by the command back end."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from recovery.core.types import JobState
from recovery.slurm import cli_jobs, cli_json, cli_scontrol, cli_squeue
from recovery.slurm.base import HELD_BY_REQUEUE, JobRecord
from recovery.slurm.cli_squeue import FIELDS, Row
from recovery.slurm.json_values import BadAnswer
from tests.slurm import record
from tests.slurm.test_recorded import RELEASES, Recording


@pytest.fixture(params=RELEASES)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def rows(recording: Recording) -> list[Row]:
    found = cli_squeue.rows(recording.read("squeue.txt"), record.SEPARATOR)
    if cli_squeue.NO_EXCLUDED_FIELD not in recording.read("squeue_errors.txt"):
        return found
    excluded = cli_squeue.excluded_nodes(recording.read("squeue_excluded.txt"))
    return [row._replace(excluded=excluded[row.raw_id]) for row in found]


def records(recording: Recording) -> dict[str, JobRecord]:
    reasons = cli_json.reasons(recording.read("squeue.json"))
    found = (cli_jobs.record(row, allocated={}, reasons=reasons) for row in rows(recording))
    return {job.job_id: job for job in found}


def test_what_is_recorded_is_what_is_asked_for() -> None:
    assert list(FIELDS.values()) == record.FIELDS
    assert tuple(FIELDS) == Row._fields


def test_text_and_json_say_the_same_of_every_job(recording: Recording) -> None:
    by_json = {job.job_id: job for job in cli_json.parse_jobs(recording.read("squeue.json"))}
    assert records(recording) == by_json
    assert len(by_json) > 10


def test_a_submission_has_an_identity_of_its_own_where_the_release_gives_one(recording: Recording) -> None:
    ids = {job.unique_id for job in records(recording).values()}
    assert ids == {""} if recording.release < "26.05" else "" not in ids


def test_somebodys_hold_on_top_of_a_held_requeue_is_theirs(recording: Recording) -> None:
    found = records(recording)
    ours, theirs = found[recording.job_id("held_requeue")], found[recording.job_id("held_twice")]
    assert (ours.state_reason, ours.held) == (HELD_BY_REQUEUE, True)
    assert (theirs.state_reason, theirs.held) == ("JobHeldAdmin", True)


def test_whose_hold_it_is_is_never_taken_from_the_text_alone(recording: Recording) -> None:
    found = [cli_jobs.record(row, allocated={}, reasons={}) for row in cli_squeue.held_by_requeue(rows(recording))]
    assert {job.state_reason for job in found} == {"job_requeued_in_held_state"}


def test_an_admin_comment_is_read(recording: Recording) -> None:
    assert records(recording)[recording.job_id("running")].admin_comment == "by hand"


def test_all_nodes_of_a_job_are_found_behind_its_name(recording: Recording) -> None:
    (row,) = [row for row in rows(recording) if row.raw_id == recording.job_id("running")]
    answer = recording.read("details_running.txt")
    assert cli_scontrol.allocated_nodes(answer, row) == ("n1", "n2")
    assert cli_scontrol.allocated_nodes(answer, row._replace(name="evil")) == ()
    assert cli_scontrol.allocated_nodes(answer, row._replace(raw_id="999")) == ()


def test_a_name_can_not_add_nodes(recording: Recording) -> None:
    name = "x\n   UserId=root(0)\n     Nodes=n9 CPU_IDs=0\n   MinCPUsNode=1"
    (row,) = [row for row in rows(recording) if row.raw_id == recording.job_id("running")]
    answer = recording.read("details_running.txt").replace(f"JobName={row.name}\n", f"JobName={name}\n")
    assert cli_scontrol.allocated_nodes(answer, row._replace(name=name)) == ("n1", "n2")


def test_a_cluster_without_jobs_says_so_twice(recording: Recording) -> None:
    assert cli_squeue.rows(recording.read("squeue_none.txt"), record.SEPARATOR) == []
    assert recording.read("scontrol_no_jobs.txt").strip() == cli_scontrol.NO_JOBS


def test_partitions_are_read(recording: Recording) -> None:
    (main,) = cli_scontrol.partitions(recording.read("partitions.txt"))
    assert (main.name, main.up, main.default, main.time_limit_s) == ("main", True, True, None)
    assert main.nodes == ("n1", "n2", "n3", "n4")


def test_reservations_are_read(recording: Recording) -> None:
    assert cli_scontrol.reservations(recording.read("reservations_none.txt")) == []
    (found,) = cli_scontrol.reservations(recording.read("reservations.txt"))
    assert (found.name, found.nodes, found.users, found.accounts) == ("swap_psu", ("n4",), ("root",), ())
    assert found.maintenance
    assert (found.ends_at - found.starts_at).total_seconds() == 3600


def test_the_configuration_tells_all_that_health_needs(recording: Recording) -> None:
    health = cli_scontrol.health(recording.read("config.txt"), latency_s=0)
    assert (health.min_job_age_s, health.cluster_name) == (300.0, "lab")
    assert "job_comment" in health.store_flags
    assert health.controller_time is not None
    assert abs(health.controller_time - datetime(2026, 12, 1, tzinfo=UTC)).days < 200


@pytest.mark.parametrize("kept", [1, 100, -1, -2, -40])
def test_a_cut_list_of_jobs_is_no_list(recording: Recording, kept: int) -> None:
    with pytest.raises(BadAnswer):
        cli_squeue.rows(recording.read("squeue.txt")[:kept], record.SEPARATOR)


@pytest.mark.parametrize("field", ["name", "comment", "work_dir", "stdout"])
def test_what_a_user_writes_stays_in_its_field(recording: Recording, field: str) -> None:
    """Whatever an earlier question's separator was: the next one has another."""
    old, new = cli_squeue.new_separator(), cli_squeue.new_separator()
    first, *others = rows(recording)
    forged = first._replace(**{field: f"x{old}\n666{old}666{old}RUNNING{old}"})
    text = "".join("".join(f"{value}{new}" for value in row) + "\n" for row in (forged, *others))
    assert cli_squeue.rows(text, new) == [forged, *others]


def test_a_field_too_many_spoils_the_whole_answer(recording: Recording) -> None:
    text = recording.read("squeue.txt").replace("evil", f"evil{record.SEPARATOR}")
    with pytest.raises(BadAnswer):
        cli_squeue.rows(text, record.SEPARATOR)


def test_a_nameless_state_is_unknown_and_never_a_guess(recording: Recording) -> None:
    row = rows(recording)[0]._replace(state="SOMETHING_NEW")
    job = cli_jobs.record(row, allocated={}, reasons={})
    assert job.state is JobState.UNKNOWN
    assert dataclasses.replace(job, state=JobState.RUNNING) != job
