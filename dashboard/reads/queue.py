"""What waits for a decision: in the order of what waiting costs, with what each takes; and what was snoozed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard.reads import cases
from dashboard.reads.approval import Needed, needed_for
from dashboard.reads.shell import Picture, picture_of
from dashboard.timeline import Case, Stage, build
from recovery.access import Actor
from recovery.core.lifecycle import IncidentState
from recovery.models import Cluster, Incident


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """One question of the queue."""

    case: Case
    stages: tuple[Stage, ...]
    picture: Picture
    needed: Needed | None  # None where nothing is recommended any more
    snoozed_now: bool

    @property
    def incident(self) -> Incident:
        return self.case.incident

    @property
    def danger_is_now(self) -> bool:
        return cases.is_now(self.incident)

    @property
    def waits(self) -> bool:
        return self.case.state is IncidentState.AWAITING_DECISION


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    rows: tuple[Waiting, ...]
    snoozed: tuple[Waiting, ...]
    classes: tuple[tuple[str, int], ...]  # failure class → how many wait, the most first

    @property
    def total(self) -> int:
        return sum(count for _, count in self.classes)


def queue(cluster: Cluster | None, *, actor: Actor, failure_class: str, now: datetime) -> Queue:
    """In a fixed number of queries."""
    found = cases.to_decide(cluster, actor=actor)
    awake = [row for row in found if not _is_snoozed(row.incident, now)]
    snoozed = [row for row in found if _is_snoozed(row.incident, now)]
    shown = [row for row in awake if failure_class in ("", row.incident.failure_class)]
    waiting = _waiting([row.case for row in (*shown, *snoozed)], actor=actor, now=now)
    return Queue(
        rows=waiting[: len(shown)],
        snoozed=waiting[len(shown) :],
        classes=tuple(Counter(row.incident.failure_class for row in awake).most_common()),
    )


def one(incident_id: int, *, actor: Actor, now: datetime) -> Waiting | None:
    found = cases.incidents(None, actor=actor).filter(pk=incident_id).first()
    return _waiting([cases.case_of(found)], actor=actor, now=now)[0] if found is not None else None


def _is_snoozed(incident: Incident, now: datetime) -> bool:
    return incident.snoozed_until is not None and incident.snoozed_until > now


def _waiting(found: Sequence[Case], *, actor: Actor, now: datetime) -> tuple[Waiting, ...]:
    needed = needed_for([case.recommendation for case in found if case.recommendation], actor=actor, now=now)
    return tuple(
        Waiting(
            case=case, stages=build(case), picture=picture_of(case.incident.run.cluster, now=now),
            snoozed_now=_is_snoozed(case.incident, now),
            needed=needed[case.recommendation.pk] if case.recommendation is not None else None,
        )
        for case in found
    )  # fmt: skip
