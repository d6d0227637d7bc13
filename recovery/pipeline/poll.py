"""Stage 1, poll: what the scheduler says of jobs, attempts and nodes, stored as it was said.

1. Read: health, topology and partitions now and then, jobs and nodes each time (believe.py doubts what may be half an
   answer).
2. Store, in one transaction, what differs (store_jobs.py, store_nodes.py); an older picture than the stored one is
   thrown away.
3. Ask accounting about attempts whose state is unknown (repair.py), and after a gap about jobs that nobody saw
   (outage.py).

An error, a partial answer, or an empty list where there were jobs is no observation: nothing changes but the
cluster's own error, and the picture ages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from recovery import audit
from recovery.access import SYSTEM
from recovery.models import Cluster
from recovery.pipeline.believe import believe_jobs, believe_nodes, believed_of_federation
from recovery.pipeline.outage import outage_fields, repair_outage
from recovery.pipeline.repair import repair_unknown
from recovery.pipeline.store_jobs import store_jobs
from recovery.pipeline.store_nodes import (
    Layout,
    forget_old_events,
    layout_fields,
    read_layout,
    store_nodes,
    with_switches,
)
from recovery.pipeline.unlisted import Listed, listed_jobs
from recovery.slurm.base import Health, JobRecord, NodeRecord, SlurmClient, SlurmError

# Release, configuration and topology change when the controller is restarted or reconfigured only.
HEALTH_EVERY = timedelta(minutes=5)
LONGEST_MARK = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class PollOutcome:
    """`jobs` is None where the scheduler said that nothing has changed."""

    observed: bool
    jobs: int | None = 0
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """Everything that one poll has read; `known` is the picture before. `jobs` is None where none has changed."""

    jobs: Mapping[str, JobRecord] | None  # by job id
    mark: str
    nodes: list[NodeRecord]
    known: Mapping[str, Listed]
    health: Health | None
    layout: Layout | None


def poll_cluster(cluster: Cluster, *, client: SlurmClient, now: datetime) -> PollOutcome:
    """Take one picture of `cluster` and store what differs. `now`: when the reading begins, the picture's time."""
    try:
        reading = _read(cluster, client=client, now=now)
    except SlurmError as error:
        _record_failure(cluster, str(error), now=now)
        return PollOutcome(observed=False, error=str(error))
    with transaction.atomic():
        fields = _cluster_fields(cluster, reading, now=now)
        if Cluster.objects.filter(_not_after("seen_at", now), pk=cluster.pk).update(**fields) != 1:
            return PollOutcome(observed=False, error="A newer picture is stored already.")
        _store(cluster, reading, now=now)
    for name, value in fields.items():
        setattr(cluster, name, value)
    repair_unknown(cluster, client=client, now=now)
    repair_outage(cluster, client=client, now=now)
    return PollOutcome(observed=True, jobs=None if reading.jobs is None else len(reading.jobs))


def _read(cluster: Cluster, *, client: SlurmClient, now: datetime) -> _Reading:
    health = client.health() if _is_health_due(cluster, now) else None
    # With the health everything is read anew, whatever the back end says of changes.
    mark = cluster.jobs_mark if health is None and cluster.jobs_mark_of == way_of(cluster) else ""
    picture = client.jobs_since(mark)
    nodes = client.nodes()
    believe_nodes(cluster, nodes)
    jobs = None if picture.jobs is None else _newest_of_each(picture.jobs)
    known = {} if jobs is None else listed_jobs(cluster)
    mark = picture.mark
    if jobs is not None:
        jobs, sure = believed_of_federation(jobs, known)
        mark = mark if sure else ""
        believe_jobs(jobs, known, client=client)
    if health is not None:
        nodes = with_switches(nodes, client=client)
    layout = read_layout(cluster, client=client, now=now)
    return _Reading(jobs=jobs, mark=mark, nodes=nodes, known=known, health=health, layout=layout)


def _is_health_due(cluster: Cluster, now: datetime) -> bool:
    if cluster.health_at is None or cluster.error or cluster.seen_at is None:
        return True
    if cluster.jobs_mark_of != way_of(cluster):  # perhaps another controller, with accounting of its own or none
        return True
    return not timedelta(0) <= now - cluster.health_at < HEALTH_EVERY


def way_of(cluster: Cluster) -> str:
    """Digest of how the cluster is reached: a mark means nothing to another back end or another controller."""
    return hashlib.sha256(json.dumps([cluster.backend, cluster.options], sort_keys=True).encode()).hexdigest()


def _newest_of_each(records: Sequence[JobRecord]) -> dict[str, JobRecord]:
    """Each job once: a controller that is changing may list one twice, and the newer word counts."""
    newest = {record.job_id: record for record in records}
    if len(newest) < len(records):
        for record in records:
            if _age(record) > _age(newest[record.job_id]):
                newest[record.job_id] = record
    return newest


def _age(record: JobRecord) -> tuple[datetime, int]:
    return record.submitted_at, record.restart_count


def _cluster_fields(cluster: Cluster, reading: _Reading, *, now: datetime) -> dict[str, object]:
    mark = reading.mark if len(reading.mark) <= LONGEST_MARK else ""
    same = cluster.jobs_mark_of == way_of(cluster)
    fields: dict[str, object] = {
        "seen_at": now, "tried_at": now, "error": "", "jobs_mark": mark, "jobs_mark_of": way_of(cluster),
        **layout_fields(reading.layout, now=now),
        **outage_fields(cluster, same=same, health=reading.health, now=now),
    }  # fmt: skip
    if reading.health is not None:
        fields |= {
            "release": reading.health.release, "accounting": reading.health.accounting,
            "requeue_delay_s": reading.health.requeue_delay_s, "health_at": now,
            "min_job_age_s": reading.health.min_job_age_s or None,  # 0 keeps them for ever
        }  # fmt: skip
        federation = reading.health.federation
        if federation is not None or not same:  # else what was told last still counts: no restart is doubled for it
            fields["federation"] = (federation or "")[:100]
    return fields


def _not_after(field: str, now: datetime) -> Q:
    """Whether what is stored isn't newer than a reading of `now`.

    No reading outlives a lease: what is newer by more was stored before the clock was set back.
    """
    set_back = now + timedelta(seconds=settings.LEASE_S)
    return Q(**{field: None}) | Q(**{f"{field}__lte": now}) | Q(**{f"{field}__gt": set_back})


def _store(cluster: Cluster, reading: _Reading, *, now: datetime) -> None:
    """`cluster` still carries what was known before this picture."""
    if reading.health is not None:
        cluster.accounting = reading.health.accounting
        forget_old_events(cluster, now=now)
    store_nodes(cluster, reading.nodes, now=now)
    if reading.jobs is not None:
        # Of another controller this is the first picture, whatever was seen of the one before.
        previous = cluster.seen_at if cluster.jobs_mark_of == way_of(cluster) else None
        store_jobs(cluster, reading.jobs, reading.known, previous=previous, now=now)
    if cluster.error:
        audit.record("cluster.answers_again", actor=SYSTEM, at=now, subject_kind="cluster", subject_id=cluster.pk)


def _record_failure(cluster: Cluster, error: str, *, now: datetime) -> None:
    """The next try begins from nothing: a mark from before an outage proves nothing."""
    with transaction.atomic():
        fields = {"error": error, "tried_at": now, "jobs_mark": ""}
        if Cluster.objects.filter(_not_after("tried_at", now), pk=cluster.pk).update(**fields) != 1:
            return
        if not cluster.error:
            audit.record(
                "cluster.silent", actor=SYSTEM, at=now, subject_kind="cluster", subject_id=cluster.pk, reason=error
            )
    cluster.error, cluster.tried_at, cluster.jobs_mark = error, now, ""
