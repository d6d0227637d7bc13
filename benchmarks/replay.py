"""A draft of the policy over 90 days and thousands of incidents: reading the history, and ruling on it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.timing import timed
from recovery.core.lifecycle import IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.core.replay import replay, summary
from recovery.core.types import ActionKind, DecisionKind, FailureClass, FindingKind, JobState, Mode, NodeState, Outcome
from recovery.models import Attempt, Cluster, Decision, Incident, Job, Node, Recommendation, Run
from recovery.pipeline.recorded import recorded

SIZES = (2_000, 10_000)
DAYS, RUNS, NODES = 90, 2_000, 900
NOW = datetime(2026, 4, 1, 9, 30, tzinfo=UTC)
DRAFT: dict[str, Any] = {
    **DEFAULT_RULES,
    "rules": [
        {"name": f"team {n}", "classes": ["gpu_hardware", "node_fault"], "mode": "auto", "match": {"users": [f"u{n}"]}}
        for n in range(20)
    ]
    + [{"name": "hangs", "classes": ["hang_silent", "hang_collective"], "mode": "approve"}],
}


def run() -> dict[str, Any]:
    """By number of incidents: seconds to read them from the database and to rule on them, and how that grows."""
    figures: dict[str, Any] = {}
    made = 0
    for size in SIZES:
        _furnish(made, size)
        made = size
        since = NOW - timedelta(days=DAYS)
        cases = recorded(since=since, until=NOW)
        told = summary(replay(DRAFT, cases))
        read = timed(lambda since=since: recorded(since=since, until=NOW), rounds=3)  # type: ignore[misc]
        rule = timed(lambda cases=cases: replay(DRAFT, cases), rounds=3)  # type: ignore[misc]
        figures[str(size)] = {
            "incidents": told.cases, "automatic": told.by_mode[Mode.AUTO], "read_s": round(read.seconds, 2),
            "rule_s": round(rule.seconds, 2), "spread": round(max(read.spread, rule.spread), 2),
        }  # fmt: skip
    return figures


def _furnish(first: int, last: int) -> None:
    """Closed incidents with their recommendation and decision, spread over the days and over the runs."""
    dice = random.Random(first)  # noqa: S311 - made-up history, no secret
    cluster, _ = Cluster.objects.get_or_create(name="bench", defaults={"backend": "simulator"})
    if not first:
        _runs(cluster)
    attempts = list(Attempt.objects.order_by("pk"))
    span = timedelta(days=DAYS) / last
    incidents = Incident.objects.bulk_create(
        (_incident(dice.choice(attempts), NOW - (n - first + 1) * span, dice) for n in range(first, last)),
        batch_size=500,
    )
    rows = Recommendation.objects.bulk_create((_recommendation(each) for each in incidents), batch_size=500)
    kinds = (DecisionKind.APPROVE, DecisionKind.APPROVE, DecisionKind.APPROVE, DecisionKind.REJECT)
    Decision.objects.bulk_create(
        (
            Decision(recommendation=row, kind=dice.choice(kinds), actor_name="approver", hash=row.hash,
                     at=row.created_at + timedelta(seconds=dice.uniform(5, 3600)))
            for row in rows
        ),
        batch_size=500,
    )  # fmt: skip


def _runs(cluster: Cluster) -> None:
    start = NOW - timedelta(days=DAYS)
    runs = Run.objects.bulk_create(
        Run(cluster=cluster, key=f"run-{n}", name=f"run-{n}", user=f"u{n % 40}", created_at=start) for n in range(RUNS)
    )
    jobs = Job.objects.bulk_create(
        Job(cluster=cluster, run=each, job_id=str(n), first_submitted_at=start, submitted_at=start, seen_at=NOW,
            name=each.name, user=each.user, partition="train", gpus=64, node_count=8, state=JobState.COMPLETED)
        for n, each in enumerate(runs)
    )  # fmt: skip
    Attempt.objects.bulk_create(
        Attempt(job=job, number=0, state=JobState.FAILED, submitted_at=start, started_at=start, ended_at=NOW, gpus=64,
                seen_at=NOW)
        for job in jobs
    )  # fmt: skip
    Node.objects.bulk_create(
        Node(cluster=cluster, name=f"gpu-{n}", state=NodeState.UP, changed_at=start) for n in range(NODES)
    )


def _incident(attempt: Attempt, at: datetime, dice: random.Random) -> Incident:
    failure_class = dice.choice((FailureClass.GPU_HARDWARE, FailureClass.NODE_FAULT, FailureClass.HANG_SILENT))
    diagnosis = {
        "failure_class": failure_class, "restart": "yes", "exclude": "nodes", "nodes": [f"gpu-{dice.randrange(NODES)}"],
        "confidence": 0.95, "reason": "A made-up failure.",
    }  # fmt: skip
    return Incident(
        run_id=attempt.job.run_id, attempt=attempt, state=IncidentState.CLOSED, kind=FindingKind.CRASH,
        failure_class=failure_class, diagnosis=diagnosis, failed_at=at, detected_at=at, closed_at=at,
        failed_step=dice.randrange(100_000), outcome=dice.choice((Outcome.RECOVERED, Outcome.GAVE_UP)),
    )  # fmt: skip


def _recommendation(incident: Incident) -> Recommendation:
    nodes = incident.diagnosis["nodes"]
    return Recommendation(
        incident=incident, action=ActionKind.REQUEUE_EXCLUDING, exclude_nodes=nodes, headline="Requeue without it.",
        restore_step=1, gpus_idle=64, created_at=incident.detected_at, expires_at=NOW, mode=Mode.APPROVE, rule="all",
        hash="0" * 64,
    )  # fmt: skip
