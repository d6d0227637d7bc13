"""What the reports page shows: a window, its groups, its days, and the dearest incidents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.http import QueryDict

from recovery.access import Actor
from recovery.core.ledger import Category
from recovery.core.ledger.figures import Figures
from recovery.core.ledger.incidents import GAPS
from recovery.core.ledger.summary import Spread
from recovery.core.ledger.words import GAP_LABELS
from recovery.models import Cluster, IncidentCost
from recovery.pipeline.report import Line, Report, report
from recovery.selectors import OpinionScore, opinion_score
from recovery.selectors.ledger_reads import FILTERS, Window, dearest
from recovery.selectors.scope import runs_of

SPANS = {"1": "24 hours", "7": "7 days", "30": "30 days", "90": "90 days"}
DEFAULT_SPAN = "7"
GROUP_LABELS = {
    "run": "Run", "user": "User", "account": "Account", "partition": "Partition", "qos": "QOS", "cluster": "Cluster",
    "policy": "Policy version", "rule": "Policy rule", "failure_class": "Failure class",
}  # fmt: skip
NUMBERS = ("run", "policy")  # filters whose value is one
LINES = 100
DEAREST = 10
LONGEST = timedelta(days=400)  # a picture of more days has no column to see


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What the address asks for; what it can't mean is passed over, and the page shows what was taken."""

    window: Window
    by: str
    span: str  # of SPANS, or "" where two dates are given
    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    label: str
    spread: Spread | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportPage:
    asked: Asked
    report: Report
    days: tuple[tuple[str, Mapping[Category, float]], ...]
    lines: tuple[Line, ...]
    figures: Figures
    clocks: tuple[Clock, ...]
    dearest: tuple[IncidentCost, ...]
    opinion_score: OpinionScore | None  # of an external diagnostic service with us

    @property
    def left_out(self) -> int:
        return len(self.report.lines) - len(self.lines)

    @property
    def highest_day_s(self) -> float:
        return max((sum(seconds.values()) for _, seconds in self.days), default=0.0)


def ask(query: QueryDict, cluster: Cluster | None, *, actor: Actor, now: datetime) -> Asked:
    span, problem = query.get("days", DEFAULT_SPAN), ""
    start, end = now - timedelta(days=int(span if span in SPANS else DEFAULT_SPAN)), now
    if span not in SPANS:
        span = ""
        since, until = _date(query.get("since", "")), _date(query.get("until", ""))
        begin = start if since is None else _midnight(since)
        close = end if until is None else min(_midnight(until) + timedelta(days=1), now)
        if begin < close <= begin + LONGEST:
            start, end = begin, close
        else:
            problem = f"A window begins before it ends, and has at most {LONGEST.days} days."
    only = {name: value for name in FILTERS if (value := _filter(name, query.get(name, ""))) is not None}
    if cluster is not None:
        only["cluster"] = cluster.name
    by = query.get("by", "")
    window = Window(start=start, end=end, only=only, runs=runs_of(actor))
    return Asked(window=window, by=by if by in GROUP_LABELS else "run", span=span, problem=problem)


def _filter(name: str, given: str) -> object | None:
    if name in NUMBERS:
        return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None
    return given[:100].replace("\0", "") or None


def _date(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if 1970 <= found.year <= 9000 else None


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def report_page(asked: Asked, *, now: datetime) -> ReportPage:
    """Fifteen queries at most, however much there is."""
    found = report(asked.window, by=asked.by, now=now)
    by_day = {line.key: line.figures.seconds for line in report(asked.window, by="day", now=now).lines}
    first, last = asked.window.start.astimezone(UTC).date(), (asked.window.end - timedelta(microseconds=1)).date()
    every = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    nothing = dict.fromkeys(Category, 0.0)
    figures = found.total.figures
    return ReportPage(
        asked=asked,
        report=found,
        days=tuple((f"{day:%Y-%m-%d}", by_day.get(day, nothing)) for day in every) if by_day else (),
        lines=found.lines[:LINES],
        figures=figures,
        clocks=tuple(Clock(label=GAP_LABELS[name], spread=figures.clocks[name]) for name in GAPS),
        dearest=tuple(dearest(asked.window, DEAREST, now=now)),
        opinion_score=opinion_score(asked.window),
    )
