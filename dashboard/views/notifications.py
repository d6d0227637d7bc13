"""Notifications: the channels by which people are told, how each does, and what was sent of late."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.page import DeskRequest, page
from recovery import selectors
from recovery.access import EVERYTHING, Permission, require
from recovery.models import Channel, Delivery
from recovery.pipeline import channels
from recovery.pipeline.invalid import Invalid
from recovery.selectors import NotFound, channel_reads
from recovery.tasks import wake_channel

MOST_SHOWN = 50  # deliveries


@require_GET
@page(Permission.CHANNEL_MANAGE)
def notifications(request: DeskRequest) -> HttpResponse:
    return _page(request)


@require_POST
@page(Permission.CHANNEL_MANAGE)
def make(request: DeskRequest) -> HttpResponse:
    """A secret is shown in this answer alone: it is no redirect, so that nothing has to keep it meanwhile."""
    typed = {name: request.POST.get(name, "")[:1100] for name in ("name", "kind", "target", "allow_private")}
    try:
        channel, secret = channels.make(
            name=typed["name"], kind=typed["kind"], target=typed["target"],
            allow_private=bool(typed["allow_private"]), actor=request.actor, now=request.now,
        )  # fmt: skip
    except Invalid as problem:
        return _page(request, problems=problem.errors, typed=typed, status=422)
    if secret:
        return _page(request, made=channel, secret=secret)
    messages.success(request, f"{channel.name} is there. Send a test to see whether it delivers.", extra_tags="ok")
    return redirect("notifications")


@require_POST
@page(Permission.CHANNEL_MANAGE, of=Channel)
def change(request: DeskRequest, pk: int) -> HttpResponse:
    """An empty target stays what it is: the page does not show the whole of it."""
    given = request.POST
    try:
        channel = channels.change(
            pk, name=given.get("name", "")[:150], target=given.get("target", "").strip()[:1100] or None,
            allow_private=bool(given.get("allow_private")), enabled=bool(given.get("enabled")),
            actor=request.actor, now=request.now,
        )  # fmt: skip
    except Invalid as problem:
        return _page(request, changing=pk, change_problems=problem.errors, status=422)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    messages.success(request, f"{channel.name} is changed.", extra_tags="ok")
    return redirect("notifications")


@require_POST
@page(Permission.CHANNEL_MANAGE, of=Channel)
def renew(request: DeskRequest, pk: int) -> HttpResponse:
    try:
        channel, secret = channels.renew_secret(pk, actor=request.actor, now=request.now)
    except Invalid as problem:
        return _page(request, changing=pk, change_problems=problem.errors, status=422)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    return _page(request, made=channel, secret=secret)


@require_POST
@page(Permission.CHANNEL_MANAGE, of=Channel)
def remove(request: DeskRequest, pk: int) -> HttpResponse:
    try:
        channel = channels.remove(pk, actor=request.actor, now=request.now)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    messages.success(request, f"{channel.name} is removed, with what it had waiting.", extra_tags="ok")
    return redirect("notifications")


@require_POST
@page(Permission.CHANNEL_MANAGE, of=Channel)
def test(request: DeskRequest, pk: int) -> HttpResponse:
    try:
        delivery = channels.try_out(pk, actor=request.actor, now=request.now)
    except Invalid as problem:
        return _page(request, changing=pk, change_problems=problem.errors, status=422)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    wake_channel(pk)
    told = f"A test by {delivery.channel.name} is on its way: below stands whether it arrives."
    messages.success(request, told, extra_tags="info")
    return redirect("notifications")


@require_POST
@page(Permission.CHANNEL_MANAGE, of=Delivery)
def again(request: DeskRequest, pk: int) -> HttpResponse:
    try:
        delivery = channels.try_again(pk, actor=request.actor, now=request.now)
    except Invalid as problem:
        return _page(request, problems=problem.errors, status=422)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    wake_channel(delivery.channel_id)
    messages.success(request, f"It is sent by {delivery.channel.name} now.", extra_tags="info")
    return redirect("notifications")


def _page(request: DeskRequest, *, status: int = 200, **more: object) -> HttpResponse:
    require(request.actor, Permission.CHANNEL_MANAGE, EVERYTHING)
    rows = [
        {"delivery": row, "state": channel_reads.delivery_state(row)}
        for row in channel_reads.deliveries()[:MOST_SHOWN]
    ]  # fmt: skip
    context = {
        "channels": [
            {"health": health, "target": channels.shown_target(health.channel)}
            for health in channel_reads.channels(now=request.now)
        ],
        "deliveries": rows,
        "kinds": Channel.KINDS,
        "policy_version": selectors.current_policy(),
        "place": "admin",
        **more,
    }  # fmt: skip
    return render(request, "notifications.html", context, status=status)
