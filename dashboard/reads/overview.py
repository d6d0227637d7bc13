"""What the first page shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from dashboard import wording
from dashboard.reads import cases
from dashboard.reads.clusters import ClusterRow, cluster_rows
from recovery import selectors
from recovery.models import Attempt, Cluster, Incident, Job

MOST = 60  # rows of a table on the first page; the rest is behind a link


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """An attempt that is executing, and the open incident on it: its phase alone would call a hang training."""

    attempt: Attempt
    incident: Incident | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    needs: tuple[cases.Row, ...]
    following: tuple[cases.Row, ...]
    running: tuple[Running, ...]
    running_count: int
    blind: tuple[Attempt, ...]
    vanished: tuple[Job, ...]  # the scheduler stopped knowing them before they ended
    clusters: tuple[ClusterRow, ...]

    @property
    def idle(self) -> int:
        return sum(row.case.idle for row in self.needs)

    @property
    def summary(self) -> str:
        """The page's headline: what is the matter, in one or two sentences."""
        if self.needs:
            counts_gpus = any(row.case.counts_gpus for row in self.needs)
            verb = "needs" if len(self.needs) == 1 else "need"
            cost = wording.cost_of_waiting(self.idle, counts_gpus=counts_gpus)
            return f"{wording.plural(len(self.needs), 'incident')} {verb} a person. {cost if self.idle else ''}".strip()
        if not self.clusters:
            return "No cluster is configured yet."
        if self.following:
            return f"Nothing needs you. {wording.plural(len(self.following), 'incident')} open, being followed."
        return "Nothing needs you."


def read_overview(cluster: Cluster | None, *, now: datetime) -> Overview:
    clusters = cluster_rows(cluster, now=now)
    running = _of(selectors.running_attempts(), cluster)
    needs, following = cases.needing_person(cluster), cases.being_followed(cluster)
    on = {row.incident.attempt_id: row.incident for row in (*needs, *following)}
    return Overview(
        needs=tuple(needs),
        following=tuple(following),
        running=tuple(Running(attempt=attempt, incident=on.get(attempt.pk)) for attempt in running[:MOST]),
        running_count=running.count(),
        blind=tuple(_of(selectors.blind_attempts(), cluster)[:MOST]),
        vanished=tuple(_vanished(cluster)),
        clusters=tuple(clusters),
    )


def _of(attempts: QuerySet[Attempt], cluster: Cluster | None) -> QuerySet[Attempt]:
    return attempts if cluster is None else attempts.filter(job__cluster=cluster)


def _vanished(cluster: Cluster | None) -> QuerySet[Job]:
    rows = selectors.jobs().exclude(vanished_at=None).filter(attempts__closed_at=None).distinct()
    return (rows if cluster is None else rows.filter(cluster=cluster)).order_by("-vanished_at")[:MOST]
