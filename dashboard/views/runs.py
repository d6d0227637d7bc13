"""Runs and jobs: the list, the page of one with its chart, and the chart's data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.core.paginator import Paginator
from django.http import Http404, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from dashboard import charts
from dashboard.page import DeskRequest, chosen_cluster, is_part, page, respond
from dashboard.reads import chart_data
from dashboard.reads import runs as reads
from recovery.models import Job, Run
from recovery.pipeline.report import run_report
from recovery.selectors import NotFound
from recovery.selectors.phase_reads import attempt_phases

T = TypeVar("T")

PER_PAGE = 50
PARTS = ("head", "ledger", "attempts", "cases", "checkpoints")


@require_GET
@page()
def runs(request: DeskRequest) -> HttpResponse:
    show = request.GET.get("show", "active")
    show = show if show in reads.RUN_FILTERS else "active"
    shown = Paginator(reads.runs(chosen_cluster(request), actor=request.actor, show=show), PER_PAGE).get_page(
        request.GET.get("page")
    )
    context = {"page": shown, "show": show, "filters": reads.RUN_FILTERS, "place": "runs"}
    return respond(request, "runs", ("rows",), context)


@require_GET
@page(of=Run)
def run(request: DeskRequest, pk: int) -> HttpResponse:
    return _page(request, lambda: reads.run_page(pk, actor=request.actor))


@require_GET
@page(of=Job)
def job(request: DeskRequest, pk: int) -> HttpResponse:
    return _page(request, lambda: reads.job_page(pk, actor=request.actor))


def _page(request: DeskRequest, read: Callable[[], reads.RunPage]) -> HttpResponse:
    found = _or_404(read)
    context: dict[str, Any] = {"found": found, "run": found.run, "job": found.job, "place": "runs"}
    if found.job is None and (not is_part(request, PARTS) or request.GET["part"] == "ledger"):
        context["ledger"] = run_report(run_id=found.run.pk, now=request.now)
    if not is_part(request, PARTS):  # no part shows samples, and a long run has many
        data = chart_data.read(found.run, job=found.job, width=chart_data.TABLE_ROWS, now=request.now)
        context |= {"title": charts.headline(data), "chart": data, "chart_empty": charts.nothing_to_draw(data)}
        context["phases"] = attempt_phases(found.newest, now=request.now) if found.newest is not None else None
    return respond(request, "run", PARTS, context)


@require_GET
@page(of=Run)
def run_chart(request: DeskRequest, pk: int) -> HttpResponse:
    """The figure as plotly.js draws it, or {"empty": why there is none}.

    `width` in pixels, `theme` light or dark, `incident` for the time around it.
    """
    found = _or_404(lambda: chart_data.of_run(pk, **_wishes(request)))
    return _figure(request, found)


@require_GET
@page(of=Job)
def job_chart(request: DeskRequest, pk: int) -> HttpResponse:
    found = _or_404(lambda: chart_data.of_job(pk, **_wishes(request)))
    return _figure(request, found)


def _wishes(request: DeskRequest) -> dict[str, Any]:
    incident = request.GET.get("incident", "")
    return {
        "width": chart_data.width_of(request.GET.get("width", "")),
        "incident_id": int(incident) if incident.isdecimal() and len(incident) < 15 else None,
        "now": request.now,
    }


def _figure(request: DeskRequest, data: chart_data.RunData) -> HttpResponse:
    if why := charts.nothing_to_draw(data):
        return JsonResponse({"empty": why})
    theme = "dark" if request.GET.get("theme") == "dark" else "light"
    figure = charts.run_figure(data, theme=theme, width=chart_data.width_of(request.GET.get("width", "")))
    return HttpResponse(figure.to_json(), content_type="application/json")


def _or_404(read: Callable[[], T]) -> T:
    try:
        return read()
    except NotFound as missing:
        raise Http404(str(missing)) from missing
