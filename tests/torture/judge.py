"""What is wrong after a trial: things done twice, cases lost, gaps in the record of what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from recovery.core.lifecycle import ActionState
from recovery.models import Action, Event, Incident
from tests.ledger_balance import assert_all_balanced


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong after a trial; nothing, where the product kept its word."""

    doubles: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)  # in the record of what was done
    story: list[str] = field(default_factory=list)  # where something is wrong: what was recorded


def judge(effects: Mapping[str, tuple[int, int]], wrong: Mapping[str, bool], *, now: datetime) -> Verdict:
    """`effects`: how often something was found, and how often it is right; `wrong`: whether that is so."""
    doubles = [f"{what}: {found} for {right}" for what, (found, right) in effects.items() if found > right]
    losses = [f"{what}: {found} for {right}" for what, (found, right) in effects.items() if found < right]
    losses += [what for what, is_so in wrong.items() if is_so]
    for action in Action.objects.exclude(state=ActionState.CONVERGED):
        losses.append(f"{action.kind} is {action.state}: {action.detail}")
    gaps = _gaps() + _out_of_balance(now)
    return Verdict(doubles=doubles, losses=losses, gaps=gaps, story=_story() if doubles or losses or gaps else [])


def _gaps() -> list[str]:
    """Each change of state is written down once, and the chain of them has no break."""
    rows = [("incident", row.pk, row.state) for row in Incident.objects.all()]
    rows += [("action", row.pk, row.state) for row in Action.objects.all()]
    gaps = []
    for kind, pk, state in rows:
        events = Event.objects.filter(subject_kind=kind, subject_id=pk).exclude(new="").order_by("pk")
        moves = list(events.values_list("old", "new"))
        gaps += [f"{kind}: from {new} to {old} without a word" for (_, new), (old, _) in pairwise(moves) if new != old]
        if not moves or moves[-1][1] != state:
            gaps.append(f"{kind}: {state} is not what the last event says")
    return gaps


def _out_of_balance(now: datetime) -> list[str]:
    try:
        assert_all_balanced("after a kill", now=now)
    except AssertionError as error:
        return [f"the ledger does not balance: {error}"]
    return []


def _story() -> list[str]:
    events = Event.objects.exclude(verb__contains=".call_").order_by("pk")
    return [f"{e.at:%H:%M:%S} {e.subject_kind} {e.subject_id} {e.verb}: {e.reason}" for e in events]
