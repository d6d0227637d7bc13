"""Two real clusters in one federation: each job is one cluster's, and what is another's is left alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from recovery.access import actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.types import ActionKind, JobState
from recovery.demo.lab import SlurmLab
from recovery.demo.processes import wait_until
from recovery.models import Attempt, Cluster, Incident, Job, Recommendation
from recovery.pipeline import reconcile, repair, veto
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.verify import ELSEWHERE_NOW
from recovery.slurm import federation as rules
from recovery.slurm.base import AttemptRecord, JobNotFound, JobRecord, SlurmClient
from tests.slurm import federation_lab
from tests.slurm.federation_lab import SLEEPS, Federation, commands, shown, slurmrestd
from tests.slurm.test_each_action_real import FAILS, RealDesk

pytestmark = [pytest.mark.slurm, pytest.mark.accounting, pytest.mark.slurmrestd, pytest.mark.django_db]
two_clusters, federation = federation_lab.two_clusters, federation_lab.federation

NO_ID = str(rules.NO_ID)


class Desks(RealDesk):
    """One desk with both clusters. `lab` is `fb`, where its jobs run; they are submitted on `fa`."""

    def __init__(self, fed: Federation, folder: Path, operator: Any, approver: Any) -> None:
        self.fed = fed
        self._clients = {"fa": commands(fed.a), "fb": commands(fed.b)}
        now = reconcile.utc_now()
        Cluster.objects.create(name="fa", backend="cli", poll_interval_s=0.3, next_look_at=now)
        super().__init__(fed.b, self._clients["fb"], folder, operator, approver)
        Cluster.objects.filter(name="lab").update(name="fb")

    def tick(self) -> None:
        reconcile.tick(client_for=lambda c: self._clients.get(c.name, self.client), clock=reconcile.utc_now)

    def job(self, cluster: str, job_id: str) -> Job:
        return Job.objects.get(cluster__name=cluster, job_id=job_id)

    def attempts(self, job_id: str) -> list[tuple[str, int, str]]:
        rows = Attempt.objects.filter(job__job_id=job_id).order_by("job__cluster__name", "number")
        return list(rows.values_list("job__cluster__name", "number", "state"))

    def states(self, job_id: str) -> dict[str, str]:
        rows = Job.objects.filter(job_id=job_id).order_by("cluster__name")
        return dict(rows.values_list("cluster__name", "state"))


@pytest.fixture
def desks(
    federation: Federation, tmp_path: Path, settings: Settings, operator: Any, approver: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Desks:  # fmt: skip
    tmp_path.chmod(0o755)
    settings.SETTLE_S, settings.TICK_S, settings.HANG_FLOOR_S, settings.HANG_FIRST_STEP_S = 1, 0.3, 600, 600
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    monkeypatch.setattr(veto, "IN_HEALTH", timedelta(0))
    monkeypatch.setattr(repair, "ASK_EVERY", timedelta(seconds=1))
    federation.steer_to(federation.b)
    return Desks(federation, tmp_path, actor_for(operator), actor_for(approver))


def clients(lab: SlurmLab) -> tuple[SlurmClient, SlurmClient]:
    return commands(lab), slurmrestd(lab)


def seen(client: SlurmClient, job_id: str) -> JobRecord:
    """By its id, and in the list, which has it once and nothing without an id."""
    jobs = client.jobs()
    (found,) = [record for record in jobs if record.job_id == job_id]
    assert NO_ID not in {record.job_id for record in jobs}
    alone = client.job(job_id)
    assert (alone.state, alone.origin, alone.copy) == (found.state, found.origin, found.copy)
    return found


def runs_on(lab: SlurmLab, job_id: str) -> None:
    assert wait_until(lambda: shown(lab, job_id, "State") == "RUNNING", timeout_s=30), shown(lab, job_id, "State")


def test_each_back_end_of_each_cluster_tells_whose_a_job_is(federation: Federation, tmp_path: Path) -> None:
    a, b = federation.a, federation.b
    federation.steer_to(b)
    job = federation.submit(a, SLEEPS, tmp_path)
    own = federation.submit(b, SLEEPS, tmp_path)
    waits = federation.submit(a, SLEEPS, tmp_path)
    runs_on(b, job)
    runs_on(b, own)
    assert int(job) > rules.FIRST_ID < int(own)
    if "22.05" in a.run("scontrol", "-V"):  # 24.05 leaves none
        assert wait_until(lambda: shown(a, NO_ID, "State") == "REVOKED", timeout_s=10), "no record without an id"
    for client in clients(b):
        there = seen(client, job)
        assert (there.state, there.origin, there.copy, there.nodes) == (JobState.RUNNING, "fa", False, there.nodes)
        assert len(there.nodes) == 1
        assert (seen(client, own).origin, seen(client, own).federated) == ("", True)
        copy = seen(client, waits)
        assert (copy.state, copy.origin, copy.copy) == (JobState.PENDING, "fa", True)
        for unknown in ("4711", "67108999"):
            with pytest.raises(JobNotFound):
                client.job(unknown)
    for client in clients(a):
        tracker = seen(client, job)
        assert (tracker.state, tracker.origin, tracker.nodes) == (JobState.REVOKED, "", ())
        assert (tracker.started_at, tracker.ended_at, tracker.exit_code) == (None, None, None)
        assert (seen(client, waits).state, seen(client, waits).copy) == (JobState.PENDING, False)
        with pytest.raises(JobNotFound):
            client.job(own)
    assert {node.name for node in commands(b).nodes()} == {"n1", "n2"}
    health = commands(b).health()
    assert (health.federation, health.siblings) == ("fed", ("fa",))
    since = reconcile.utc_now() - timedelta(minutes=5)

    def past(lab: SlurmLab) -> list[AttemptRecord]:
        return commands(lab).attempts([job], since=since).get(job, [])

    assert wait_until(lambda: [each.state for each in past(b)] == [JobState.RUNNING], timeout_s=10), past(b)
    here = past(a)
    assert [(attempt.state, attempt.started_at) for attempt in here] == [(JobState.REVOKED, None)]
    a.run("scancel", waits)
    assert wait_until(lambda: commands(a).job(waits).state is JobState.CANCELLED, timeout_s=10)
    b.run("scancel", own)

    def over(lab: SlurmLab) -> dict[str, tuple[JobState, str]]:
        """What accounting alone tells, as after an outage: how it ended, and where it was submitted."""
        found = commands(lab).ended_between(since, reconcile.utc_now())
        return {record.job_id: (record.state, record.origin) for record in found}

    assert wait_until(lambda: over(a).get(job) == (JobState.REVOKED, ""), timeout_s=20), over(a)
    assert wait_until(lambda: over(b).get(own) == (JobState.CANCELLED, ""), timeout_s=20), over(b)
    b.run("scancel", job)
    assert wait_until(lambda: over(b).get(job) == (JobState.CANCELLED, "fa"), timeout_s=20), over(b)


def test_what_is_put_back_and_moves_is_followed_by_each_cluster_for_its_part(desks: Desks) -> None:
    """One job by an administrator, and one by us: its case ends with a person, and no exclusion is set from here."""
    fed = desks.fed
    moved = fed.submit(fed.a, SLEEPS, desks.folder, run="bert")
    desks.until(lambda: desks.states(moved) == {"fa": "revoked", "fb": "running"})
    assert (desks.job("fa", moved).origin, desks.job("fb", moved).origin) == ("", "fa")
    restarted = fed.submit(fed.a, FAILS, desks.folder)
    desks.until_asked()
    failed = desks.incident.attempt
    assert (failed.job.job_id, failed.job.cluster.name, failed.state) == (restarted, "fb", "failed")
    assert not Incident.objects.exclude(attempt__job__cluster__name="fb").exists()
    asked = Recommendation.objects.get(superseded_at=None)
    assert (asked.action, asked.exclude_nodes) == (ActionKind.REQUEUE, [])
    assert any("any cluster of its federation" in reason for reason in asked.reasons)
    with pytest.raises(Invalid, match="submitted on cluster fa"):
        desks.propose(ActionKind.REQUEUE_EXCLUDING, tuple(failed.nodes))

    fed.steer_to(fed.a)
    fed.b.run("scontrol", "requeue", moved)
    desks.carry_out(asked)
    there = {"fa": "running", "fb": "revoked"}
    desks.until(lambda: desks.states(moved) == desks.states(restarted) == there)
    assert {shown(fed.a, job, "RestartCnt") for job in (moved, restarted)} == {"1"}
    assert desks.attempts(moved) == [
        ("fa", 0, "revoked"), ("fa", 1, "running"), ("fb", 0, "requeued"), ("fb", 1, "revoked"),
    ]  # fmt: skip
    cases = Incident.objects.filter(attempt__job__job_id=restarted)
    desks.until(lambda: cases.get().state == IncidentState.NEEDS_PERSON)
    assert cases.get().alarm == ELSEWHERE_NOW
    assert not Incident.objects.filter(attempt__job__cluster__name="fa").exists()


def test_the_cluster_where_a_job_was_submitted_requeues_it_without_its_node(desks: Desks) -> None:
    fed = desks.fed
    job = fed.submit(fed.b, FAILS, desks.folder)
    desks.until_asked()
    (node,) = desks.incident.attempt.nodes
    action = desks.do(ActionKind.REQUEUE_EXCLUDING, (node,))
    assert [call["operation"] for call in action.calls][-2:] == ["set_excluded_nodes", "release"]
    runs_on(fed.b, job)
    desks.until(lambda: desks.incident.new_attempt is not None)
    assert shown(fed.b, job, "NodeList") != node
