"""Beside the path: recorded history as the cases that a draft of the policy is replayed on."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Count

from recovery.core.replay import Recorded
from recovery.core.types import CheckpointState, DecisionKind, FindingKind, Mode, Outcome
from recovery.models import Action, Checkpoint, Decision, Incident, Node, Recommendation
from recovery.pipeline.recommend import stored_diagnosis
from recovery.pipeline.ruling import proposal_of, traits_of

AT_A_TIME = 1000  # rows in memory while they are read
GOES_ON = (FindingKind.SLOWDOWN, FindingKind.HANG, FindingKind.LIMIT_NEAR)  # the job still ran when it was proposed


def recorded(*, since: datetime, until: datetime) -> list[Recorded]:
    """What the product itself recommended in that time, one for each incident: the last. Six queries."""
    rows = Recommendation.objects.filter(created_at__gte=since, created_at__lt=until, proposed_by="")
    rows = rows.exclude(incident__diagnosis={}).order_by("created_at", "pk")
    last = {row.incident_id: row for row in _read(rows)}
    saves = _saves(row.incident.run_id for row in last.values())
    decisions = {row.recommendation_id: row for row in Decision.objects.filter(recommendation__created_at__gte=since)}
    acted = set(
        Action.objects.filter(intended_at__gte=since).exclude(called_at=None).values_list("incident", flat=True)
    )
    nodes = dict(Node.objects.values_list("cluster").annotate(count=Count("pk")))
    beside = Counter(row.incident.outbreak_id for row in last.values())
    beside[None] = 1  # it failed by itself
    return [
        _case(
            row, decisions.get(row.pk), saves=bisect_right(saves[row.incident.run_id], row.incident.failed_at),
            nodes=nodes.get(row.incident.run.cluster_id, 0), beside=beside[row.incident.outbreak_id],
            acted=row.incident_id in acted,
        )
        for row in last.values()
    ]  # fmt: skip


def _read(rows: object) -> Iterator[Recommendation]:
    related = ("incident__run__cluster", "incident__attempt__job")
    yield from rows.select_related(*related).iterator(chunk_size=AT_A_TIME)  # type: ignore[attr-defined]


def _saves(runs: Iterator[int]) -> dict[int, list[datetime]]:
    """When each run's checkpoints became complete, in order."""
    found: dict[int, list[datetime]] = defaultdict(list)
    complete = Checkpoint.objects.filter(state=CheckpointState.COMPLETE, run__in=set(runs)).exclude(completed_at=None)
    for run, at in complete.order_by("completed_at").values_list("run", "completed_at"):
        found[run].append(at)  # type: ignore[arg-type]  # never None: see the filter
    return found


def _case(
    row: Recommendation, decision: Decision | None, *, saves: int, nodes: int, beside: int, acted: bool
) -> Recorded:
    incident: Incident = row.incident
    options = incident.attempt.job.options
    return Recorded(
        incident=incident.pk, cluster=incident.run.cluster.name, run=incident.run_id, at=row.created_at,
        failed_at=incident.failed_at, traits=traits_of(incident), diagnosis=stored_diagnosis(incident),
        proposal=proposal_of(row), comment_mode=Mode(options["mode"]) if options.get("mode") else None,
        comment_max_restarts=options.get("max_restarts"), failed_step=incident.failed_step, log_interval=None,
        saves=saves, total_nodes=nodes, failures_beside=beside, interrupts=incident.kind in GOES_ON,
        decision=DecisionKind(decision.kind) if decision else None,
        outcome=Outcome(incident.outcome) if incident.outcome else None, acted=acted,
        waited=max(decision.at - row.created_at, timedelta(0)) if decision else timedelta(0), gpus=row.gpus_idle,
    )  # fmt: skip
