"""Outbreaks and nodes as pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard.reads import cases
from recovery.access import Actor
from recovery.core.lifecycle import IncidentState
from recovery.core.node_memory import Standing, standing, weigh
from recovery.core.types import NodeState
from recovery.models import Cluster, Incident, Node, NodeStrike, Outbreak, Suspect
from recovery.pipeline.decide import may_approve
from recovery.pipeline.suspects import LIMITS, as_strike, strikes_of
from recovery.selectors import fleet_reads
from recovery.selectors.scope import visible_to


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """One outbreak in the list of incidents, with those of its incidents that the list shows."""

    outbreak: Outbreak
    rows: tuple[cases.Row, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line of the list of incidents: a case by itself, or an outbreak that unfolds its own."""

    row: cases.Row | None = None
    family: Family | None = None


def grouped(rows: Sequence[cases.Row]) -> list[Entry]:
    """The rows in their order; those of one outbreak together, where its first stands."""
    of: dict[int, list[cases.Row]] = {}
    for row in rows:
        if row.incident.outbreak_id is not None:
            of.setdefault(row.incident.outbreak_id, []).append(row)
    outbreaks = {row.pk: row for row in fleet_reads.outbreaks().filter(pk__in=of)} if of else {}
    entries: list[Entry] = []
    told: set[int] = set()
    for row in rows:
        pk = row.incident.outbreak_id
        if pk is None:
            entries.append(Entry(row=row))
        elif pk not in told:
            told.add(pk)
            entries.append(Entry(family=Family(outbreak=outbreaks[pk], rows=tuple(of[pk]))))
    return entries


def open_outbreaks(cluster: Cluster | None, *, actor: Actor) -> list[Outbreak]:
    rows = visible_to(fleet_reads.outbreaks(), actor).filter(closed_at=None)
    return list(rows if cluster is None else rows.filter(cluster=cluster))


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInIt:
    """One run of an outbreak: its newest case there, and how often it was struck."""

    row: cases.Row
    times: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OutbreakPage:
    outbreak: Outbreak
    runs: tuple[RunInIt, ...]
    waiting: tuple[cases.Row, ...]  # those of its incidents that wait for a decision that the reader may take

    @property
    def state(self) -> str:
        return "open" if self.outbreak.closed_at is None else "closed"


def outbreak_page(pk: int, *, actor: Actor) -> OutbreakPage:
    """In a fixed number of queries. Raises selectors.NotFound."""
    outbreak = fleet_reads.outbreak_detail(outbreak_id=pk).outbreak
    found = cases.rows(cases.incidents(None, actor=actor).filter(outbreak=outbreak))
    by_run: dict[int, list[cases.Row]] = {}
    for row in found:
        by_run.setdefault(row.incident.run_id, []).append(row)
    asked = [row for row in found if row.case.state is IncidentState.AWAITING_DECISION]
    return OutbreakPage(
        outbreak=outbreak,
        runs=tuple(RunInIt(row=own[0], times=len(own)) for own in by_run.values()),
        waiting=tuple(row for row in asked if row.case.recommendation and may_approve(actor, row.case.recommendation)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class StrikeRow:
    strike: NodeStrike
    weight: float  # now; 0 where it counts no more
    kept: bool  # False: it is older than the node's last pardon


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePage:
    detail: fleet_reads.NodeDetail
    standing: Standing
    strikes: tuple[StrikeRow, ...]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """What the published work on lemon nodes counts, as far as it is seen here."""
        strikes, events = [row.strike for row in self.strikes], self.detail.events
        went_down = [e for e in events if not e.source and e.new == NodeState.DOWN]
        drained = [e for e in events if not e.source and e.by and e.new in (NodeState.DRAINED, NodeState.DRAINING)]
        return [
            ("Runs that failed on it", len({strike.incident.run_id for strike in strikes})),
            ("Failures that proved it", sum(strike.proven for strike in strikes)),
            ("Went out of service", len(went_down)),
            ("Drained by a person", len(drained)),
            ("Lines of the kernel log", sum(bool(e.source) for e in events)),
        ]


def node_page(pk: int, *, actor: Actor, now: datetime) -> NodePage:
    """Raises selectors.NotFound."""
    detail = fleet_reads.node_detail(node_id=pk, now=now)
    counting = strikes_of(detail.node.cluster_id, [detail.node.name], now=now).get(detail.node.name, [])
    struck = {strike.incident_id for strike in detail.strikes}
    seen = set(visible_to(Incident.objects.filter(pk__in=struck), actor).values_list("pk", flat=True))
    pardoned = max((row.ended_at for row in detail.past if row.ended_by and row.ended_at), default=None)
    return NodePage(
        detail=detail,
        standing=standing(counting, LIMITS, now=now),
        strikes=tuple(
            StrikeRow(
                strike=row, kept=pardoned is None or row.at > pardoned,
                weight=round(weigh(as_strike(row), LIMITS, now=now), 2),
            )
            for row in detail.strikes
            if row.incident_id in seen
        ),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class SuspectRow:
    suspect: Suspect
    node: int | None  # the key of the node's page; None where Slurm lists it no more


def suspects(cluster: Cluster | None, *, actor: Actor, now: datetime) -> list[SuspectRow]:
    """In two queries."""
    found = visible_to(fleet_reads.suspects(now=now), actor)
    rows = list(found if cluster is None else found.filter(cluster=cluster))
    listed = Node.objects.filter(name__in={row.node for row in rows}).values_list("cluster", "name", "pk")
    keys = {(of, name): pk for of, name, pk in listed}
    return [SuspectRow(suspect=row, node=keys.get((row.cluster_id, row.node))) for row in rows]
