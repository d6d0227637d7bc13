"""Stage 9, report: what an incident cost, and where the time of many runs went over any window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from recovery.core.ledger import Summary, Totals, combine, gaps_of
from recovery.core.ledger.figures import CHARGES, HOUR, Charged, Figures, figures_of
from recovery.core.ledger.incidents import GAPS
from recovery.core.ledger.spans import EPOCH
from recovery.core.ledger.summary import SECOND
from recovery.models import Incident, IncidentCost, Run
from recovery.pipeline.ledger_facts import clocks_of
from recovery.selectors import ledger_reads
from recovery.selectors.ledger_reads import COLUMNS, INCIDENT_COLUMNS, Key, Window

# Time has no rule and no failure class: by these two only incidents are told, and what they were charged with.
INCIDENTS_ONLY = tuple(name for name in INCIDENT_COLUMNS if name not in COLUMNS)
GROUPS = (*COLUMNS, "day", *INCIDENTS_ONLY)

_GAPS = tuple(f"{name}_us" for name in GAPS)
_COSTS = CHARGES[1:]  # each incident counts as one by itself


# --- one incident ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentReport:
    """Seconds between the moments; None where one of the two was not seen (yet). Costs are None until the run's ledger
    was kept after the incident began.
    """

    detect_s: float
    recommend_s: float | None
    decide_s: float | None
    act_s: float | None
    restore_s: float | None
    next_checkpoint_s: float | None
    total_s: float | None  # from the fault to the next complete checkpoint
    steps_lost: int | None  # trained, then lost: from the restored step to the last step before the fault
    gpu_hours_lost: float | None  # of the same, by the ledger
    stalled_gpu_hours: float | None  # held from the fault to its detection
    decision_wait_s: float | None
    decision_held_gpu_hours: float | None  # held while somebody had to decide
    decision_gpu_hours: float | None  # that the run would have used meanwhile, held or not


def incident_report(incident: Incident, *, now: datetime) -> IncidentReport:
    """Two queries: what its run's ledger has charged it with up to now."""
    gaps = gaps_of(clocks_of(incident))
    lost = None
    if incident.failed_step is not None and incident.restored_step is not None:
        lost = max(0, incident.failed_step - incident.restored_step)
    cost = ledger_reads.incident_cost(incident_id=incident.pk, run_id=incident.run_id, now=now)
    return IncidentReport(
        detect_s=gaps.detect / SECOND, recommend_s=_over(gaps.recommend, SECOND), decide_s=_over(gaps.decide, SECOND),
        act_s=_over(gaps.act, SECOND), restore_s=_over(gaps.restore, SECOND),
        next_checkpoint_s=_over(gaps.next_checkpoint, SECOND), total_s=_over(gaps.total, SECOND), steps_lost=lost,
        gpu_hours_lost=_charged(cost, "lost_gpu_us", HOUR),
        stalled_gpu_hours=_charged(cost, "stalled_gpu_us", HOUR),
        decision_wait_s=_charged(cost, "deciding_us", SECOND),
        decision_held_gpu_hours=_charged(cost, "deciding_gpu_us", HOUR),
        decision_gpu_hours=_charged(cost, "deciding_run_gpu_us", HOUR),
    )  # fmt: skip


def _charged(cost: IncidentCost | None, name: str, unit: int) -> float | None:
    return None if cost is None else getattr(cost, name) / unit


def _over(us: int | None, unit: int) -> float | None:
    return us / unit if us is not None else None


# --- many runs -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One group. `label` is how people read its key."""

    key: Key | None  # None: of all groups together
    label: str
    summary: Summary
    charged: Charged

    @property
    def figures(self) -> Figures:
        return figures_of(self.summary, self.charged)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    window: Window
    by: str
    lines: tuple[Line, ...]  # days and policies by themselves, others by the GPU time that they held
    total: Line


def report(window: Window, *, by: str, now: datetime) -> Report:
    """Where the time of a window went, by one of GROUPS. At most six queries, however much there is."""
    totals = ledger_reads.totals_by(window, by, now=now) if by not in INCIDENTS_ONLY else {}
    incidents = _incidents(window, by, now=now)
    keys = list(dict.fromkeys([*totals, *incidents]))
    names = _names(by, keys)
    lines = [
        _line(key, names.get(key) or _label(by, key), totals.get(key, Totals()), incidents.get(key, ())) for key in keys
    ]
    lines.sort(key=_order(by))
    total = Line(
        key=None, label="all", summary=combine(line.summary for line in lines),
        charged=Charged.sum(line.charged for line in lines),
    )  # fmt: skip
    return Report(window=window, by=by, lines=tuple(lines), total=total)


def _incidents(window: Window, by: str, *, now: datetime) -> dict[Key, list[tuple[Any, ...]]]:
    found: dict[Key, list[tuple[Any, ...]]] = defaultdict(list)
    for key, values in ledger_reads.costs_by(window, by, ("interruption", *_GAPS, *_COSTS), now=now):
        found[key].append(values)
    return found


def _line(key: Key, label: str, totals: Totals, incidents: Iterable[tuple[Any, ...]]) -> Line:
    rows = list(incidents)
    stops = [row for row in rows if row[0]]
    gaps = {
        name: tuple(sorted(us for row in stops if (us := row[place]) is not None)) for place, name in enumerate(GAPS, 1)
    }
    columns = zip(*(row[1 + len(GAPS) :] for row in rows), strict=True)
    sums = dict(zip(_COSTS, (sum(value or 0 for value in column) for column in columns), strict=False))
    return Line(
        key=key, label=label,
        summary=Summary(totals=totals, interruptions=len(stops), gaps=MappingProxyType(gaps)),
        charged=Charged(incidents=len(rows), **sums),
    )  # fmt: skip


def _names(by: str, keys: list[Key]) -> dict[Key, str]:
    if by != "run":
        return {}
    found = Run.objects.filter(pk__in=[int(str(key)) for key in keys])
    return dict(found.values_list("pk", "name"))


def _label(by: str, key: Key) -> str:
    if by == "policy":
        return f"version {key}" if key else "no policy yet"
    return str(key) or {"rule": "judged by no rule", "failure_class": "not diagnosed"}.get(by, f"no {by}")


def _order(by: str) -> Any:
    if by in ("day", "policy"):
        return lambda line: line.key
    return lambda line: (
        -line.summary.totals.allocated_us, -line.summary.totals.wall_us, -line.charged.lost_gpu_us, line.label
    )  # fmt: skip


# --- one run ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class RunReport:
    line: Line
    pieces: tuple[tuple[int, int, str], ...]  # from and up to which microsecond the run did what, in order
    kept_at: datetime | None


def run_report(*, run_id: int, now: datetime) -> RunReport:
    """The whole ledger of one run. Eight queries."""
    window = Window(start=EPOCH, end=now, only={"run": run_id})
    return RunReport(
        line=report(window, by="run", now=now).total,
        pieces=tuple(ledger_reads.run_pieces(run_id=run_id, now=now)),
        kept_at=ledger_reads.kept_at(run_id=run_id),
    )
