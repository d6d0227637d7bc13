"""What the first page shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from dashboard import wording
from dashboard.reads import cases
from dashboard.reads.clusters import ClusterRow, cluster_rows
from dashboard.reads.fleet import open_outbreaks
from recovery import selectors
from recovery.access import Actor
from recovery.models import Alarm, Attempt, Cluster, Incident, Job, Outbreak, Run
from recovery.selectors import alarm_reads
from recovery.selectors.scope import visible_to

MOST_WARNED = 10
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
    clusters: tuple[ClusterRow, ...]  # the chosen one, or all that are switched on
    clusters_in_view: int
    switched_off: int  # of those in view
    warned: tuple[Run, ...]  # runs whose next save fails, or whose last complete checkpoint goes; the soonest first
    outbreaks: tuple[Outbreak, ...]  # that are open
    alarms: tuple[Alarm, ...]  # that hold; nothing is done on one
    alarm_count: int

    @property
    def silent(self) -> list[str]:
        """Names of clusters whose picture is not live: what goes on there is not known."""
        return [row.picture.cluster.name for row in self.clusters if row.picture.state != "live"]

    @property
    def unsure(self) -> str:
        """Why what is not shown may still be: "no live picture of alpha", "no live picture of 3 of 8 clusters"."""
        if self.switched_off and not self.clusters:
            return "every cluster is switched off"
        if not self.silent:
            return ""
        many = f"{len(self.silent)} of {len(self.clusters)} clusters"
        return f"no live picture of {self.silent[0] if len(self.silent) == 1 else many}"

    @property
    def calm(self) -> str:
        """What may be said where no incident needs a person: a silent cluster may have one."""
        if self.warned:
            return f"Checkpoints of {wording.plural(len(self.warned), 'run')} are in danger."
        return f"Nothing is known to need you: {self.unsure}." if self.unsure else "Nothing needs you."

    @property
    def in_danger(self) -> list[cases.Row]:
        return cases.in_danger((*self.needs, *self.following))

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
            told = [f"{wording.plural(len(self.needs), 'incident')} {verb} a person."]
            told += [cost] if self.idle else []
            told += [f"{self.unsure[0].upper()}{self.unsure[1:]}."] if self.unsure else []
            return " ".join(told)
        if not self.clusters_in_view:
            return "No cluster is configured yet."
        if self.following:
            return f"{self.calm} {wording.plural(len(self.following), 'incident')} open, being followed."
        return self.calm


def read_overview(cluster: Cluster | None, *, actor: Actor, now: datetime) -> Overview:
    every = cluster_rows(cluster, actor=actor, now=now)
    clusters = [row for row in every if row.picture.state != "off" or cluster is not None]
    running = _of(visible_to(selectors.running_attempts(), actor), cluster)
    needs, following = cases.needing_person(cluster, actor=actor), cases.being_followed(cluster, actor=actor)
    alarms = _alarms(cluster, actor=actor)
    on = {row.incident.attempt_id: row.incident for row in (*needs, *following)}
    return Overview(
        needs=tuple(needs),
        following=tuple(following),
        running=tuple(Running(attempt=attempt, incident=on.get(attempt.pk)) for attempt in running[:MOST]),
        running_count=running.count(),
        blind=tuple(_of(visible_to(selectors.blind_attempts(), actor), cluster)[:MOST]),
        vanished=tuple(_vanished(cluster, actor=actor)),
        clusters=tuple(clusters),
        clusters_in_view=len(every),
        switched_off=sum(row.picture.state == "off" for row in every),
        warned=tuple(_warned(cluster, actor=actor)[:MOST_WARNED]),
        outbreaks=tuple(open_outbreaks(cluster, actor=actor)),
        alarms=tuple(alarms[:MOST]),
        alarm_count=alarms.count(),
    )


def _of(attempts: QuerySet[Attempt], cluster: Cluster | None) -> QuerySet[Attempt]:
    """Of the chosen cluster; else of all that are asked: what runs on one that is switched off is not known."""
    return attempts.filter(job__cluster__enabled=True) if cluster is None else attempts.filter(job__cluster=cluster)


def _alarms(cluster: Cluster | None, *, actor: Actor) -> QuerySet[Alarm]:
    rows = visible_to(alarm_reads.holding(), actor)
    return rows.filter(run__cluster__enabled=True) if cluster is None else rows.filter(run__cluster=cluster)


def _warned(cluster: Cluster | None, *, actor: Actor) -> QuerySet[Run]:
    rows = visible_to(selectors.warned_runs(), actor)
    return rows.filter(cluster__enabled=True) if cluster is None else rows.filter(cluster=cluster)


def _vanished(cluster: Cluster | None, *, actor: Actor) -> QuerySet[Job]:
    rows = visible_to(selectors.jobs(), actor).exclude(vanished_at=None).filter(attempts__closed_at=None).distinct()
    rows = rows.filter(cluster__enabled=True) if cluster is None else rows.filter(cluster=cluster)
    return rows.order_by("-vanished_at")[:MOST]
