"""What the scheduler says is stored as it was said; silence and half answers change nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery.core.types import JobState
from recovery.models import Attempt, Event, Incident, Job, Node
from recovery.pipeline.poll import poll_cluster
from recovery.slurm.base import AttemptRecord, JobsPicture
from tests.pipeline.conftest import Desk
from tests.pipeline.fake_slurm import no_answer


def test_a_requeue_is_a_new_attempt_of_the_same_job(desk: Desk) -> None:
    desk.submit()
    desk.tick()
    desk.start()
    desk.tick()
    desk.slurm.requeue("1", hold=False)
    desk.tick()
    assert Job.objects.count() == 1
    first, second = Attempt.objects.order_by("number")
    assert (first.state, second.state) == (JobState.REQUEUED, JobState.PENDING)
    assert second.number == 1


def test_a_restart_counted_while_completing_makes_one_new_attempt_not_a_new_job(desk: Desk) -> None:
    desk.submit()
    desk.start()
    desk.tick()
    desk.slurm.change("1", state=JobState.COMPLETING, restart_count=1)
    desk.tick()
    assert [attempt.state for attempt in Attempt.objects.all()] == [JobState.COMPLETING]
    desk.slurm.change("1", state=JobState.PENDING, submitted_at=desk.now, nodes=())
    desk.tick()
    assert Job.objects.count() == 1
    assert [attempt.number for attempt in Attempt.objects.order_by("number")] == [0, 1]


def test_a_reused_job_id_is_a_new_job(desk: Desk) -> None:
    desk.submit(name="old")
    desk.start()
    desk.tick()
    desk.slurm.end(state=JobState.COMPLETED, exit_code=0)
    desk.tick()
    desk.submit(name="new")
    desk.tick()
    assert [job.name for job in Job.objects.order_by("first_submitted_at")] == ["old", "new"]
    assert Job.objects.get(name="old").state == JobState.COMPLETED


def test_a_silent_controller_changes_nothing_but_the_age_of_the_picture(desk: Desk) -> None:
    desk.run_with_checkpoint()
    seen = desk.cluster.__class__.objects.get().seen_at
    desk.slurm.silent = no_answer()
    desk.tick(times=40)
    cluster = desk.cluster.__class__.objects.get()
    assert cluster.seen_at == seen
    assert "timed out" in cluster.error
    assert cluster.is_stale(desk.now)
    assert Attempt.objects.get().state == JobState.RUNNING
    assert not Incident.objects.exists()
    assert Event.objects.filter(verb="cluster.silent").count() == 1


def test_an_empty_list_where_a_job_still_exists_is_no_observation(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.run_with_checkpoint()
    monkeypatch.setattr(desk.slurm, "jobs_since", lambda mark: JobsPicture(jobs=[]))
    desk.tick()
    assert Attempt.objects.get().state == JobState.RUNNING
    assert "empty job list" in desk.cluster.__class__.objects.get().error


def test_an_empty_list_is_believed_when_each_job_is_denied(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.table.clear()
    desk.tick()
    job = Job.objects.get()
    assert job.vanished_at == desk.now
    assert job.state == JobState.UNKNOWN
    assert not Incident.objects.exists()


def test_a_job_that_vanished_is_unknown_and_never_judged(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.table.clear()
    desk.slurm.enter("2")
    desk.tick(times=40)
    assert Attempt.objects.get(job__job_id="1").state == JobState.UNKNOWN
    assert not Incident.objects.exists()


def test_a_vanished_job_gets_its_end_from_accounting(desk: Desk) -> None:
    desk.slurm.accounting = True
    desk.run_with_checkpoint()
    attempt = Attempt.objects.get()
    desk.slurm.history.append(
        AttemptRecord(
            job_id="1",
            number=0,
            state=JobState.COMPLETED,
            submitted_at=attempt.submitted_at,
            ended_at=desk.now,
            exit_code=0,
            exit_signal=0,
        )
    )
    desk.slurm.table.clear()
    desk.tick(times=3)
    assert Attempt.objects.get().state == JobState.COMPLETED


def test_a_job_that_had_failed_before_the_first_picture_is_history(desk: Desk) -> None:
    desk.submit()
    desk.start()
    desk.slurm.end()
    desk.tick(times=5)
    assert Attempt.objects.get().closed_at is not None
    assert not Incident.objects.exists()


def test_a_job_that_failed_between_two_polls_is_judged(desk: Desk) -> None:
    desk.tick()
    desk.submit()
    desk.start()
    desk.now += timedelta(seconds=1)
    desk.slurm.end()
    desk.tick(times=6)
    assert Incident.objects.count() == 1


def test_a_broken_comment_is_shown_and_counts_as_absent(desk: Desk) -> None:
    desk.submit(comment='{"recovery": {"mode": "auto"')
    desk.tick()
    job = Job.objects.get()
    assert job.comment_error
    assert job.options == {}


def test_a_node_that_changes_its_state_says_since_when(desk: Desk) -> None:
    desk.tick()
    before = Node.objects.get(name="n2").changed_at
    desk.slurm.lose_node("n2")
    desk.tick()
    node = Node.objects.get(name="n2")
    assert node.changed_at == desk.now > before
    assert node.reason == "Not responding"


@pytest.mark.parametrize("jobs", [5, 60])
def test_a_poll_without_changes_takes_as_many_queries_for_few_jobs_as_for_many(desk: Desk, jobs: int) -> None:
    for number in range(jobs):
        desk.submit(str(number + 1), name=f"job-{number}")
    desk.tick()
    desk.now += timedelta(seconds=2)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        poll_cluster(desk.cluster, client=desk.slurm, now=desk.now)
    assert len(queries) <= 10
