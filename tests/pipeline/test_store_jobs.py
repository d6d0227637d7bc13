"""Only differences are written, in bulk, and every execution is found whatever the polls missed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import groupby

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery.core.types import JobState
from recovery.models import Attempt, Event, Job, Run
from recovery.pipeline.store_jobs import MOST_MISSED
from recovery.pipeline.store_runs import run_key
from recovery.pipeline.unlisted import ARRAY_STARTED
from tests.pipeline.conftest import Desk
from tests.pipeline.polling import poll


def kinds_of_statements(desk: Desk) -> list[str]:
    """One poll's statements, those that come in several chunks counted once."""
    with CaptureQueriesContext(connection) as queries:
        assert poll(desk).observed
    heads = [" ".join(query["sql"].split()[:3]) for query in queries.captured_queries]
    return [head for head, _ in groupby(head for head in heads if "SAVEPOINT" not in head)]


def fill(desk: Desk, jobs: int) -> None:
    for number in range(jobs):
        desk.slurm.enter(str(number), name=f"job-{number}", state=JobState.RUNNING, started_at=desk.now, nodes=("n1",))


@pytest.mark.parametrize("jobs", [50, 1000])
def test_the_number_of_statements_does_not_grow_with_the_jobs(desk: Desk, jobs: int) -> None:
    poll(desk)
    fill(desk, jobs)
    assert len(kinds_of_statements(desk)) <= 14  # all new
    assert Attempt.objects.count() == jobs
    assert len(kinds_of_statements(desk)) <= 5  # nothing changed
    for job_id in list(desk.slurm.table):
        desk.slurm.end(job_id)
    assert len(kinds_of_statements(desk)) <= 9  # all changed
    assert set(Attempt.objects.values_list("state", flat=True)) == {JobState.FAILED}
    for job_id in list(desk.slurm.table):
        desk.slurm.requeue(job_id, hold=False)
    assert len(kinds_of_statements(desk)) <= 10  # all requeued
    assert Attempt.objects.filter(number=1, state=JobState.PENDING).count() == jobs


def test_a_picture_of_which_little_has_changed_writes_little(desk: Desk) -> None:
    fill(desk, 60)
    poll(desk)
    desk.slurm.end("7")
    before = dict(Job.objects.values_list("job_id", "seen_at"))
    poll(desk)
    after = dict(Job.objects.values_list("job_id", "seen_at"))
    assert [job_id for job_id in after if after[job_id] != before[job_id]] == ["7"]


def test_jobs_that_all_vanish_are_written_in_bulk(desk: Desk) -> None:
    fill(desk, 60)
    poll(desk)
    desk.slurm.table = {"other": desk.slurm.enter("other")}
    assert len(kinds_of_statements(desk)) <= 18
    assert Job.objects.filter(state=JobState.UNKNOWN, listed=False).count() == 60
    assert Event.objects.filter(verb="job.vanished").count() == 60


def test_what_the_scheduler_expects_of_a_waiting_job_is_no_change(desk: Desk) -> None:
    desk.submit()
    poll(desk)
    seen = Job.objects.get().seen_at
    desk.slurm.change("1", started_at=desk.now + timedelta(hours=3))
    poll(desk)
    assert Job.objects.get().seen_at == seen


def test_new_jobs_of_one_run_in_one_picture_join_one_run(desk: Desk) -> None:
    for number in range(3):
        desk.submit(str(number))
    poll(desk)
    assert Run.objects.count() == 1
    assert Run.objects.get().jobs.count() == 3
    assert Run.objects.get().checkpoint_dir == str(desk.checkpoints)


def test_constraints_of_a_job_are_stored(desk: Desk) -> None:
    desk.submit(features="h100&ib", required_nodes=("n3",), reservation="course", qos="high", unique_id="s1")
    poll(desk)
    job = Job.objects.get()
    assert (job.features, job.required_nodes, job.reservation) == ("h100&ib", ["n3"], "course")
    assert (job.qos, job.unique_id) == ("high", "s1")


# --- executions that no picture showed --------------------------------------------------------------------------------


def test_restarts_between_two_polls_leave_attempts_of_unknown_state(desk: Desk) -> None:
    desk.submit()
    poll(desk)
    desk.start()
    poll(desk)
    desk.slurm.change("1", restart_count=3, submitted_at=desk.now, started_at=desk.now)
    poll(desk)
    states = list(Attempt.objects.order_by("number").values_list("number", "state", "closed_at"))
    assert [(number, state) for number, state, _ in states] == [
        (0, JobState.REQUEUED), (1, JobState.UNKNOWN), (2, JobState.UNKNOWN), (3, JobState.RUNNING),
    ]  # fmt: skip
    assert [closed is not None for _, _, closed in states] == [False, True, True, False]


def test_a_job_first_seen_after_a_restart_has_the_attempt_before_it(desk: Desk) -> None:
    poll(desk)
    desk.submit(restart_count=1)
    poll(desk)
    assert list(Attempt.objects.order_by("number").values_list("state", flat=True)) == ["unknown", "pending"]


def test_the_first_picture_of_a_cluster_makes_up_no_history(desk: Desk) -> None:
    desk.submit(restart_count=4)
    poll(desk)
    assert Attempt.objects.get().number == 4


# --- identity ---------------------------------------------------------------------------------------------------------


def test_a_reused_id_of_a_job_whose_end_was_never_seen_leaves_that_one_unknown(desk: Desk) -> None:
    desk.submit(name="old")
    desk.start()
    poll(desk)
    desk.submit(name="new", submitted_at=desk.now)
    poll(desk)
    assert dict(Job.objects.values_list("name", "state")) == {"old": JobState.UNKNOWN, "new": JobState.PENDING}
    assert list(Job.objects.filter(listed=True).values_list("name", flat=True)) == ["new"]
    assert Attempt.objects.get(job__name="old").state == JobState.UNKNOWN


def test_slurms_own_identity_tells_a_renamed_job_from_a_new_one(desk: Desk) -> None:
    desk.submit(name="a", unique_id="s1")
    poll(desk)
    desk.slurm.change("1", name="renamed", submitted_at=desk.now)
    poll(desk)
    assert Job.objects.get().name == "renamed"
    desk.slurm.change("1", unique_id="s2")
    poll(desk)
    assert Job.objects.count() == 2


def test_a_job_listed_twice_counts_once_by_its_newer_word(desk: Desk) -> None:
    desk.submit()
    newer = replace(desk.slurm.table["1"], submitted_at=desk.now + timedelta(seconds=1), restart_count=1)
    desk.slurm.table["again"] = newer
    poll(desk)
    assert Job.objects.get().restart_count == 1


def test_the_waiting_record_of_an_array_ends_when_its_tasks_are_jobs_of_their_own(desk: Desk) -> None:
    desk.submit("4711")
    poll(desk)
    del desk.slurm.table["4711"]
    for task in ("4711_1", "4711_2"):
        desk.submit(task, state=JobState.RUNNING, started_at=desk.now, nodes=("n1",))
    poll(desk)
    array = Job.objects.get(job_id="4711")
    assert (array.state, array.state_reason, array.vanished_at) == (JobState.COMPLETED, ARRAY_STARTED, None)
    assert Attempt.objects.get(job=array).closed_at is not None
    assert Job.objects.filter(job_id__startswith="4711_", state=JobState.RUNNING).count() == 2
    assert not Event.objects.filter(verb="job.vanished").exists()


def test_a_running_job_is_not_taken_for_an_array(desk: Desk) -> None:
    desk.submit("4711")
    desk.start("4711")
    poll(desk)
    del desk.slurm.table["4711"]
    desk.submit("4711_1")
    poll(desk)
    assert Job.objects.get(job_id="4711").state == JobState.UNKNOWN


def test_components_and_federated_ids_are_jobs_of_their_own(desk: Desk) -> None:
    for job_id in ("4711", "4711+1", "67113575", "134222439"):
        desk.submit(job_id)
    poll(desk)
    poll(desk)
    assert Job.objects.filter(listed=True, state=JobState.PENDING).count() == 4


# --- out of order -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back", ["submit time", "restart count"])
def test_a_record_that_goes_backwards_changes_nothing(desk: Desk, back: str) -> None:
    desk.submit(restart_count=2, state=JobState.RUNNING, started_at=desk.now, nodes=("n1",))
    poll(desk)
    record = desk.slurm.table["1"]
    older = {
        "submit time": replace(record, submitted_at=record.submitted_at - timedelta(hours=1), state=JobState.FAILED),
        "restart count": replace(record, restart_count=1, state=JobState.FAILED, ended_at=desk.now),
    }
    desk.slurm.table["1"] = older[back]
    poll(desk)
    assert Attempt.objects.get().state == JobState.RUNNING
    job = Job.objects.get()
    assert (job.state, job.restart_count, job.vanished_at) == (JobState.RUNNING, 2, None)


def test_a_restart_count_beyond_all_measure_makes_no_million_attempts(desk: Desk) -> None:
    desk.submit()
    poll(desk)
    desk.submit(restart_count=2_000_000_000, submitted_at=desk.now)
    poll(desk)
    numbers = list(Attempt.objects.order_by("number").values_list("number", flat=True))
    assert (numbers[0], numbers[-1], len(numbers)) == (0, 2_000_000_000, MOST_MISSED + 2)


def test_runs_whose_long_keys_begin_alike_stay_two() -> None:
    one, other = (
        run_key(Job(user="ada", name="x", options={"checkpoint_dir": "/ckpt/" + "a" * 900 + end})) for end in "bc"
    )
    assert one != other
    assert one[:400] == other[:400]
    assert len(one) == len(other) == 500
