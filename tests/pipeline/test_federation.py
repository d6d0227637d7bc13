"""A cluster of a federation: what is another one's is not its own, and what moved is said to have moved."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery.access import actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.types import ActionKind, JobState
from recovery.models import Action, Attempt, Cluster, Event, Incident, Job, Run
from recovery.pipeline import decide, others, poll, proposals, scripts, verify
from recovery.slurm.base import ENDED_ELSEWHERE, IS_ELSEWHERE, AttemptRecord, Health, JobRecord
from tests.pipeline.conftest import START, Desk

S = JobState
JOB = "67108867"


@pytest.fixture
def fed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """On the cluster `fb`, of which `fa` is the origin of most jobs."""
    health = Health(
        release="22.05.8", accounting=True, requeue_delay_s=6, latency_s=0, federation="fed", siblings=("fa",)
    )
    monkeypatch.setattr(desk.slurm, "health", lambda: health)
    desk.slurm.accounting = True
    return desk


def look(fed: Desk) -> None:
    fed.now += timedelta(seconds=2)
    assert poll.poll_cluster(Cluster.objects.get(name="lab"), client=fed.slurm, now=fed.now).observed


def enter(fed: Desk, state: JobState, **fields: Any) -> None:
    fed.submit(JOB, state=state, federated=True, **{"origin": "fa", "submitted_at": START, **fields})


def state_of(job_id: str = JOB) -> str:
    return Job.objects.get(job_id=job_id).state


def test_what_only_waits_here_beside_its_origin_is_not_this_clusters_job(fed: Desk) -> None:
    enter(fed, S.PENDING, copy=True)
    look(fed)
    assert not Job.objects.exists()
    assert Cluster.objects.get().federation == "fed"
    enter(fed, S.RUNNING, started_at=fed.now, nodes=("n1",))
    look(fed)
    assert (state_of(), Job.objects.get().origin) == (S.RUNNING, "fa")
    enter(fed, S.PENDING, copy=True, restart_count=1, submitted_at=fed.now)  # it was put back, and may come back here
    look(fed)
    assert (state_of(), Attempt.objects.count()) == (S.PENDING, 2)


def test_a_federation_that_is_not_told_once_is_not_left(fed: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """`scontrol show federation` may time out: a run that goes on on another cluster must be seen all the same."""
    cluster, told = Cluster.objects.get(), fed.slurm.health()
    for said, known in (("fed", "fed"), (None, "fed"), ("", "")):
        monkeypatch.setattr(fed.slurm, "health", lambda said=said: replace(told, federation=said))
        Cluster.objects.update(health_at=None)
        look(fed)
        cluster.refresh_from_db()
        assert cluster.federation == known
    Cluster.objects.update(federation="fed", jobs_mark_of="another way, perhaps to another cluster")
    monkeypatch.setattr(fed.slurm, "health", lambda: replace(told, federation=None))
    look(fed)
    cluster.refresh_from_db()
    assert cluster.federation == ""


def test_a_copy_that_started_elsewhere_is_told_so_by_accounting(fed: Desk) -> None:
    enter(fed, S.RUNNING, started_at=fed.now, nodes=("n1",))
    look(fed)
    enter(fed, S.PENDING, copy=True, restart_count=1, submitted_at=fed.now)
    look(fed)
    put_back = fed.slurm.table.pop(JOB)
    fed.slurm.history = [
        AttemptRecord(job_id=JOB, number=1, state=S.REVOKED, submitted_at=put_back.submitted_at, ended_at=fed.now)
    ]
    look(fed)
    assert state_of() == S.REVOKED
    fed.tick(times=3)
    assert not Incident.objects.exclude(attempt__number=0).exists()
    assert fed.incident.alarm.startswith(verify.ELSEWHERE_NOW)


def test_a_job_that_another_cluster_had_may_come_back_as_the_same_attempt(fed: Desk) -> None:
    enter(fed, S.REVOKED, origin="")
    look(fed)
    fed.tick(times=2)
    enter(fed, S.RUNNING, origin="", started_at=fed.now, nodes=("n1",))
    look(fed)
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.closed_at) == (S.RUNNING, None)


def test_a_job_from_elsewhere_is_cancelled_when_two_pictures_say_so(fed: Desk) -> None:
    """When its origin puts it back it reads CANCELLED for a moment."""
    fed.slurm.marks = True
    enter(fed, S.RUNNING, started_at=fed.now, nodes=("n1",))
    look(fed)
    enter(fed, S.CANCELLED, started_at=fed.now, ended_at=fed.now, nodes=("n1",))
    look(fed)
    assert (state_of(), Attempt.objects.get().state) == (S.COMPLETING, S.COMPLETING)
    look(fed)
    assert (state_of(), Attempt.objects.get().state) == (S.CANCELLED, S.CANCELLED)


def test_what_was_believed_to_be_cancelled_is_not_doubted_again(fed: Desk) -> None:
    """Its record may change all the same, and the key of all records does with an upgrade."""
    enter(fed, S.CANCELLED, started_at=fed.now, ended_at=fed.now, nodes=("n1",))
    look(fed)
    fed.slurm.table[JOB] = replace(fed.slurm.table[JOB], partition="other")
    look(fed)
    assert (state_of(), Job.objects.get().partition) == (S.CANCELLED, "other")


def test_a_job_from_elsewhere_that_is_put_back_was_never_cancelled(fed: Desk) -> None:
    enter(fed, S.RUNNING, started_at=fed.now, nodes=("n1",))
    look(fed)
    enter(fed, S.CANCELLED, started_at=fed.now, ended_at=fed.now, nodes=("n1",))
    look(fed)
    enter(fed, S.PENDING, copy=True, restart_count=1, submitted_at=fed.now)
    look(fed)
    assert list(Attempt.objects.order_by("number").values_list("state", flat=True)) == [S.REQUEUED, S.PENDING]
    assert not Event.objects.filter(verb="job.vanished").exists()


def test_how_an_attempt_ended_stays_when_its_record_loses_its_place(fed: Desk) -> None:
    """Between a requeue and the copy that follows it."""
    enter(fed, S.RUNNING, started_at=fed.now, nodes=("n1",))
    look(fed)
    enter(fed, S.FAILED, started_at=fed.now, ended_at=fed.now, exit_code=3, nodes=("n1",))
    look(fed)
    enter(fed, S.REVOKED, copy=True)
    look(fed)
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.exit_code) == (S.FAILED, 3)


def case(fed: Desk, **fields: Any) -> Incident:
    """A job that failed here, with its case."""
    enter(fed, S.RUNNING, started_at=fed.now, nodes=("n1", "n2"), **fields)
    look(fed)
    fed.log.write_text("CUDA error: uncorrectable ECC error encountered\n")
    record = fed.slurm.table[JOB]
    enter(fed, S.FAILED, started_at=record.started_at, ended_at=fed.now, exit_code=1, nodes=("n1", "n2"), **fields)
    fed.tick_until(lambda: Incident.objects.exclude(recommendations=None).exists())
    return fed.incident


def test_a_restart_that_went_to_another_cluster_ends_with_a_person(fed: Desk) -> None:
    incident = case(fed)
    Incident.objects.update(state=IncidentState.RESTORING, acted_at=fed.now)
    Job.objects.update(state=S.REVOKED)
    incident.refresh_from_db()
    verify.verify_incident(incident, now=fed.now)
    incident.refresh_from_db()
    assert (incident.state, incident.alarm.startswith(verify.ELSEWHERE_NOW)) == (IncidentState.NEEDS_PERSON, True)
    assert incident.verification[0]["seen"] == f"Job {JOB} is with another cluster of the federation."


@pytest.mark.parametrize(
    ("state", "reason", "listed", "blocks"),
    [
        (S.RUNNING, "", True, True),
        (S.REVOKED, IS_ELSEWHERE, True, True),
        (S.REVOKED, ENDED_ELSEWHERE, True, False),
        (S.REVOKED, IS_ELSEWHERE, False, False),
    ],
)
@pytest.mark.parametrize("where", ["lab", "fa", "alien"])
def test_a_run_that_goes_on_on_another_cluster_of_the_federation_is_not_started_twice(
    fed: Desk, where: str, state: JobState, reason: str, listed: bool, blocks: bool
) -> None:
    incident = case(fed)
    old, now = incident.attempt.job, fed.now
    if where != "lab":
        federation = "fed" if where == "fa" else ""
        Cluster.objects.create(name=where, backend="cli", federation=federation, next_look_at=now)
    cluster = Cluster.objects.get(name=where)
    made = {"name": "x", "user": "ada", "created_at": now}
    run, _ = Run.objects.get_or_create(cluster=cluster, key=incident.run.key, defaults=made)
    other = Job.objects.create(
        cluster=cluster, run=run, job_id="134217730", first_submitted_at=now, submitted_at=now, seen_at=now,
        state=state, state_reason=reason, listed=listed,
    )  # fmt: skip
    started = now if state is S.RUNNING else None
    Attempt.objects.create(job=other, number=0, state=state, submitted_at=now, seen_at=now, started_at=started)
    found = others.in_the_way(ActionKind.REQUEUE, old, others.in_picture(incident, old), incident)
    assert (found is not None) is (blocks and where != "alien")


@pytest.mark.parametrize("after_fault", [False, True])
def test_what_another_cluster_took_before_the_fault_ran_beside_it(fed: Desk, after_fault: bool) -> None:
    """An evaluation of the same run, say: it is nobody's restart of the job that failed since."""
    mate = JobRecord(
        job_id="67108868", name="eval", user="ada", state=S.REVOKED, state_reason=IS_ELSEWHERE, submitted_at=START,
        federated=True, comment='{"recovery": {"run": "llama"}}',
    )  # fmt: skip
    enter(fed, S.PENDING, origin="", comment=mate.comment)
    if not after_fault:
        fed.slurm.table[mate.job_id] = mate
    look(fed)
    incident = case(fed, origin="", comment=mate.comment)
    fed.slurm.table[mate.job_id] = mate
    look(fed)
    job, blocks = incident.attempt.job, after_fault
    pictured = others.in_picture(incident, job)
    action = Action(incident=incident, key="k")
    read = others.in_records(action, job, fed.slurm.jobs())
    assert [other.job_id for other in pictured] == [other.job_id for other in read] == [mate.job_id]
    for found in (pictured, read):
        assert (others.in_the_way(ActionKind.REQUEUE, job, found, incident) is not None) is blocks


def test_a_failed_job_that_is_gone_from_here_is_not_called_forgotten(fed: Desk) -> None:
    """It may have been put back, and have started elsewhere, between two looks."""
    incident = case(fed)
    assert fed.recommendation.action == ActionKind.REQUEUE
    del fed.slurm.table[JOB]
    fed.tick_until(lambda: fed.recommendation.action == ActionKind.NOTHING)
    assert "another cluster may have it" in fed.recommendation.headline
    assert Event.objects.filter(
        subject_id=str(incident.pk), reason__contains="another cluster of the federation may"
    ).exists()


def test_here_an_attempt_is_over_when_another_cluster_took_the_job(fed: Desk) -> None:
    enter(fed, S.PENDING, origin="")
    look(fed)
    enter(fed, S.REVOKED, origin="", state_reason=IS_ELSEWHERE)
    look(fed)
    taken = fed.now
    look(fed)
    enter(fed, S.REVOKED, origin="", state_reason=ENDED_ELSEWHERE, ended_at=fed.now)
    look(fed)
    assert Attempt.objects.get().ended_at == taken


def test_a_failed_job_that_another_cluster_took_while_nobody_looked_is_not_submitted_again(
    fed: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was put back, ran there to its end, and both was forgotten here: accounting tells of it alone."""
    monkeypatch.setattr(fed.slurm, "batch_script", lambda job_id: "#!/bin/sh\ntrue\n")
    enter(fed, S.RUNNING, origin="", started_at=fed.now, nodes=("n1", "n2"))
    look(fed)
    fed.log.write_text("CUDA error: uncorrectable ECC error encountered\n")
    enter(fed, S.FAILED, origin="", started_at=fed.now, ended_at=fed.now, exit_code=1, nodes=("n1", "n2"))
    fed.tick_until(lambda: Incident.objects.exclude(recommendations=None).exists())
    failed = fed.slurm.table.pop(JOB)
    moved = fed.now.replace(microsecond=0) + timedelta(seconds=900)
    taken = replace(failed, state=S.REVOKED, submitted_at=moved, started_at=None, ended_at=moved, nodes=())
    fed.slurm.forgotten += [taken, replace(taken, job_id="67108999")]
    fed.now += timedelta(seconds=1800)
    look(fed)
    fed.tick(times=4)
    assert (state_of(), Job.objects.count()) == (S.REVOKED, 1)
    assert (fed.incident.state, fed.incident.alarm) == (IncidentState.NEEDS_PERSON, verify.ELSEWHERE_NOW)


def test_people_are_not_offered_what_only_the_origin_can_do(fed: Desk) -> None:
    attempt = case(fed).attempt
    assert "submitted on cluster fa" in scripts.why_not_resubmitted(attempt.job, client=fed.slurm)
    kinds = set(proposals.offered(attempt))
    assert ActionKind.REQUEUE in kinds
    assert not kinds & {ActionKind.REQUEUE_EXCLUDING, ActionKind.RESTORE_OLDER, ActionKind.HOLD}
    attempt.state = S.REVOKED
    assert ActionKind.REQUEUE not in proposals.offered(attempt)


def test_nothing_is_asked_of_a_job_whose_origin_is_out_of_step(
    fed: Desk, policy: Any, approver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A requeue that reached a controller which was just starting left the job on neither cluster (22.05)."""
    policy(gpu_hardware="approve")
    case(fed)
    told = fed.slurm.health()
    monkeypatch.setattr(fed.slurm, "health", lambda: replace(told, unsynced=("fa",)))
    row = fed.recommendation
    decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(approver), now=fed.now)
    fed.tick(times=3)
    action = Action.objects.get()
    assert (action.calls, "Cluster fa of the federation" in action.detail) == ([], True)
    monkeypatch.setattr(fed.slurm, "health", lambda: replace(told, unsynced=("fc",)))
    fed.tick(times=2)
    assert Action.objects.get().calls[0]["operation"] == "requeue"


def test_what_the_origin_has_accepted_is_not_asked_of_it_again(
    fed: Desk, policy: Any, approver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the job went does not always show here: a second requeue would end it on the cluster that runs it."""
    policy(gpu_hardware="approve")
    case(fed)
    asked: list[str] = []
    monkeypatch.setattr(fed.slurm, "requeue", lambda job_id, *, hold: asked.append(job_id))
    row = fed.recommendation
    decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(approver), now=fed.now)
    fed.tick_until(lambda: bool(Action.objects.get().detail))
    assert "Cluster fa of the federation has accepted it" in Action.objects.get().detail
    fed.tick(seconds=20, times=20)
    assert (asked, Action.objects.get().state, fed.incident.state) == ([JOB], "failed", IncidentState.NEEDS_PERSON)
    assert "Cluster fa of the federation has accepted it" in fed.incident.alarm


def test_an_execution_that_was_another_clusters_is_not_called_unknown(
    fed: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accounting tells of it, where it is asked from when the job was first submitted, elsewhere."""
    look(fed)
    there = Cluster.objects.create(name="fa", backend="cli", federation="fed", next_look_at=fed.now)
    before = fed.now - timedelta(days=2)
    run = Run.objects.create(cluster=there, key="k", name="x", user="ada", created_at=before)
    times = {"first_submitted_at": before, "submitted_at": before, "seen_at": fed.now}
    Job.objects.create(cluster=there, run=run, job_id=JOB, state=S.REVOKED, **times)
    enter(fed, S.RUNNING, restart_count=1, submitted_at=fed.now, started_at=fed.now, nodes=("n1",))
    told = [
        AttemptRecord(job_id=JOB, number=0, state=S.REVOKED, submitted_at=before, ended_at=before),
        AttemptRecord(job_id=JOB, number=1, state=S.RUNNING, submitted_at=fed.now, started_at=fed.now),
    ]
    monkeypatch.setattr(
        fed.slurm, "attempts", lambda ids, *, since: {JOB: [each for each in told if since <= each.submitted_at]}
    )
    look(fed)
    look(fed)
    first, second = Job.objects.get(cluster__name="lab").attempts.order_by("number")
    assert (first.state, first.started_at, second.state) == (S.REVOKED, None, S.RUNNING)
