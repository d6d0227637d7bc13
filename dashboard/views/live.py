"""The stream of changes (server-sent events)."""

from __future__ import annotations

from functools import partial

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from dashboard import live as feed
from recovery.access import Actor, Permission, actor_for


def _who(request: HttpRequest) -> tuple[int, Actor]:
    """Who asks, and as an HTTP status whether they may; then the connection is given back."""
    try:
        actor = actor_for(request.user)
        if not request.user.is_authenticated:
            return 401, actor
        return 200 if actor.can(Permission.VIEW) else 403, actor
    finally:
        close_old_connections()  # a stream may live long: it must not hold the connection of its request


async def live(request: HttpRequest) -> HttpResponseBase:
    """Each message says what changed; the page fetches the part that shows it.

    A browser that comes again names the last change it has seen; a new page names the newest one that it was made from.
    """
    if request.method != "GET":
        return HttpResponse(status=405, headers={"Allow": "GET"})
    status, actor = await sync_to_async(_who)(request)
    if status != 200:
        return HttpResponse(status=status)
    told = request.headers.get("Last-Event-ID") or request.GET.get("after", "")
    after = int(told) if told.isdecimal() and len(told) < 19 else None
    return StreamingHttpResponse(
        feed.stream(feed.hub(), after, hears=partial(feed.may_hear, actor), over=partial(feed.ends, actor)),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
