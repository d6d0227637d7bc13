"""What each incident of a run cost: its moments, the gaps between them, and its share of the ledger."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import pairwise

from recovery.core.ledger.entries import Category, Entry, Ledger
from recovery.core.ledger.history import CaseClocks, History
from recovery.core.ledger.spans import MICROSECOND
from recovery.core.ledger.totals import clip


@dataclass(frozen=True, kw_only=True, slots=True)
class Gaps:
    """Microseconds between the moments; None where one of the two was not seen (yet).

    The moments come from several clocks: one that lies before an earlier moment counts as that one. So no gap is
    negative, and where all moments were seen the gaps sum up to `total`.
    """

    detect: int  # from the fault
    recommend: int | None  # from the detection
    decide: int | None  # from the recommendation
    act: int | None  # from the decision until the action was seen to have converged
    restore: int | None  # from then until the run was seen to be restored
    next_checkpoint: int | None  # from then until its next checkpoint was complete
    total: int | None  # from the fault until then


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Microseconds of a run's wall time, and of GPUs that it held in them."""

    time_us: int = 0
    gpu_us: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentAccount:
    """One incident. Which are interruptions: `CaseClocks.is_interruption`."""

    incident: int
    fault_at: datetime
    interruption: bool
    gaps: Gaps
    steps_lost: int | None  # from the restored step to the last one before the fault
    lost: Cost  # trained before the fault (since the one before it) and not survived
    stalled: Cost
    deciding: Cost  # what waiting for the decision cost
    acting: Cost
    deciding_run_gpu_us: int  # the same in GPUs that the run would have used, held or not


def gaps_of(clocks: CaseClocks) -> Gaps:
    """The gaps of one incident."""
    starts = (clocks.fault_at, clocks.detected_at, clocks.recommended_at, clocks.decided_at)
    moments = (*starts, clocks.acted_at, clocks.restored_at, clocks.checkpoint_at)
    latest = clocks.fault_at
    settled: list[datetime | None] = []
    for moment in moments:
        latest = latest if moment is None else max(latest, moment)
        settled.append(None if moment is None else latest)
    gaps = [_gap(a, b) for a, b in pairwise(settled)]
    _, recommend, decide, act, restore, next_checkpoint = gaps
    return Gaps(
        detect=gaps[0] or 0, recommend=recommend, decide=decide, act=act, restore=restore,
        next_checkpoint=next_checkpoint, total=_gap(settled[0], settled[-1]),
    )  # fmt: skip


def _gap(start: datetime | None, end: datetime | None) -> int | None:
    return (end - start) // MICROSECOND if start is not None and end is not None else None


def incident_accounts(history: History, ledger: Ledger) -> list[IncidentAccount]:
    """The incidents of a run by the time of their faults, slowdowns too.

    Each stop is charged with what the ledger says from its fault up to the next stop's, and with what was lost of the
    training since the stop before it. So nothing is charged twice.
    """
    cases = sorted({c.incident: c for c in history.cases}.values(), key=lambda c: (c.fault_at, c.incident))
    charged = {c.fault_at: c.incident for c in reversed(cases) if c.is_stop}  # of two faults at once the first
    faults = sorted(charged)
    gpus = {span.attempt: span.gpus for span in history.attempts}
    begins = [entry.start for entry in ledger.entries]
    accounts = []
    for clocks in cases:
        before: tuple[Entry, ...] = ()
        after: tuple[Entry, ...] = ()
        fault = clocks.fault_at
        if charged.get(fault) == clocks.incident and ledger.entries:
            place = bisect_left(faults, fault)
            since = faults[place - 1] if place else ledger.entries[0].start
            until = faults[place + 1] if place + 1 < len(faults) else ledger.entries[-1].end
            before = _part(ledger, begins, since, fault)
            after = _part(ledger, begins, fault, until)
        accounts.append(_account(clocks, before, after, gpus.get(clocks.attempt, 0)))
    return accounts


def _part(ledger: Ledger, begins: list[datetime], since: datetime, until: datetime) -> tuple[Entry, ...]:
    first = max(0, bisect_left(begins, since) - 1)
    return tuple(clip(ledger.entries[first : bisect_left(begins, until)], since, until))


def _account(clocks: CaseClocks, before: tuple[Entry, ...], after: tuple[Entry, ...], run_gpus: int) -> IncidentAccount:
    lost_steps = None
    if clocks.failed_step is not None and clocks.restored_step is not None:
        lost_steps = max(0, clocks.failed_step - clocks.restored_step)
    deciding = _cost(after, Category.DECIDING)
    return IncidentAccount(
        incident=clocks.incident,
        fault_at=clocks.fault_at,
        interruption=clocks.is_interruption,
        gaps=gaps_of(clocks),
        steps_lost=lost_steps,
        lost=_cost(before, Category.LOST),
        stalled=_cost(after, Category.STALLED),
        deciding=deciding,
        acting=_cost(after, Category.ACTING),
        deciding_run_gpu_us=deciding.time_us * run_gpus,
    )


def _cost(entries: tuple[Entry, ...], category: Category) -> Cost:
    own = [((e.end - e.start) // MICROSECOND, e.gpus) for e in entries if e.category is category]
    return Cost(time_us=sum(time for time, _ in own), gpu_us=sum(time * gpus for time, gpus in own))


GAPS = tuple(field.name for field in fields(Gaps))
