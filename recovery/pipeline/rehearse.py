"""Beside the path: a draft of the policy on recorded history, as much of it as somebody can wait for at a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from recovery.core.replay import Replayed, Summary, replay, summary
from recovery.models import Recommendation
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.recorded import recorded

MOST = 20_000  # recommendations; 10,000 take about 4 s (benchmarks/replay.py)
MOST_DAYS = 366


@dataclass(frozen=True, kw_only=True, slots=True)
class Rehearsal:
    """`otherwise`: the cases to look at before the draft is saved, the newest first."""

    days: int
    told: Summary
    found: Sequence[Replayed]

    @property
    def otherwise(self) -> list[Replayed]:
        worse = {*self.told.against_people, *self.told.went_badly}
        return [each for each in reversed(self.found) if each.case.incident in worse]


def rehearse(rules: dict[str, Any], *, days: int, now: datetime) -> Rehearsal:
    """The draft over the last `days`. `rules` must have passed check_rules. Raises Invalid where that is too much."""
    if not 1 <= days <= MOST_DAYS:
        raise Invalid([f"days: give a whole number from 1 to {MOST_DAYS}."])
    since = now - timedelta(days=days)
    there = Recommendation.objects.filter(created_at__gte=since, created_at__lt=now, proposed_by="").count()
    if there > MOST:
        raise Invalid([
            f"days: {there} recommendations were made in that time, and at most {MOST} are replayed here; choose fewer "
            "days, or use manage.py replay."
        ])  # fmt: skip
    found = replay(rules, recorded(since=since, until=now))
    return Rehearsal(days=days, told=summary(found), found=found)


def figures(told: Summary) -> dict[str, Any]:
    """A summary as JSON says it: durations in seconds, lists of incidents."""
    return {
        "count": told.cases,
        "by_mode": {str(mode): count for mode, count in told.by_mode.items()},
        "automatic_before": told.automatic_before,
        "against_people": list(told.against_people),
        "went_badly": list(told.went_badly),
        "saved_s": told.saved.total_seconds(),
        "saved_gpu_hours": round(told.saved_gpu_s / 3600, 2),
    }


def line_of(each: Replayed) -> dict[str, Any]:
    """One case as JSON says it."""
    case = each.case
    return {
        "incident": case.incident,
        "at": case.at.isoformat(),
        "class": case.diagnosis.failure_class,
        "action": case.proposal.action,
        "mode": each.ruling.mode,
        "rule": each.ruling.rule,
        "reason": each.ruling.reason,
        "decision": case.decision,
        "outcome": case.outcome,
    }
