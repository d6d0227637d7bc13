"""What people stop and let go on again from any page: automation everywhere, everything for one run."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from dashboard.page import DeskRequest, page
from dashboard.views.shell import back_to
from recovery.access import Permission
from recovery.models import Run
from recovery.pipeline import pauses
from recovery.pipeline.decide import OutOfDate
from recovery.pipeline.invalid import Invalid


@require_POST
@page(Permission.OPERATE)
def stop(request: DeskRequest) -> HttpResponse:
    """The kill switch: what policies do by themselves, on every cluster, at once."""
    return _answer(
        request,
        "Stop automation on every cluster",
        lambda reason: pauses.pull_kill_switch(reason=reason, actor=request.actor, now=request.now),
        "Automation is stopped on every cluster: every action is asked for from now on.",
    )


@require_POST
@page(Permission.POLICY_EDIT)
def arm(request: DeskRequest) -> HttpResponse:
    return _answer(
        request,
        "Arm automation on every cluster",
        lambda reason: pauses.reset_kill_switch(reason=reason, actor=request.actor, now=request.now),
        "Automation is armed again: the policy decides, on clusters that are not paused themselves.",
    )


@require_POST
@page(Permission.OPERATE, of=Run)
def take_over(request: DeskRequest, pk: int) -> HttpResponse:
    return _answer(
        request,
        "Take over the run",
        lambda reason: pauses.take_over(_there(pk), reason=reason, actor=request.actor, now=request.now),
        "You have taken over: nothing is done for this run, nor asked, until it is given back.",
    )


@require_POST
@page(Permission.OPERATE, of=Run)
def give_back(request: DeskRequest, pk: int) -> HttpResponse:
    return _answer(
        request,
        "Give the run back",
        lambda reason: pauses.give_back(_there(pk), reason=reason, actor=request.actor, now=request.now),
        "Given back: the policy decides about this run again.",
    )


def _there(pk: int) -> int:
    if not Run.objects.filter(pk=pk).exists():
        raise Http404(f"There is no run {pk}.")
    return pk


def _answer(request: DeskRequest, does: str, press: Callable[[str], None], done: str) -> HttpResponse:
    """Back to the page that the form was on. Where it failed: why, and the form again with what was typed."""
    reason, back = request.POST.get("reason", ""), back_to(request)
    try:
        press(reason)
    except (Invalid, OutOfDate) as refusal:
        text = str(refusal).removeprefix("reason: ")
        context = {"problem": text[:1].upper() + text[1:], "does": does, "typed": reason, "back": back}
        return render(request, "again.html", context, status=422 if isinstance(refusal, Invalid) else 409)
    messages.success(request, done, extra_tags="ok")
    return redirect(back)
