"""The first page: what needs me now, what runs, what is blind, how old the picture is."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from dashboard.page import DeskRequest, chosen_cluster, page, respond
from dashboard.reads.overview import read_overview

PARTS = ("head", "needs", "following", "running", "pictures", "alarms", "blind")


@require_GET
@page()
def overview(request: DeskRequest) -> HttpResponse:
    found = read_overview(chosen_cluster(request), actor=request.actor, now=request.now)
    return respond(request, "overview", PARTS, {"found": found, "place": "overview"})
