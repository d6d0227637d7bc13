"""Half answers, late answers and outages: nothing is believed that may be wrong, and what is unknown is called so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Incident, Job, Node
from recovery.pipeline import reconcile, watch
from recovery.pipeline.poll import poll_cluster
from recovery.pipeline.repair import ASK_EVERY, ASK_FOR
from recovery.pipeline.unlisted import ASKING, NOBODY_TO_ASK
from recovery.slurm.base import AttemptRecord, JobRecord, JobsPicture
from tests.pipeline.conftest import Desk
from tests.pipeline.fake_slurm import no_answer
from tests.pipeline.polling import poll, the_cluster


def many(desk: Desk, jobs: int = 10) -> None:
    for number in range(jobs):
        desk.submit(str(number), name=f"job-{number}")
        desk.slurm.start(str(number))


def answer(desk: Desk, jobs: list[JobRecord]) -> Callable[[str], JobsPicture]:
    return lambda mark: JobsPicture(jobs=jobs)


# --- marks ------------------------------------------------------------------------------------------------------------


def test_where_nothing_has_changed_only_the_time_of_the_picture_moves(desk: Desk) -> None:
    desk.slurm.marks = True
    many(desk)
    poll(desk)
    outcome = poll(desk)
    assert (outcome.observed, outcome.jobs) == (True, None)
    assert the_cluster().seen_at == desk.now
    assert Job.objects.filter(state=JobState.RUNNING).count() == 10
    desk.slurm.end("3")
    assert poll(desk).jobs == 10
    assert Job.objects.get(job_id="3").state == JobState.FAILED


@pytest.mark.parametrize("why", ["failure", "options", "back end", "health"])
def test_a_mark_is_dropped_where_it_may_prove_nothing(desk: Desk, why: str) -> None:
    desk.slurm.marks = True
    many(desk, 1)
    poll(desk)
    assert the_cluster().jobs_mark
    seconds = 2
    if why == "failure":
        desk.slurm.silent = no_answer()
        assert not poll(desk).observed
        desk.slurm.silent = None
    elif why == "options":
        Cluster.objects.update(options={"slurm_conf": "/etc/slurm/other.conf"})
    elif why == "back end":
        Cluster.objects.update(backend="rest")
    else:
        seconds = 301
    assert poll(desk, seconds=seconds).jobs == 1


# --- half answers -----------------------------------------------------------------------------------------------------


def test_a_list_without_most_of_the_running_jobs_is_doubted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    many(desk)
    poll(desk)
    monkeypatch.setattr(desk.slurm, "jobs_since", answer(desk, list(desk.slurm.table.values())[:4]))
    outcome = poll(desk)
    assert not outcome.observed
    assert "without 6 of 10 running jobs" in outcome.error
    assert Job.objects.filter(state=JobState.RUNNING).count() == 10


def test_a_list_without_most_of_the_running_jobs_is_believed_where_each_is_denied(desk: Desk) -> None:
    many(desk)
    poll(desk)
    desk.slurm.table = {job_id: desk.slurm.table[job_id] for job_id in ("0", "1", "2")}
    desk.slurm.asked.clear()
    assert poll(desk).observed
    assert Job.objects.filter(state=JobState.UNKNOWN).count() == 7
    assert sum(question.startswith("job ") for question in desk.slurm.asked) == 5  # bounded


def test_few_missing_jobs_are_believed_at_once(desk: Desk) -> None:
    many(desk)
    poll(desk)
    del desk.slurm.table["4"]
    desk.slurm.asked.clear()
    assert poll(desk).observed
    assert not any(question.startswith("job ") for question in desk.slurm.asked)


def test_an_empty_node_list_where_there_were_nodes_is_no_observation(desk: Desk) -> None:
    poll(desk)
    desk.slurm.node_table.clear()
    outcome = poll(desk)
    assert "empty node list" in outcome.error
    assert Node.objects.count() == 4


# --- late answers -----------------------------------------------------------------------------------------------------


def test_a_slow_poll_that_ends_after_a_newer_one_changes_nothing(desk: Desk) -> None:
    desk.submit()
    desk.start()
    poll(desk)
    slow = the_cluster()
    begun = desk.now + timedelta(seconds=1)
    picture = list(desk.slurm.table.values())
    desk.slurm.end()
    poll(desk)
    slow_client = desk.slurm.__class__(lambda: desk.now)
    slow_client.table = {record.job_id: record for record in picture}
    outcome = poll_cluster(slow, client=slow_client, now=begun)
    assert not outcome.observed
    assert Attempt.objects.get().state == JobState.FAILED
    assert the_cluster().seen_at == desk.now


def test_a_slow_poll_that_fails_after_a_newer_one_spoils_nothing(desk: Desk) -> None:
    poll(desk)
    slow = the_cluster()
    begun = desk.now + timedelta(seconds=1)
    poll(desk)
    silent = desk.slurm.__class__(lambda: desk.now)
    silent.silent = no_answer()
    poll_cluster(slow, client=silent, now=begun)
    assert the_cluster().error == ""


def test_the_time_of_a_picture_is_when_its_reading_began(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster.objects.update(next_look_at=desk.now)
    begun = desk.now

    def slowly(mark: str) -> JobsPicture:
        desk.now += timedelta(seconds=7)
        return JobsPicture(jobs=[])

    monkeypatch.setattr(desk.slurm, "jobs_since", slowly)
    watch.watch_cluster(the_cluster().pk, client_for=lambda cluster: desk.slurm, clock=lambda: desk.now)
    assert the_cluster().seen_at == begun


def test_a_clock_that_was_set_back_stops_no_poll_and_lets_nothing_act(desk: Desk) -> None:
    desk.submit()
    poll(desk)
    desk.now -= timedelta(hours=1)
    assert the_cluster().is_stale(desk.now)  # its picture is of the future
    assert poll(desk).observed
    assert the_cluster().seen_at == desk.now
    assert not the_cluster().is_stale(desk.now)


def test_a_job_that_vanished_and_is_back_goes_on_as_the_same_attempt(desk: Desk) -> None:
    desk.submit()
    desk.start()
    poll(desk)
    record = desk.slurm.table.pop("1")
    poll(desk)
    Attempt.objects.update(closed_at=desk.now)
    desk.slurm.table["1"] = record
    poll(desk)
    job = Job.objects.get()
    assert (job.state, job.vanished_at, job.unknown_reason) == (JobState.RUNNING, None, "")
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.closed_at, attempt.next_look_at) == (JobState.RUNNING, None, desk.now)


# --- accounting -------------------------------------------------------------------------------------------------------


def past(desk: Desk, number: int, submitted_at: datetime, **fields: object) -> AttemptRecord:
    record = AttemptRecord(
        job_id="1", number=number, state=JobState.FAILED, submitted_at=submitted_at, started_at=submitted_at,
        ended_at=submitted_at + timedelta(seconds=1), exit_code=7, exit_signal=0, nodes=("n1",),
    )  # fmt: skip
    return replace(record, **fields)  # type: ignore[arg-type]


def test_missed_attempts_come_from_accounting_in_one_question(desk: Desk) -> None:
    desk.slurm.accounting = True
    for job_id in ("1", "2"):
        desk.submit(job_id)
        desk.slurm.start(job_id)
    poll(desk)
    first = desk.slurm.table["1"].submitted_at
    for job_id in ("1", "2"):
        desk.slurm.change(job_id, restart_count=3, submitted_at=desk.now, started_at=desk.now)
    times = [first, first + timedelta(seconds=1), first + timedelta(seconds=1.5), desk.now]
    for job_id in ("1", "2"):
        desk.slurm.history += [replace(past(desk, n, at), job_id=job_id) for n, at in enumerate(times)]
    desk.slurm.asked.clear()
    poll(desk)
    assert [question for question in desk.slurm.asked if question.startswith("attempts")] == ["attempts 1 2"]
    missed = Attempt.objects.filter(number__in=(1, 2))
    assert [(row.state, row.exit_code, row.nodes) for row in missed] == [(JobState.FAILED, 7, ["n1"])] * 4
    assert not missed.filter(closed_at=None).exists()  # told, never judged: they were restarted long ago


def test_accounting_that_counts_otherwise_is_not_believed(desk: Desk) -> None:
    """Rows from before an id was reused, or rows that were purged, move every number."""
    desk.slurm.accounting = True
    desk.submit()
    desk.start()
    poll(desk)
    first = desk.slurm.table["1"].submitted_at
    desk.slurm.change("1", restart_count=2, submitted_at=desk.now, started_at=desk.now)
    desk.slurm.history += [past(desk, 1, first), past(desk, 2, first + timedelta(seconds=0.9))]
    poll(desk)
    assert Attempt.objects.get(number=1).state == JobState.UNKNOWN


def test_a_job_that_ended_during_an_outage_is_repaired_however_late_accounting_is(desk: Desk) -> None:
    desk.slurm.accounting = True
    desk.submit()
    desk.start()
    poll(desk)
    submitted_at = desk.slurm.table["1"].submitted_at
    desk.slurm.silent = no_answer()
    poll(desk, seconds=900)
    desk.slurm.silent = None
    desk.slurm.table.clear()
    poll(desk)
    job = Job.objects.get()
    assert (job.state, job.vanished_at, job.unknown_reason) == (JobState.UNKNOWN, desk.now, ASKING)
    desk.slurm.asked.clear()
    poll(desk)  # asked a moment ago
    assert "attempts 1" not in desk.slurm.asked
    poll(desk, seconds=ASK_EVERY.total_seconds())
    assert Job.objects.get().state == JobState.UNKNOWN  # still no row
    desk.slurm.history.append(past(desk, 0, submitted_at))
    poll(desk, seconds=ASK_EVERY.total_seconds())
    job = Job.objects.get()
    assert (job.state, job.unknown_reason) == (JobState.FAILED, "")
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.exit_code, attempt.next_look_at) == (JobState.FAILED, 7, desk.now)


def test_accounting_is_not_asked_for_ever(desk: Desk) -> None:
    desk.slurm.accounting = True
    desk.submit()
    desk.start()
    poll(desk)
    desk.slurm.table.clear()
    poll(desk)
    desk.slurm.asked.clear()
    poll(desk, seconds=ASK_FOR.total_seconds() + 1)
    assert "attempts 1" not in desk.slurm.asked


def test_without_accounting_the_state_is_unknown_since_then_and_nothing_acts(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.silent = no_answer()
    desk.tick(seconds=900)
    desk.slurm.silent = None
    desk.slurm.table.clear()
    desk.tick(times=3)
    job = Job.objects.get()
    assert (job.state, job.unknown_reason) == (JobState.UNKNOWN, NOBODY_TO_ASK)
    assert job.vanished_at is not None
    assert not Incident.objects.exists()
    assert desk.slurm.calls == []


# --- clusters that come and go ----------------------------------------------------------------------------------------


def test_a_cluster_that_is_removed_while_it_is_read_stores_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.submit()
    records = list(desk.slurm.table.values())

    def removed_meanwhile(mark: str) -> JobsPicture:
        Cluster.objects.all().delete()
        return JobsPicture(jobs=records)

    monkeypatch.setattr(desk.slurm, "jobs_since", removed_meanwhile)
    desk.tick()
    assert not Cluster.objects.exists()
    assert not Job.objects.exists()


def test_a_cluster_is_looked_at_as_soon_as_it_is_added_and_no_longer_once_it_is_disabled(desk: Desk) -> None:
    desk.tick()
    other = Cluster.objects.create(name="other", backend="cli", poll_interval_s=2, next_look_at=desk.now)
    desk.tick()
    other.refresh_from_db()
    assert other.seen_at == desk.now
    seen = other.seen_at
    Cluster.objects.filter(pk=other.pk).update(enabled=False)
    desk.tick(times=3)
    other.refresh_from_db()
    assert other.seen_at == seen
    assert other.is_stale(desk.now)


def test_attempts_on_a_disabled_cluster_are_not_looked_at(desk: Desk) -> None:
    desk.run_with_checkpoint()
    Cluster.objects.update(enabled=False)
    read_at = desk.attempt.read_at
    desk.step(13)
    desk.tick(times=3)
    assert desk.attempt.read_at == read_at
    assert desk.attempt.pk not in reconcile.due(desk.now).attempts


def test_nothing_acts_on_a_stale_cluster(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.silent = no_answer()
    desk.tick(seconds=100)
    desk.say("[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    desk.slurm.end()
    desk.tick(times=10)
    assert not Incident.objects.exists()
    assert desk.slurm.calls == []
