"""What the cases of a run say about its time: stalled, waiting for a decision, acted upon.

A case speaks from the fault until it is closed, or until the attempt that it is about goes on by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from recovery.core.ledger.entries import Category
from recovery.core.ledger.history import CaseClocks, StepSeen
from recovery.core.ledger.lives import ENDED_WELL, Life
from recovery.core.ledger.spans import to_us
from recovery.core.lifecycle import IncidentState

# Watching, restoring, awaiting the checkpoint: nobody is about to do anything to the run. What its attempts do counts.
WAITS_FOR: dict[IncidentState, Category] = {
    IncidentState.DETECTED: Category.DECIDING,
    IncidentState.DIAGNOSED: Category.DECIDING,
    IncidentState.RECOMMENDED: Category.DECIDING,
    IncidentState.AWAITING_DECISION: Category.DECIDING,
    IncidentState.NEEDS_PERSON: Category.DECIDING,
    IncidentState.ACTING: Category.ACTING,
}
ORDER = {state: index for index, state in enumerate(IncidentState)}  # of changes in the same moment the last one holds

Timed = tuple[int, int, Category]  # from, up to, what


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One stop of a run in microseconds. `closed` None: open at the ledger's moment. `spells` leave no gap."""

    attempt: int
    failed: int
    closed: int | None
    spells: tuple[Timed, ...]


def cases_of(cases: tuple[CaseClocks, ...], steps: tuple[StepSeen, ...], now: int) -> list[Case]:
    """Every stop."""
    stops = [clocks for clocks in cases if clocks.is_stop]
    attempts = {clocks.attempt for clocks in stops}
    seen: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for step in steps:
        if step.attempt in attempts:
            seen[step.attempt].append((to_us(step.at), step.step))
    return [_case(clocks, seen[clocks.attempt], now) for clocks in stops]


def _case(clocks: CaseClocks, seen: list[tuple[int, int]], now: int) -> Case:
    detected = to_us(clocks.detected_at)
    failed = to_us(clocks.fault_at)
    changes = {(to_us(change.at), ORDER[change.state], change.state) for change in clocks.changes}
    changes.add((detected, ORDER[IncidentState.DETECTED], IncidentState.DETECTED))
    if clocks.closed_at is not None:
        changes.add((to_us(clocks.closed_at), ORDER[IncidentState.CLOSED], IncidentState.CLOSED))
    ordered = sorted(changes)
    closings = [at for at, _, state in ordered if state is IncidentState.CLOSED]
    closed = max(detected, min(closings)) if closings else None
    end = min(now + 1 if closed is None else closed, _resumed(clocks, failed, detected, seen, now))
    edges = [
        *((max(at, detected), WAITS_FOR.get(state, Category.IDLE)) for at, _, state in ordered),
        (end, Category.IDLE),
    ]
    spells = [(failed, min(detected, end), Category.STALLED)]
    spells += [(since, min(until, end), what) for (since, what), (until, _) in pairwise(edges)]
    return Case(
        attempt=clocks.attempt, failed=failed, closed=closed,
        spells=tuple(spell for spell in spells if spell[0] < spell[1]),
    )  # fmt: skip


def _resumed(clocks: CaseClocks, failed: int, detected: int, seen: list[tuple[int, int]], now: int) -> int:
    """When the failed attempt itself went on: a step beyond the one it failed at, or any after the detection."""
    further = (
        at
        for at, step in seen
        if at > detected or (clocks.failed_step is not None and step > clocks.failed_step and at >= failed)
    )
    return min(further, default=now + 1)


def over_since(lives: Iterable[Life], cases: Iterable[Case]) -> int | None:
    """When the run ended; None while an attempt of it queues or runs, or a case on it is open.

    Where its last attempt failed, the time until the case is closed is still the run's: that is what waiting costs.
    """
    ends = [(life.ended, life.state) for life in lives]
    known = [(at, state) for at, state in ends if at is not None]
    if len(known) < len(ends) or not known:
        return None
    last = max(at for at, _ in known)
    well = all(state in ENDED_WELL for at, state in known if at == last)
    held = [case.closed for case in cases if not (well and case.failed <= last)]
    if None in held:
        return None
    return max([last, *(at for at in held if at is not None)])
