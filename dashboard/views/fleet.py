"""Outbreaks, one node with what is remembered of it, and the list of suspects by hand."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from dashboard.page import DeskRequest, page, respond
from dashboard.reads import fleet as reads
from recovery.access import Permission
from recovery.models import Node, Outbreak, Suspect
from recovery.pipeline.fleet import end_outbreak
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.suspects import add_suspect, remove_suspect
from recovery.selectors import NotFound, fleet_reads


@require_GET
@page(of=Outbreak)
def outbreak(request: DeskRequest, pk: int) -> HttpResponse:
    return outbreak_page(request, pk)


def outbreak_page(request: DeskRequest, pk: int, *, status: int = 200, **more: object) -> HttpResponse:
    try:
        found = reads.outbreak_page(pk, actor=request.actor)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    context = {"found": found, "outbreak": found.outbreak, "place": "incidents", **more}
    return respond(request, "outbreak", ("head", "runs", "waiting"), context, status=status)


@require_POST
@page(Permission.OPERATE, of=Outbreak)
def end(request: DeskRequest, pk: int) -> HttpResponse:
    """Its failures don't belong together, or what caused them is over."""
    reason = request.POST.get("reason", "").strip()[:280]
    if not reason:
        return outbreak_page(request, pk, problem="Give a reason: it stands in the audit trail.", status=422)
    try:
        found = fleet_reads.outbreak_detail(outbreak_id=pk).outbreak
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    if end_outbreak(found, reason=reason, actor=request.actor, now=request.now):
        messages.success(request, "The outbreak is over: what it held back is proposed again.", "ok")
    return redirect("outbreak", pk)


@require_GET
@page(of=Node)
def node(request: DeskRequest, pk: int) -> HttpResponse:
    return _node(request, pk)


def _node(request: DeskRequest, pk: int, *, status: int = 200, **more: object) -> HttpResponse:
    try:
        found = reads.node_page(pk, actor=request.actor, now=request.now)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    context = {"found": found, "node": found.detail.node, "place": "nodes", **more}
    return respond(request, "node", ("head", "strikes", "events"), context, status=status)


@require_POST
@page(Permission.OPERATE, of=Node)
def suspect(request: DeskRequest, pk: int) -> HttpResponse:
    """Put the node on the list."""
    row = Node.objects.filter(pk=pk).first()
    if row is None:
        raise Http404(f"There is no node {pk}.")
    reason, days = request.POST.get("reason", "")[:280], request.POST.get("days", "14").strip()
    try:
        add_suspect(
            row.cluster_id, row.name, reason=reason, until=_until(days, request.now), actor=request.actor,
            now=request.now,
        )  # fmt: skip
    except Invalid as problem:
        return _node(request, pk, problems=problem.errors, typed={"reason": reason, "days": days}, status=422)
    messages.success(request, f"{row.name} is a suspect from now on.", "ok")
    return redirect("node", pk)


def _until(days: str, now: datetime) -> datetime:
    """Raises Invalid."""
    if not (days.isascii() and days.isdigit() and 0 < int(days[:4]) < 366 and len(days) < 4):
        raise Invalid(["days: give a number of days, at most 365."])
    return now + timedelta(days=int(days))


@require_POST
@page(Permission.OPERATE, of=Suspect)
def pardon(request: DeskRequest, pk: int) -> HttpResponse:
    """Take a node off the list; its failures until now count no more."""
    row = Suspect.objects.filter(pk=pk).first()
    if row is None:
        raise Http404(f"There is no suspicion {pk}.")
    node = Node.objects.filter(cluster=row.cluster_id, name=row.node).first()
    reason = request.POST.get("reason", "")
    try:
        remove_suspect(pk, reason=reason, actor=request.actor, now=request.now)
    except Invalid as problem:
        if node is not None:
            return _node(request, node.pk, problems=problem.errors, typed={"reason": reason}, status=422)
        messages.error(request, " ".join(problem.errors), "critical")
        return redirect("nodes")
    messages.success(request, f"{row.node} is no suspect any more; its failures until now count no more.", "ok")
    return redirect("node", node.pk) if node is not None else redirect("nodes")
