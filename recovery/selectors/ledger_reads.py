"""What reports and pages read of the ledger: sums of days, exact at the edges of a window, and the open tails.

Whatever is asked, the number of queries is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db.models import F, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from recovery.core.ledger import Category, Totals
from recovery.core.ledger.slices import DAY, day_of
from recovery.core.ledger.spans import to_datetime, to_us
from recovery.core.ledger.totals import PLACE
from recovery.core.types import FindingKind
from recovery.models import IncidentCost, LedgerDay, LedgerEntry, Run, RunLedger

Key = str | int | date

# By what time can be grouped: the column of a day or an entry, and that of a tail.
COLUMNS: Mapping[str, tuple[str, str]] = {
    "cluster": ("run__cluster__name", "run__cluster__name"),
    "user": ("run__user", "run__user"),
    "account": ("job__account", "tail_job__account"),
    "partition": ("job__partition", "tail_job__partition"),
    "qos": ("job__qos", "tail_job__qos"),
    "run": ("run", "run"),
    "policy": ("policy", "tail_policy"),
}
FILTERS = tuple(COLUMNS)

TIME_FIELDS = tuple(f"{category}_us" for category in Category)
GPU_FIELDS = tuple(f"{category}_gpu_us" for category in Category)


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """From `start` up to `end`, and of which runs: columns of COLUMNS and the value that each must have."""

    start: datetime
    end: datetime
    only: Mapping[str, object]
    runs: QuerySet[Run, Any] | None = None  # only these; None: all

    @property
    def us(self) -> tuple[int, int]:
        return to_us(self.start), to_us(self.end)


def totals_by(window: Window, by: str, *, now: datetime) -> dict[Key, Totals]:
    """The time of a window by a name of COLUMNS, or by "day" (UTC). Three queries."""
    sums: dict[Key, _Sum] = defaultdict(_Sum)
    _add_days(sums, window, by)
    _add_edges(sums, window, by)
    _add_tails(sums, window, by, now=to_us(now))
    return {key: total.totals() for key, total in sums.items() if any(total.time)}


class _Sum:
    __slots__ = ("before", "gpus", "time")

    def __init__(self) -> None:
        self.time, self.gpus, self.before = [0] * len(Category), [0] * len(Category), 0

    def add(self, category: str, time: int, gpus: int, *, before: bool) -> None:
        place = PLACE[Category(category)]
        self.time[place] += time
        self.gpus[place] += gpus
        self.before += time if before else 0

    def totals(self) -> Totals:
        return Totals(time_us=tuple(self.time), gpu_us=tuple(self.gpus), before_start_us=self.before)


def _column(by: str) -> str:
    return "day" if by == "day" else COLUMNS[by][0]


def _add_days(sums: dict[Key, _Sum], window: Window, by: str) -> None:
    """Days that lie wholly within the window."""
    since, until = window.us
    first, last = -(-since // DAY), until // DAY - 1
    if first > last:
        return
    rows = LedgerDay.objects.filter(**_only(window, 0), day__gte=day_of(first * DAY), day__lte=day_of(last * DAY))
    fields = (*TIME_FIELDS, *GPU_FIELDS, "before_start_us")
    summed = rows.order_by().values_list(_column(by)).annotate(**{f"sum_{name}": Sum(name) for name in fields})
    size = len(Category)
    for key, *values in summed:
        total, numbers = sums[key], [int(value or 0) for value in values]
        total.time = [a + b for a, b in zip(total.time, numbers[:size], strict=True)]
        total.gpus = [a + b for a, b in zip(total.gpus, numbers[size : 2 * size], strict=True)]
        total.before += numbers[-1]


def _add_edges(sums: dict[Key, _Sum], window: Window, by: str) -> None:
    """The two days that the window cuts, from their entries."""
    since, until = window.us
    days = {at // DAY for at in (since, until) if at % DAY}
    if not days or since >= until:
        return
    rows = LedgerEntry.objects.filter(
        **_only(window, 0), day__in=[day_of(day * DAY) for day in days], start_us__lt=until, end_us__gt=since
    )
    length = Least(F("end_us"), Value(until)) - Greatest(F("start_us"), Value(since))
    grouped = rows.order_by().values_list(_column(by), "category", "before_start")
    for key, category, before, time, gpus in grouped.annotate(time=Sum(length), held=Sum(length * F("gpus"))):
        sums[key].add(category, int(time), int(gpus), before=before)


def _add_tails(sums: dict[Key, _Sum], window: Window, by: str, *, now: int) -> None:
    """Runs that aren't over go on as they did when their ledger was last kept."""
    since, until = window.us
    for key, first_start, kept, category, gpus in _tails(window, by):
        start, end = max(since, kept), min(until, now)
        while start < end:
            edge = min(end, (start // DAY + 1) * DAY) if by == "day" else end
            place = day_of(start) if by == "day" else key
            sums[place].add(category, edge - start, (edge - start) * gpus, before=first_start is None)
            start = edge


def _tails(window: Window, by: str) -> Iterator[tuple[Any, ...]]:
    rows = RunLedger.objects.filter(**_only(window, 1)).exclude(tail_category="")
    column = COLUMNS[by][1] if by in COLUMNS else "run"
    for key, *rest in rows.values_list(column, "first_start_us", "kept_us", "tail_category", "tail_gpus"):
        yield (key, *rest)


def _only(window: Window, place: int) -> dict[str, Any]:
    only = {COLUMNS[name][place]: value for name, value in window.only.items()}
    return only if window.runs is None else {**only, "run__in": window.runs}


# --- incidents -------------------------------------------------------------------------------------------------------
# Incidents can be grouped by these besides.
INCIDENT_COLUMNS: Mapping[str, str] = {
    **{name: column for name, (column, _) in COLUMNS.items()},
    "rule": "rule",
    "failure_class": "incident__failure_class",
}


def costs(window: Window) -> QuerySet[IncidentCost]:
    """What the incidents cost whose fault lies in the window."""
    return IncidentCost.objects.filter(**_only(window, 0), fault_at__gte=window.start, fault_at__lt=window.end)


def costs_by(
    window: Window, by: str, fields: tuple[str, ...], *, now: datetime
) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    """Those values of each at this moment, with the key that it belongs to. Two queries."""
    column = "fault_at" if by == "day" else INCIDENT_COLUMNS[by]
    grown = _grown(now=now)
    for pk, found, *values in costs(window).order_by().values_list("pk", column, *fields):
        more = grown.get(pk, {})
        told = (value + more[name] if name in more else value for name, value in zip(fields, values, strict=True))
        yield (found.date() if by == "day" else found), tuple(told)


def dearest(window: Window, count: int, *, now: datetime) -> list[IncidentCost]:
    """The interruptions that lost most, then those for which it was waited longest, at this moment. Three queries."""
    grown = _grown(now=now)
    found = costs(window).filter(interruption=True).select_related("incident__run")
    kept = found.exclude(pk__in=grown).order_by("-lost_gpu_us", "-deciding_run_gpu_us", "-pk")[:count]
    rows = [*kept, *(_grow(cost, grown) for cost in found.filter(pk__in=grown))]
    rows.sort(key=lambda cost: (cost.lost_gpu_us, cost.deciding_run_gpu_us, cost.pk), reverse=True)
    return rows[:count]


# What a run goes on with is charged to its last stop; training that it does is no cost.
CHARGED = (Category.STALLED, Category.DECIDING, Category.ACTING)
STOPS = tuple(kind for kind in FindingKind if kind.is_stop)


def _grown(*, now: datetime, **only: int) -> dict[int, dict[str, int]]:
    """What came to the costs of open cases since their ledgers were kept: by incident and column. One query.

    As in recovery/core/ledger/incidents.py the tail of a run belongs to its latest stop. It ends with the decision or
    the case, whether the ledger was looked at since or not.
    """
    stops = IncidentCost.objects.filter(
        **only, run__ledger__tail_category__in=CHARGED, incident__kind__in=STOPS
    ).order_by("run", "-fault_at", "pk")
    rows = stops.annotate(gpus=Coalesce("incident__attempt__gpus", "incident__attempt__job__gpus")).values_list(
        "run", "pk", "gpus", "incident__decided_at", "incident__closed_at", "run__ledger__kept_us",
        "run__ledger__tail_category", "run__ledger__tail_gpus",
    )  # fmt: skip
    grown: dict[int, dict[str, int]] = {}
    runs: set[int] = set()
    for run, pk, gpus, decided_at, closed_at, kept, category, held in rows:
        if run in runs:
            continue
        runs.add(run)
        ends = [closed_at, decided_at if category == Category.DECIDING else None]
        end = min([to_us(now), *(at for moment in ends if moment is not None and (at := to_us(moment)) > kept)])
        time = max(0, end - kept)
        grown[pk] = {f"{category}_us": time, f"{category}_gpu_us": time * held}
        if category == Category.DECIDING:
            grown[pk]["deciding_run_gpu_us"] = time * gpus
    return grown


def _grow(cost: IncidentCost, grown: Mapping[int, Mapping[str, int]]) -> IncidentCost:
    for name, more in grown.get(cost.pk, {}).items():
        setattr(cost, name, getattr(cost, name) + more)
    return cost


# --- one run ---------------------------------------------------------------------------------------------------------
def run_pieces(*, run_id: int, now: datetime) -> list[tuple[int, int, str]]:
    """What a run did, from and up to which microsecond, in order and without a gap, up to `now`. Two queries."""
    rows = LedgerEntry.objects.filter(run=run_id).order_by("start_us").values_list("start_us", "end_us", "category")
    pieces: list[tuple[int, int, str]] = []
    for start, end, category in rows:
        if pieces and pieces[-1][2] == category:
            start = pieces.pop()[0]
        pieces.append((start, end, category))
    row = RunLedger.objects.filter(run=run_id).exclude(tail_category="").first()
    if row is not None and to_us(now) > row.kept_us:
        pieces.append((row.kept_us, to_us(now), row.tail_category))
    return pieces


def kept_at(*, run_id: int) -> datetime | None:
    """When the ledger of a run was last kept anew; None: not yet."""
    row = RunLedger.objects.filter(run=run_id).first()
    return to_datetime(row.kept_us) if row is not None and row.kept_us else None


def incident_cost(*, incident_id: int, run_id: int, now: datetime) -> IncidentCost | None:
    """What it has cost up to now; None where its ledger was not kept yet. Two queries."""
    cost = IncidentCost.objects.filter(pk=incident_id).first()
    return None if cost is None else _grow(cost, _grown(now=now, run_id=run_id))
