"""Clusters: the list, and the page of one with what the doctor found. No page waits for Slurm: a worker examines."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from dashboard.page import DeskRequest, is_part, page, respond
from dashboard.reads import clusters as reads
from recovery.access import EVERYTHING, Permission
from recovery.doctor import examine_installation
from recovery.doctor.stored import ask_again
from recovery.models import Cluster
from recovery.selectors import NotFound
from recovery.tasks import wake_examination


@require_GET
@page()
def clusters(request: DeskRequest) -> HttpResponse:
    context = {"rows": reads.examined_rows(actor=request.actor, now=request.now), "place": "clusters"}
    if request.actor.can(Permission.OPERATE, EVERYTHING) and not is_part(request, ("rows",)):
        context["installation"] = list(examine_installation(now=request.now, ask_broker=False))
    return respond(request, "clusters", ("rows",), context)


@require_GET
@page(of=Cluster)
def cluster(request: DeskRequest, pk: int) -> HttpResponse:
    """What the doctor found is for operators: it names folders and what our account may do."""
    try:
        found = reads.cluster_page(pk, now=request.now)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    context = {"found": found, "cluster": found.counts.cluster, "place": "clusters"}
    return respond(request, "cluster", ("head", "report"), context)


@require_POST
@page(Permission.OPERATE, of=Cluster)
def examine(request: DeskRequest, pk: int) -> HttpResponse:
    """Let a worker look at it now."""
    found = Cluster.objects.filter(pk=pk).first()
    if found is None:
        raise Http404(f"There is no cluster {pk}.")
    ask_again(found, actor=request.actor, now=request.now)
    wake_examination(pk)
    messages.success(request, f"{found.name} is examined now; what is found appears here.", extra_tags="ok")
    return redirect("cluster", pk)
