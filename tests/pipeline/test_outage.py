"""Jobs that were submitted, ended and forgotten by Slurm while nobody looked: accounting tells of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery.core.lifecycle import IncidentState
from recovery.core.types import ActionKind, JobState
from recovery.models import Attempt, Cluster, Decision, Event, Incident, Job, LedgerEntry, PolicyVersion, Run
from recovery.pipeline import outage
from recovery.slurm.base import JobRecord, Operation, SlurmRefused, SlurmUnreachable
from tests.pipeline.cases import SCRIPT, Case
from tests.pipeline.conftest import ECC, Desk
from tests.pipeline.polling import poll, the_cluster

Policy = Callable[..., PolicyVersion]
GAP_S = 1800.0  # Slurm remembers ended jobs for 300 s
HANGS = SlurmUnreachable("no answer within 10 s", tried="sacct")


@pytest.fixture
def accounted(desk: Desk) -> Desk:
    """A desk that has looked once at a cluster with accounting."""
    desk.slurm.accounting = True
    poll(desk)
    return desk


def forgotten(desk: Desk, job_id: str = "7", *, ago_s: float = 900, **fields: Any) -> JobRecord:
    """A job that failed so long before now and was forgotten since."""
    ended = desk.now.replace(microsecond=0) - timedelta(seconds=ago_s)
    record = JobRecord(
        job_id=job_id, name="llama", user="ada", state=JobState.FAILED, submitted_at=ended - timedelta(seconds=60),
        started_at=ended - timedelta(seconds=50), ended_at=ended, exit_code=3, nodes=("n1", "n2"), node_count=2,
        partition="main", gpus=8, comment=f'{{"recovery": {{"run": "llama-{job_id}", "log": "{desk.log}"}}}}',
    )  # fmt: skip
    desk.slurm.forgotten.append(replace(record, **fields))
    return desk.slurm.forgotten[-1]


def asked(desk: Desk) -> int:
    return desk.slurm.asked.count("ended_between")


def after_a_gap(desk: Desk, *, times: int = 1) -> None:
    """The picture that ends it, and what follows."""
    for _ in range(times):
        poll(desk)


def test_what_ended_and_was_forgotten_in_a_gap_is_found(accounted: Desk) -> None:
    accounted.now += timedelta(seconds=GAP_S)
    record = forgotten(accounted)
    after_a_gap(accounted)
    job = Job.objects.get()
    attempt = job.attempts.get()
    assert (job.job_id, job.first_submitted_at, job.user, job.gpus) == ("7", record.submitted_at, "ada", 8)
    assert (job.state, job.listed, job.is_forgotten, job.run.name) == (JobState.FAILED, False, True, "llama-7")
    assert (attempt.number, attempt.state, attempt.exit_code, attempt.nodes) == (0, "failed", 3, ["n1", "n2"])
    assert (attempt.started_at, attempt.ended_at) == (record.started_at, record.ended_at)
    assert attempt.ended_unwatched
    assert (the_cluster().outage_from, the_cluster().outage_until) == (None, None)
    assert "1 executions" in Event.objects.get(verb="cluster.outage_repaired").reason


def test_a_failure_in_a_gap_is_a_case_for_a_person_and_no_requeue(accounted: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    accounted.now += timedelta(seconds=GAP_S)
    accounted.log.write_text(f"[rank1]: host n1 pid 101\n{ECC}\n")
    forgotten(accounted)
    accounted.tick(times=8)
    incident = Incident.objects.get()
    row = accounted.recommendation
    assert (incident.failure_class, incident.attempt.job.job_id) == ("gpu_hardware", "7")
    assert row.action == ActionKind.NOTHING
    assert "Slurm no longer knows this job" in row.headline
    assert not Decision.objects.exists()
    assert accounted.slurm.calls == []


def test_a_failure_in_a_gap_is_submitted_anew_where_accounting_keeps_the_script(
    accounted: Desk, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy(gpu_hardware="auto")
    monkeypatch.setattr(accounted.slurm, "batch_script", lambda job_id: "#!/bin/sh\ntrue\n")
    accounted.now += timedelta(seconds=GAP_S)
    accounted.log.write_text(f"[rank1]: host n1 pid 101\n{ECC}\n")
    forgotten(accounted)
    accounted.tick(times=8)
    assert accounted.recommendation.action == ActionKind.RESUBMIT
    assert accounted.recommendation.parameters["forgotten"]
    assert Incident.objects.get().state == IncidentState.AWAITING_DECISION
    assert accounted.slurm.calls == []


def test_by_hand_too_it_is_submitted_as_one_that_slurm_has_forgotten(
    accounted: Desk, policy: Policy, operator: User, approver: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy(user_code="approve")
    monkeypatch.setattr(accounted.slurm, "batch_script", lambda job_id: SCRIPT)
    accounted.now += timedelta(seconds=GAP_S)
    accounted.log.write_text("[rank1]: host n1 pid 101\nTraceback (most recent call last):\nValueError: lr\n")
    forgotten(accounted)
    accounted.tick(times=8)
    case = Case(accounted, operator, approver)
    assert accounted.recommendation.action == ActionKind.NOTHING
    assert case.propose(ActionKind.RESUBMIT).parameters["forgotten"]


def test_its_time_is_in_the_ledger(accounted: Desk) -> None:
    accounted.now += timedelta(seconds=GAP_S)
    record = forgotten(accounted, state=JobState.COMPLETED, exit_code=0)
    accounted.tick(times=8)
    assert record.ended_at is not None
    rows = LedgerEntry.objects.filter(run=Run.objects.get())
    seconds = sum((row.end_us - row.start_us) / 1e6 for row in rows)
    assert seconds >= (record.ended_at - record.submitted_at).total_seconds()


@pytest.mark.parametrize("gap_s", [30.0, 250.0], ids=["a blink", "Slurm remembers"])
def test_a_gap_in_which_nothing_is_forgotten_costs_no_question(accounted: Desk, gap_s: float) -> None:
    Cluster.objects.update(health_at=None)  # MinJobAge is told with it
    accounted.now += timedelta(seconds=gap_s)
    forgotten(accounted, ago_s=1)
    after_a_gap(accounted, times=3)
    assert asked(accounted) == 0
    assert not Job.objects.exists()


def test_a_gap_is_asked_about_once(accounted: Desk) -> None:
    accounted.now += timedelta(seconds=GAP_S)
    after_a_gap(accounted, times=5)
    assert asked(accounted) == 1


def test_the_first_picture_ever_asks_nothing(desk: Desk) -> None:
    desk.slurm.accounting = True
    forgotten(desk)
    after_a_gap(desk, times=3)
    assert asked(desk) == 0
    assert not Job.objects.exists()


def test_the_first_picture_of_another_controller_asks_nothing(accounted: Desk) -> None:
    accounted.now += timedelta(seconds=GAP_S)
    Cluster.objects.update(options={"slurm_conf": "/etc/slurm/other.conf"}, outage_from=accounted.now)
    forgotten(accounted)
    after_a_gap(accounted, times=3)
    assert asked(accounted) == 0


def test_accounting_that_is_silent_is_asked_again(accounted: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    accounted.now += timedelta(seconds=GAP_S)
    forgotten(accounted)
    with monkeypatch.context() as silence:
        silence.setattr(accounted.slurm, "ended_between", hang)
        after_a_gap(accounted, times=4)
    assert not Job.objects.exists()
    assert the_cluster().outage_from is not None
    poll(accounted, seconds=60)
    assert Attempt.objects.get().exit_code == 3
    assert the_cluster().outage_from is None


def hang(start: datetime, end: datetime) -> list[JobRecord]:
    raise HANGS


def refuse(start: datetime, end: datetime) -> list[JobRecord]:
    raise SlurmRefused("Access/permission denied", tried="sacct", permanent=True)


def test_a_worker_that_dies_in_the_middle_loses_and_doubles_nothing(
    accounted: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounted.now += timedelta(seconds=GAP_S)
    forgotten(accounted)
    with monkeypatch.context() as death:
        death.setattr(outage, "_record", die)
        with pytest.raises(KeyboardInterrupt):
            after_a_gap(accounted)
    assert not Job.objects.exists()
    after_a_gap(accounted, times=3)
    assert (Job.objects.count(), Attempt.objects.count()) == (1, 1)


def die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("how", ["none", "refuses", "no call", "too long ago"])
def test_where_nobody_can_tell_it_is_written_down(accounted: Desk, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    accounted.now += timedelta(days=8 if how == "too long ago" else 0, seconds=GAP_S)
    if how == "none":
        accounted.slurm.accounting = False
    elif how == "refuses":
        monkeypatch.setattr(accounted.slurm, "ended_between", refuse)
    elif how == "no call":
        accounted.slurm.denied.add(Operation.ENDED_BETWEEN)
    after_a_gap(accounted, times=2 if how != "too long ago" else 40)
    (event,) = Event.objects.filter(verb="cluster.outage_not_repaired")
    assert "was never seen" in event.reason
    assert the_cluster().outage_from is None


def test_jobs_that_are_known_are_not_doubled(accounted: Desk) -> None:
    """One that ended before the gap, one that ended in it, one that is listed still."""
    for job_id in ("1", "2", "3"):
        accounted.submit(job_id)
        accounted.slurm.start(job_id)
    accounted.slurm.end("1")
    poll(accounted)
    before = Attempt.objects.count()
    accounted.now += timedelta(seconds=60)
    accounted.slurm.end("2")
    accounted.now += timedelta(seconds=GAP_S - 120)
    accounted.slurm.end("3")
    accounted.now += timedelta(seconds=60)
    accounted.slurm.forgotten += [accounted.slurm.table.pop(job_id) for job_id in ("1", "2")]
    after_a_gap(accounted, times=3)
    assert asked(accounted) == 1
    assert (Job.objects.count(), Attempt.objects.count()) == (3, before)


def test_a_known_job_that_was_put_back_in_the_gap_gets_its_later_executions(accounted: Desk) -> None:
    accounted.submit("1")
    accounted.slurm.start("1")
    poll(accounted)
    first = accounted.slurm.table.pop("1")
    accounted.now += timedelta(seconds=GAP_S)
    put_back = first.submitted_at + timedelta(seconds=100)
    accounted.slurm.forgotten += [
        replace(first, state=JobState.NODE_FAIL, ended_at=put_back, exit_code=0),
        replace(
            first, state=JobState.FAILED, submitted_at=put_back, started_at=put_back + timedelta(seconds=7),
            ended_at=put_back + timedelta(seconds=20), exit_code=9,
        ),
    ]  # fmt: skip
    after_a_gap(accounted)
    job = Job.objects.get()
    assert (job.state, job.restart_count, job.submitted_at) == (JobState.FAILED, 1, put_back)
    assert list(job.attempts.values_list("number", "exit_code")) == [(0, None), (1, 9)]


def test_executions_of_one_job_are_one_job_and_the_last_is_judged(accounted: Desk) -> None:
    accounted.now += timedelta(seconds=GAP_S)
    second = forgotten(accounted, ago_s=300)
    accounted.slurm.forgotten.insert(
        0, replace(second, state=JobState.REQUEUED, submitted_at=second.submitted_at - timedelta(seconds=500),
                   started_at=second.submitted_at - timedelta(seconds=490), ended_at=second.submitted_at)
    )  # fmt: skip
    after_a_gap(accounted)
    job = Job.objects.get()
    assert (job.restart_count, job.first_submitted_at) == (1, second.submitted_at - timedelta(seconds=500))
    first, last = job.attempts.order_by("number")
    assert (first.state, first.closed_at is not None) == (JobState.REQUEUED, True)
    assert (last.state, last.closed_at) == (JobState.FAILED, None)


def test_an_id_that_slurm_gave_anew_is_another_job(accounted: Desk) -> None:
    accounted.submit("7")
    accounted.slurm.end("7")
    poll(accounted)
    accounted.slurm.table.clear()
    poll(accounted)
    accounted.now += timedelta(days=3)
    forgotten(accounted, "7")
    after_a_gap(accounted, times=13)
    assert Job.objects.filter(job_id="7").count() == 2


def test_a_long_gap_is_told_slice_by_slice(accounted: Desk) -> None:
    hours = outage.SLICE.total_seconds() / 3600
    accounted.now += timedelta(hours=4 * hours, minutes=-5)
    for number in range(4):
        forgotten(accounted, str(number + 1), ago_s=3600 * hours * number + 1800)
    poll(accounted)
    assert [job.job_id for job in Job.objects.all()] == ["4"]  # the oldest first
    after_a_gap(accounted, times=4)
    assert Job.objects.count() == 4
    assert asked(accounted) == 4
    assert the_cluster().outage_from is None


def test_a_flood_is_cut_and_that_is_said(accounted: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "MOST", 3)
    accounted.now += timedelta(seconds=GAP_S)
    for number in range(5):
        forgotten(accounted, str(number + 1), ago_s=1000 - number)
    after_a_gap(accounted, times=2)
    assert set(Job.objects.values_list("job_id", flat=True)) == {"3", "4", "5"}
    assert "2 more, which ended earlier, were left out" in Event.objects.get(verb="cluster.outage_repaired").reason


def test_as_many_statements_for_many_as_for_few(accounted: Desk) -> None:
    counts = []
    for some in (2, 20):
        accounted.now += timedelta(seconds=GAP_S)
        accounted.slurm.forgotten.clear()
        for number in range(some):
            forgotten(accounted, f"{some}{number:02}")
        with CaptureQueriesContext(connection) as queries:
            after_a_gap(accounted)
        counts.append(len(queries))
    assert Job.objects.count() == 22
    assert counts[0] == counts[1]


def test_a_usual_poll_takes_no_statement_more(accounted: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            poll(accounted)
        return len(queries)

    with_it = count()
    monkeypatch.setattr("recovery.pipeline.poll.repair_outage", lambda *_, **__: 0)
    monkeypatch.setattr("recovery.pipeline.poll.outage_fields", lambda *_, **__: {})
    assert with_it == count()
