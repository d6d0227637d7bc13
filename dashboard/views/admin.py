"""Administration: the clusters, automation on each of them, and who holds which role."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.page import DeskRequest, page
from dashboard.reads.shell import automation_of, picture_of
from dashboard.views.shell import back_to
from recovery import selectors
from recovery.access import ROLE_PERMISSIONS, Permission
from recovery.models import Cluster, Membership
from recovery.pipeline import by_hand


@require_GET
@page()
def admin(request: DeskRequest) -> HttpResponse:
    return render(request, "admin.html", _context(now=request.now))


def _context(*, now: datetime) -> dict[str, Any]:
    policy = selectors.current_policy()
    clusters = list(selectors.clusters())
    return {
        "clusters": [
            {"cluster": c, "picture": picture_of(c, now=now), "automation": automation_of([c], policy)}
            for c in clusters
        ],
        "members": Membership.objects.select_related("user", "cluster").order_by("user__username", "pk"),
        "roles": [
            (role, [p.sentence for p in Permission if p in granted]) for role, granted in ROLE_PERMISSIONS.items()
        ],
        "place": "admin",
    }


@require_POST
@page(Permission.OPERATE, of=Cluster)
def pause(request: DeskRequest, pk: int) -> HttpResponse:
    """Stop automation on a cluster: from every page, with a reason."""
    return _switch(request, pk, by_hand.pause, "Automation is paused on {}: every action is asked for from now on.")


@require_POST
@page(Permission.POLICY_EDIT, of=Cluster)
def arm(request: DeskRequest, pk: int) -> HttpResponse:
    return _switch(request, pk, by_hand.arm, "Automation is armed again on {}: the policy decides.")


def _switch(request: DeskRequest, pk: int, service: Callable[..., None], done: str) -> HttpResponse:
    cluster = Cluster.objects.filter(pk=pk).first()
    if cluster is None:
        raise Http404(f"There is no cluster {pk}.")
    reason = request.POST.get("reason", "")
    try:
        service(pk, reason=reason, actor=request.actor, now=request.now)
    except by_hand.Invalid as problem:
        context = _context(now=request.now) | {"problem": problem.errors, "problem_cluster": pk, "typed": reason}
        return render(request, "admin.html", context, status=422)
    messages.success(request, done.format(cluster.name), extra_tags="ok")
    return redirect(back_to(request))
