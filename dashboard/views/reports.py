"""Reports: where the time of runs went, over any window and group."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.page import DeskRequest, chosen_cluster, page, respond
from dashboard.reads import reports as reads
from recovery.core.ledger.figures import Figures
from recovery.pipeline.report import INCIDENTS_ONLY, Line
from recovery.selectors.ledger_reads import FILTERS, Key


@require_GET
@page()
def reports(request: DeskRequest) -> HttpResponse:
    asked = reads.ask(request.GET, chosen_cluster(request), actor=request.actor, now=request.now)
    found = reads.report_page(asked, now=request.now)
    window = asked.window
    given = {name: window.only[name] for name in FILTERS if name in window.only}
    csv = {"by": asked.by, "since": window.start.isoformat(), "until": window.end.isoformat(), **given}
    given_window = {"days": asked.span}
    if not asked.span:
        given_window |= {"since": f"{window.start:%Y-%m-%d}", "until": f"{window.end - timedelta(seconds=1):%Y-%m-%d}"}
    context = {
        "found": found,
        "asked": asked,
        "figures": found.figures,
        "groups": reads.GROUP_LABELS,
        "group": reads.GROUP_LABELS[asked.by],
        "spans": reads.SPANS,
        "given": {reads.GROUP_LABELS[name]: (name, value) for name, value in given.items()},
        "rows": [_row(line, asked, {**given, **given_window}) for line in found.lines],
        "timed": asked.by not in INCIDENTS_ONLY,
        "csv": urlencode(csv),
        "all": urlencode({**given_window, "by": asked.by}),
        "last": window.end - timedelta(seconds=1),
        "place": "reports",
    }
    return respond(request, "reports", (), context)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One line of the table, and the page that says more about it."""

    key: Key | None
    label: str
    figures: Figures
    href: str


def _row(line: Line, asked: reads.Asked, given: dict[str, Any]) -> Row:
    return Row(key=line.key, label=line.label, figures=line.figures, href=_more(line, asked, given))


def _more(line: Line, asked: reads.Asked, given: dict[str, Any]) -> str:
    """A run's own page; the cases of a class; else the runs of the group in the same window."""
    if asked.by == "run":
        return reverse("run", args=[line.key])
    if asked.by == "failure_class":
        return f"{reverse('incidents')}?{urlencode({'show': 'all', 'class': line.key})}"
    if asked.by == "rule":
        return reverse("policies")
    return f"{reverse('reports')}?{urlencode({**given, asked.by: line.key, 'by': 'run'})}"
