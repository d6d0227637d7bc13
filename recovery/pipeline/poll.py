"""Stage 1, poll: what the scheduler says of jobs, attempts and nodes, stored as it was said.

An error, a partial answer, or an empty list where there were jobs is no observation: nothing changes but the
cluster's own error, and the picture ages.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Job, Node
from recovery.pipeline.store_jobs import store_jobs
from recovery.slurm.base import (
    AttemptRecord,
    JobNotFound,
    JobRecord,
    NodeRecord,
    SlurmClient,
    SlurmError,
    SlurmUnreachable,
)

HEALTH_EVERY = timedelta(minutes=5)  # release and configuration change with restarts of the controller only
CONFIRMATIONS = 5  # so many jobs are asked for one by one before an empty list is believed


@dataclass(frozen=True, kw_only=True, slots=True)
class PollOutcome:
    observed: bool
    jobs: int = 0
    error: str = ""


def poll_cluster(cluster: Cluster, *, client: SlurmClient, now: datetime) -> PollOutcome:
    """Take one picture of `cluster` and store what differs."""
    try:
        _refresh_health(cluster, client=client, now=now)
        jobs = client.jobs()
        nodes = client.nodes()
        _believe_or_raise(cluster, jobs, client=client)
    except SlurmError as error:
        _record_failure(cluster, str(error), now=now)
        return PollOutcome(observed=False, error=str(error))
    with transaction.atomic():
        _store_nodes(cluster, nodes, now=now)
        store_jobs(cluster, jobs, now=now)
        if cluster.error:
            audit.record("cluster.answers_again", actor=SYSTEM, at=now, subject_kind="cluster", subject_id=cluster.pk)
        cluster.seen_at = cluster.tried_at = now
        cluster.error = ""
        cluster.save(update_fields=["seen_at", "tried_at", "error", "release", "accounting", "requeue_delay_s"])
    return PollOutcome(observed=True, jobs=len(jobs))


def enrich_attempt(attempt: Attempt, *, client: SlurmClient, now: datetime) -> None:
    """Ask accounting how an ended attempt really ended. Silence of accounting means unknown, never gone."""
    job = attempt.job
    if not job.cluster.accounting:
        return
    try:
        found = client.attempts([job.job_id], since=job.first_submitted_at - timedelta(minutes=1))
    except SlurmError:
        return  # asked again at the next look, as long as the attempt is open
    record = next((r for r in found.get(job.job_id, ()) if _is_of(r, attempt)), None)
    if record is None or not record.state.is_terminal:
        return
    attempt.step_exit_codes = list(record.step_exit_codes)
    attempt.cancelled_by = record.cancelled_by or attempt.cancelled_by
    attempt.ended_at = attempt.ended_at or record.ended_at or now
    if not JobState(attempt.state).is_terminal or attempt.state == JobState.REQUEUED:
        attempt.state = record.state
    # Debian's 22.05 keeps a requeued attempt's true exit code here, while the queue shows the new attempt's.
    if attempt.exit_code is None:
        attempt.exit_code, attempt.exit_signal = record.exit_code, record.exit_signal
    if not attempt.nodes:
        attempt.nodes = list(record.nodes)
    attempt.save(
        update_fields=["step_exit_codes", "cancelled_by", "ended_at", "state", "exit_code", "exit_signal", "nodes"]
    )


def _is_of(record: AttemptRecord, attempt: Attempt) -> bool:
    return abs((record.submitted_at - attempt.submitted_at).total_seconds()) < 1


def _refresh_health(cluster: Cluster, *, client: SlurmClient, now: datetime) -> None:
    known = cluster.release and not cluster.error and cluster.seen_at is not None
    if (
        known
        and cluster.tried_at is not None
        and now.timestamp() // HEALTH_EVERY.total_seconds()
        == (cluster.tried_at.timestamp() // HEALTH_EVERY.total_seconds())
    ):
        return
    health = client.health()
    cluster.release = health.release
    cluster.accounting = health.accounting
    cluster.requeue_delay_s = health.requeue_delay_s


def _believe_or_raise(cluster: Cluster, jobs: list[JobRecord], *, client: SlurmClient) -> None:
    """An empty list where there were jobs is only believed when the controller denies knowing them one by one."""
    if jobs:
        return
    open_jobs = Job.objects.filter(cluster=cluster, vanished_at=None).exclude(state__in=_TERMINAL)
    known = list(open_jobs.values_list("job_id", flat=True)[:CONFIRMATIONS])
    for job_id in known:
        try:
            client.job(job_id)
        except JobNotFound:
            continue
        raise SlurmUnreachable(f"an empty job list, although job {job_id} exists", tried="list of jobs")


_TERMINAL = [state.value for state in JobState if state.is_terminal]


def _record_failure(cluster: Cluster, error: str, *, now: datetime) -> None:
    with transaction.atomic():
        if error and not cluster.error:
            audit.record(
                "cluster.silent", actor=SYSTEM, at=now, subject_kind="cluster", subject_id=cluster.pk, reason=error
            )
        Cluster.objects.filter(pk=cluster.pk).update(error=error, tried_at=now)
    cluster.error, cluster.tried_at = error, now


def _store_nodes(cluster: Cluster, records: list[NodeRecord], *, now: datetime) -> None:
    known = {node.name: node for node in Node.objects.filter(cluster=cluster)}
    new: list[Node] = []
    changed: list[Node] = []
    for record in records:
        node = known.get(record.name) or Node(cluster=cluster, name=record.name, changed_at=now)
        before = _node_row(node)
        if node.state != record.state:
            node.changed_at = now
        node.state, node.raw_state = record.state, record.raw_state[:100]
        node.partitions = list(record.partitions)
        node.reason, node.reason_by, node.reason_at = record.reason[:300], record.reason_by[:100], record.reason_at
        if node._state.adding:
            new.append(node)
        elif _node_row(node) != before:
            changed.append(node)
    Node.objects.bulk_create(new)
    Node.objects.bulk_update(changed, [*NODE_FIELDS, "changed_at"], batch_size=200)
    gone = set(known) - {record.name for record in records}
    Node.objects.filter(cluster=cluster, name__in=gone).delete()


NODE_FIELDS = ("state", "raw_state", "partitions", "reason", "reason_by", "reason_at")


def _node_row(node: Node) -> tuple[object, ...]:
    return tuple(getattr(node, field) for field in NODE_FIELDS)
