"""Runs, jobs and nodes for their pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from dashboard.reads.cases import Row, incidents, rows
from dashboard.reads.measured import Measured, measured
from recovery import selectors
from recovery.access import Actor
from recovery.core.lifecycle import IncidentState
from recovery.core.types import CheckpointState, NodeState
from recovery.models import Attempt, Checkpoint, Cluster, Incident, Job, LogFile, Node, Run
from recovery.selectors import EXECUTING
from recovery.selectors.scope import visible_to

RUN_FILTERS = {"active": "Active", "all": "All"}
LOGS = 12  # of an attempt with a log per rank
CHECKPOINTS = 30  # rows of the table; the newest


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """A run over all its jobs, or one job of it (`job` is set)."""

    run: Run
    job: Job | None
    attempts: tuple[Attempt, ...]  # oldest first
    checkpoints: tuple[Checkpoint, ...]  # newest first, bounded
    cases: tuple[Row, ...]  # newest first
    logs: tuple[LogFile, ...]  # of the newest attempt, at most LOGS
    more_logs: int  # beyond these
    restorable: Checkpoint | None
    measured: Measured

    @property
    def checkpoints_shown(self) -> list[Checkpoint]:
        return [row for row in self.checkpoints if row not in self.checkpoints_rotated]

    @property
    def checkpoints_rotated(self) -> list[Checkpoint]:
        """Removed, and older than all that are there: as a rule by rotation. Nobody has to see each of them."""
        there = min((row.step for row in self.checkpoints if row.state != CheckpointState.MISSING), default=-1)
        return [row for row in self.checkpoints if row.state == CheckpointState.MISSING and row.step < there]

    @property
    def newest(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def open_case(self) -> Row | None:
        return next((row for row in self.cases if row.case.state is not IncidentState.CLOSED), None)

    @property
    def finding(self) -> str:
        """What the open incident says of the newest attempt: its phase alone would call a hang training."""
        case = self.open_case
        on_newest = case is not None and self.newest is not None and case.incident.attempt_id == self.newest.pk
        return case.incident.kind if case is not None and on_newest else ""


def run_page(pk: int, *, actor: Actor) -> RunPage:
    """Raises selectors.NotFound."""
    detail = selectors.run_detail(run_id=pk)
    found = incidents(None, actor=actor).filter(run_id=pk)
    return _page(detail.run, None, detail.attempts, detail.checkpoints, found, detail.restorable)


def job_page(pk: int, *, actor: Actor) -> RunPage:
    """One job, and of its run the incidents on it. Raises selectors.NotFound."""
    job = selectors.job_detail(job_pk=pk)
    attempts = tuple(selectors.attempts().filter(job=job).order_by("number"))
    run = selectors.run_detail(run_id=job.run_id)
    found = incidents(None, actor=actor).filter(attempt__job=job)
    return _page(run.run, job, attempts, run.checkpoints, found, run.restorable)


def _page(
    run: Run,
    job: Job | None,
    attempts: tuple[Attempt, ...],
    checkpoints: tuple[Checkpoint, ...],
    found: QuerySet[Incident],
    restorable: Checkpoint | None,
) -> RunPage:
    newest = attempts[-1] if attempts else None
    logs, more_logs = _logs(newest) if newest else ((), 0)
    return RunPage(
        run=run,
        job=job,
        attempts=attempts,
        checkpoints=tuple(reversed(checkpoints[-CHECKPOINTS:])),
        cases=tuple(rows(found)),
        logs=logs,
        more_logs=more_logs,
        restorable=restorable,
        measured=measured(newest, run.cluster),
    )


def _logs(attempt: Attempt) -> tuple[tuple[LogFile, ...], int]:
    """Those with a trouble first, and how many more there are; a folder that is only kept in sight is none."""
    rows = LogFile.objects.filter(attempt=attempt).exclude(inode=0, error="")
    shown = tuple(rows.order_by("-error", "pk")[:LOGS])
    return shown, rows.count() - LOGS if len(shown) == LOGS else 0


def runs(cluster: Cluster | None, *, actor: Actor, show: str) -> QuerySet[Run]:
    """`active`: those with an attempt that has not ended, or an open incident."""
    found: QuerySet[Run] = visible_to(selectors.runs(), actor)
    if cluster is not None:
        found = found.filter(cluster=cluster)
    if show == "active":
        found = found.filter(Q(state__in=("pending", *EXECUTING)) | Q(open_incident_id__isnull=False))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRow:
    node: Node
    attempts: tuple[Attempt, ...]  # that run on it now, as the scheduler last said


_ORDER = (NodeState.DOWN, NodeState.DRAINED, NodeState.DRAINING, NodeState.UNKNOWN, NodeState.UP)


def nodes(cluster: Cluster | None, *, actor: Actor, state: str = "", name: str = "") -> list[NodeRow]:
    """Every node, those with a trouble first; two queries."""
    found = visible_to(selectors.nodes(cluster_id=cluster.pk if cluster else None), actor)
    if state in list(NodeState):
        found = found.filter(state=state)
    if name:
        found = found.filter(name__icontains=name)
    busy = _by_node(visible_to(selectors.running_attempts(), actor))
    shown = [NodeRow(node=node, attempts=busy.get((node.cluster_id, node.name), ())) for node in found]
    return sorted(
        shown, key=lambda row: (_ORDER.index(NodeState(row.node.state)), row.node.cluster.name, row.node.name)
    )


def _by_node(attempts: Iterable[Attempt]) -> dict[tuple[int, str], tuple[Attempt, ...]]:
    found: dict[tuple[int, str], tuple[Attempt, ...]] = {}
    for attempt in attempts:
        for name in attempt.nodes:
            key = (attempt.job.cluster_id, name)
            found[key] = (*found.get(key, ()), attempt)
    return found
