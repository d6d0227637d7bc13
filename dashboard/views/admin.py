"""Administration: the clusters, automation on each of them, and who holds which role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.page import DeskRequest, page
from dashboard.reads.shell import automation_of, picture_of
from dashboard.views.shell import back_to
from recovery import selectors
from recovery.access import EVERYTHING, ROLE_PERMISSIONS, Permission
from recovery.models import Cluster, KillSwitch, Membership
from recovery.models.access import Role, Scope
from recovery.pipeline import accounts, lock_out, pauses
from recovery.pipeline.invalid import Invalid
from recovery.selectors.scope import visible_to


@require_GET
@page()
def admin(request: DeskRequest) -> HttpResponse:
    return render(request, "admin.html", _context(request))


def _context(request: DeskRequest) -> dict[str, Any]:
    policy, now, actor = selectors.current_policy(), request.now, request.actor
    switch = KillSwitch.objects.first()
    clusters = list(visible_to(selectors.clusters(), actor))
    manages = actor.can(Permission.ACCOUNT_MANAGE, EVERYTHING)
    return {
        "clusters": [
            {"cluster": c, "picture": picture_of(c, now=now), "automation": automation_of([c], policy, switch=switch)}
            for c in clusters
        ],
        "switch": switch,
        "may_arm_all": actor.can(Permission.POLICY_EDIT, EVERYTHING),
        "members": _members() if actor.sees_everything else None,
        "manages": manages,
        "locked": lock_out.locked_accounts(now=now) if manages else [],
        "scopes": Scope.choices if manages else (),
        "role_choices": Role.choices if manages else (),
        "roles": [(Role(role), _sentences(Role(role))) for role in ROLE_PERMISSIONS],
        "place": "admin",
    }


def _sentences(role: Role) -> list[str]:
    """What it may; a training user's scope is part of what the role is."""
    if role is Role.OWNER:
        return ["see their own runs", "decide on them where the policy says so"]
    return [permission.sentence for permission in Permission if permission in ROLE_PERMISSIONS[role]]


def _members() -> QuerySet[Membership]:
    return Membership.objects.select_related("user", "cluster").order_by("user__username", "pk")


@require_POST
@page(Permission.ACCOUNT_MANAGE)
def give_role(request: DeskRequest) -> HttpResponse:
    """One role of one account for one scope, beside what it holds."""
    given = {name: request.POST.get(name, "").strip()[:150] for name in ("account", "role", "scope", "cluster", "name")}
    user = User.objects.filter(username=given["account"]).first()
    try:
        if user is None:
            raise Invalid([f"account: there is no account {given['account']!r}; `manage.py set_account` makes one."])
        if given["role"] not in Role.values:
            raise Invalid(["role: choose one of the list."])
        reach = accounts.reach_of(given["scope"], name=given["name"], cluster_name=given["cluster"])
        row = accounts.give_role(user, Role(given["role"]), reach, actor=request.actor, now=request.now, beside=True)
    except Invalid as problem:
        context = _context(request) | {"role_problem": problem.errors, "role_typed": given}
        return render(request, "admin.html", context, status=422)
    messages.success(request, f"{user.username} is {row.get_role_display().lower()} for {row.where}.", extra_tags="ok")
    return redirect("admin")


@require_POST
@page(Permission.ACCOUNT_MANAGE)
def take_role(request: DeskRequest, pk: int) -> HttpResponse:
    row = _members().filter(pk=pk).first()
    if row is None:
        raise Http404(f"There is no role {pk}.")
    try:
        accounts.take_role(row, actor=request.actor, now=request.now)
    except Invalid as problem:
        return render(request, "admin.html", _context(request) | {"role_problem": problem.errors}, status=422)
    told = f"{row.user.username} is no longer {row.get_role_display().lower()} for {row.where}."
    messages.success(request, told, extra_tags="ok")
    return redirect("admin")


@require_POST
@page(Permission.ACCOUNT_MANAGE)
def unlock(request: DeskRequest, pk: int) -> HttpResponse:
    """Let an account that failed to log in too often try again at once."""
    user = User.objects.filter(pk=pk).first()
    if user is None:
        raise Http404(f"There is no account {pk}.")
    if lock_out.unlock(user, actor=request.actor, now=request.now):
        messages.success(request, f"{user.username} can log in again.", extra_tags="ok")
    return redirect("admin")


@require_POST
@page(Permission.OPERATE, of=Cluster)
def pause(request: DeskRequest, pk: int) -> HttpResponse:
    """Stop automation on a cluster: from every page, with a reason."""
    return _switch(request, pk, pauses.pause, "Automation is paused on {}: every action is asked for from now on.")


@require_POST
@page(Permission.POLICY_EDIT, of=Cluster)
def arm(request: DeskRequest, pk: int) -> HttpResponse:
    return _switch(request, pk, pauses.arm, "Automation is armed again on {}: the policy decides.")


def _switch(request: DeskRequest, pk: int, service: Callable[..., None], done: str) -> HttpResponse:
    cluster = Cluster.objects.filter(pk=pk).first()
    if cluster is None:
        raise Http404(f"There is no cluster {pk}.")
    reason = request.POST.get("reason", "")
    try:
        service(pk, reason=reason, actor=request.actor, now=request.now)
    except Invalid as problem:
        context = _context(request) | {"problem": problem.errors, "problem_cluster": pk, "typed": reason}
        return render(request, "admin.html", context, status=422)
    messages.success(request, done.format(cluster.name), extra_tags="ok")
    return redirect(back_to(request))
