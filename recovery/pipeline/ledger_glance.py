"""Part of account: of which runs something has changed that their ledger depends on.

A run's digest is taken from rows that may still change, one by one, and from sums over those that are over, so that
neither the number of statements depends on the number of runs nor what is fetched of a run on how long it has lived.
Samples are not asked for: new ones alone only extend the open tail, which is added when a ledger is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from recovery.core.lifecycle import IncidentState
from recovery.core.types import CheckpointState, Phase
from recovery.models import Attempt, Checkpoint, Incident, PolicyVersion

RULES = 2  # counts up with the rules of recovery/core/ledger: what was kept by older ones is kept anew when looked at
LAG = timedelta(hours=1)  # so long a log line, a checkpoint's second look or a case may be late
HELD_ONCE = (CheckpointState.COMPLETE, CheckpointState.MISSING)  # one that was rotated away had been complete
AT_WORK = (Phase.TRAINING, Phase.SAVING, Phase.EVALUATING)  # a healthy attempt goes from one to the other all day

_EDGES = (
    "state", "submitted_at", "started_at", "ended_at", "gpus", "job__gpus", "blind_reason", "restored_at",
    "restored_step", "job__vanished_at",
)  # fmt: skip
_CASE = (
    "pk", "state", "kind", "failed_at", "detected_at", "recommended_at", "decided_at", "acted_at", "restored_at",
    "checkpoint_at", "closed_at", "failed_step", "restored_step", "outcome", "failure_class",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Glimpse:
    """Digests of what the ledger of a run depends on.

    `edges`: what moves it from one category to another. `marks`: saves and other work beside training, of which a run
    at work has some every few minutes. `settled`: nothing more is expected of any attempt or incident.
    """

    edges: str
    marks: str
    settled: bool

    @property
    def key(self) -> str:
        return self.edges + self.marks


def glimpse(runs: Sequence[int], *, now: datetime) -> dict[int, Glimpse]:
    """Of each of these runs; six statements."""
    edges: dict[int, list[object]] = defaultdict(list)
    marks: dict[int, list[object]] = defaultdict(list)
    policy = PolicyVersion.objects.order_by("-created_at", "-number").values_list("number", flat=True).first()
    moving: set[int] = set()
    attempts = Attempt.objects.filter(job__run__in=runs)
    for run, pk, phase, since, progress, *rest in _living(attempts, now):
        moving.add(run)
        edges[run].append((pk, "work" if phase in AT_WORK else phase, *rest))
        # A day that passes counts as news: traces are to be written before samples are forgotten.
        marks[run].append((pk, phase, since, progress and progress.date()))
    for run, *sums in _over(attempts, now):
        edges[run].append(sums)
    for run, *case in _cases(Incident.objects.filter(run__in=runs)):
        moving |= {run} if case[1] != IncidentState.CLOSED else set()
        edges[run].append(case)
    for run, *sums in _saves(Checkpoint.objects.filter(run__in=runs)):
        marks[run].append(sums)
    return {
        run: Glimpse(edges=_digest((RULES, policy, edges[run])), marks=_digest(marks[run]), settled=run not in moving)
        for run in runs
    }


def unsettled(now: datetime) -> Q:
    """Attempts that still go on, or of which something late may come."""
    recently = now - LAG
    return Q(closed_at=None) | Q(closed_at__gte=recently) | Q(ended_at__gte=recently)


def _living(attempts: QuerySet[Attempt], now: datetime) -> Iterable[tuple[Any, ...]]:
    columns = ("job__run", "pk", "phase", "phase_since", "last_progress_at", *_EDGES)
    return attempts.filter(unsettled(now)).order_by("pk").values_list(*columns)


def _over(attempts: QuerySet[Attempt], now: datetime) -> Iterable[tuple[Any, ...]]:
    recently = now - LAG
    over = attempts.filter(Q(ended_at=None) | Q(ended_at__lt=recently), closed_at__lt=recently)
    sums = (
        Count("pk"), Sum("pk"), Sum("gpus"), Min("submitted_at"), Max("started_at"), Max("ended_at"), Min("ended_at"),
        Max("restored_at"), Sum("restored_step"), Sum("job__gpus"), Max("job__vanished_at"),
    )  # fmt: skip
    names = [f"sum_{place}" for place in range(len(sums))]
    grouped = over.order_by("job__run", "state").values("job__run", "state")
    return grouped.annotate(**dict(zip(names, sums, strict=True))).values_list("job__run", "state", *names)


def _cases(incidents: QuerySet[Incident]) -> Iterable[tuple[Any, ...]]:
    """Those that are open one by one, those that are closed by how they ended."""
    yield from incidents.exclude(state=IncidentState.CLOSED).order_by("pk").values_list("run", *_CASE)
    closed = incidents.filter(state=IncidentState.CLOSED).order_by("run", "outcome").values("run", "outcome")
    sums = {
        "cases": Count("pk"), "keys": Sum("pk"), "last_fault": Max("failed_at"), "last": Max("closed_at"),
        "last_restore": Max("restored_at"), "last_save": Max("checkpoint_at"), "steps": Sum("restored_step"),
    }  # fmt: skip
    # the state comes second, as in _CASE
    yield from closed.annotate(**sums).values_list("run", "outcome", F("state"), *sums)


def _saves(checkpoints: QuerySet[Checkpoint]) -> Iterable[tuple[Any, ...]]:
    """What the ledger takes of them: those that were complete once, and whether any could be seen."""
    held = Q(state__in=HELD_ONCE) & ~Q(completed_at=None)
    sums = {
        "held": Count("pk", filter=held), "keys": Sum("pk", filter=held), "steps": Sum("step", filter=held),
        "writers": Sum("attempt_id", filter=held), "last": Max("completed_at", filter=held),
        "changed": Max("changed_at", filter=held), "seen": Max("state", filter=~Q(state=CheckpointState.UNKNOWN)),
    }  # fmt: skip
    for *row, seen in checkpoints.order_by("run").values("run").annotate(**sums).values_list("run", *sums):
        yield (*row, seen is not None)


def _digest(told: object) -> str:
    return blake2b(repr(told).encode(), digest_size=16).hexdigest()
