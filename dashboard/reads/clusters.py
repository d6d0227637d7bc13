"""Clusters for their pages: the picture of each, what is on it, and what the doctor last found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.reads.shell import Picture, picture_of
from recovery import selectors
from recovery.access import Actor
from recovery.core.types import NodeState
from recovery.doctor import Group, Report, Result
from recovery.doctor.results import State, in_groups
from recovery.doctor.stored import report_on
from recovery.models import Cluster, SourceHealth
from recovery.models.cluster import BACKENDS
from recovery.selectors import ClusterPicture
from recovery.selectors.scope import visible_to


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterRow:
    picture: Picture
    counts: ClusterPicture

    @property
    def known(self) -> bool:
        """Whether it was ever seen: where it was not, a count of 0 would be a claim."""
        return self.counts.cluster.seen_at is not None

    @property
    def through(self) -> str:
        cluster = self.counts.cluster
        acting = dict(BACKENDS).get(cluster.options.get("acts_by", ""), "")
        told = cluster.get_backend_display()
        return f"{told} to read, {acting} to act" if acting else told

    @property
    def nodes_up(self) -> int:
        return self.counts.nodes[NodeState.UP]

    @property
    def nodes_all(self) -> int:
        return sum(self.counts.nodes.values())

    @property
    def nodes_not_up(self) -> list[tuple[NodeState, int]]:
        return [(state, count) for state, count in self.counts.nodes.items() if count and state is not NodeState.UP]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExaminedRow(ClusterRow):
    report: Report


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterPage(ExaminedRow):
    groups: list[tuple[Group, list[Result]]]
    sources: list[SourceHealth]  # those that it names beside Slurm and logs

    @property
    def delay_is_told(self) -> bool:
        """Whether the requeue delay was read from the controller; of slurmrestd alone the doctor tells."""
        cluster = self.counts.cluster
        told = any(result.what == "requeue delay" and result.state is State.GOOD for result in self.report.results)
        return told or cluster.backend != "rest" or "acts_by" in cluster.options


def cluster_rows(chosen: Cluster | None, *, actor: Actor, now: datetime) -> list[ClusterRow]:
    """The chosen cluster, or all: those that are switched off too."""
    rows = visible_to(selectors.clusters(), actor)
    rows = rows if chosen is None else rows.filter(pk=chosen.pk)
    counted = selectors.pictures_of(rows, now=now)
    return [ClusterRow(picture=picture_of(counts.cluster, now=now), counts=counts) for counts in counted]


def examined_rows(*, actor: Actor, now: datetime) -> list[ExaminedRow]:
    """Every cluster with the doctor's report; four queries."""
    counted = selectors.pictures_of(visible_to(selectors.clusters(), actor).select_related("examination"), now=now)
    return [
        ExaminedRow(
            picture=picture_of(counts.cluster, now=now), counts=counts, report=report_on(counts.cluster, now=now)
        )
        for counts in counted
    ]


def cluster_page(pk: int, *, now: datetime) -> ClusterPage:
    """Raises selectors.NotFound."""
    counts = selectors.cluster_picture(cluster_id=pk, now=now)
    report = report_on(counts.cluster, now=now)
    return ClusterPage(
        picture=picture_of(counts.cluster, now=now),
        counts=counts,
        report=report,
        groups=in_groups(report.results),
        sources=list(SourceHealth.objects.filter(cluster_id=pk).order_by("source")),
    )
