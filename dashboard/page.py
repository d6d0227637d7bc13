"""What every page does before its own work: who asks, may they, which cluster, what time it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, cast

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django_htmx.middleware import HtmxDetails

from dashboard import confirm, errors
from dashboard.reads.shell import SESSION_KEY
from recovery import sessions
from recovery.access import EVERYTHING, Actor, Forbidden, Permission, actor_for, require
from recovery.models import Cluster
from recovery.selectors import NotFound
from recovery.selectors.scope import reach, visible_to


class DeskRequest(HttpRequest):
    """A request that passed `page`: its actor is known and permitted."""

    user: User
    actor: Actor
    htmx: HtmxDetails
    now: datetime


View = Callable[..., HttpResponseBase]


def page(permission: Permission = Permission.VIEW, *, of: type[Model] | None = None) -> Callable[[View], View]:
    """Log in first; then the permission, else the forbidden page with the sentence that says who can grant it.

    `of` is what the address names by its key: to whom it is not visible there is no such page. Without it, whatever is
    more than to look is of the whole site.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _log_in(request)
            desk = cast(DeskRequest, request)
            desk.now = timezone.now()
            desk.actor = actor_for(request.user)
            if request.method == "POST" or not request.headers.get("HX-Request"):
                sessions.touch(request.session, now=desk.now)
            response = _answer(view, desk, permission, of, *args, **kwargs)
            response.headers.setdefault("Cache-Control", "no-store")  # nothing is left behind after the log-out
            return response

        vars(wrapped)["of"] = of  # for a test that no address is forgotten
        return wrapped

    return decorate


def _answer(
    view: View,
    request: DeskRequest,
    permission: Permission,
    of: type[Model] | None,
    *args: object,
    **kwargs: object,
) -> HttpResponseBase:
    try:
        if of is not None and request.actor.can(Permission.VIEW):
            _reach(of, cast(int, kwargs["pk"]), request.actor, permission)
        if _holds_nul(request):
            return HttpResponse("A text holds a NUL, which no database keeps.", status=400, content_type="text/plain")
        require(request.actor, permission, EVERYTHING if of is None and permission is not Permission.VIEW else None)
        return confirm.ask(request, request.user, permission) or view(request, *args, **kwargs)
    except Forbidden as refusal:
        return errors.forbidden(request, refusal)
    except Http404 as missing:
        # here and not by Django's handler: with DEBUG that one shows its own page, outside the shell
        return errors.not_found(request, missing)


def _holds_nul(request: HttpRequest) -> bool:
    """Nobody types it, and not every database says no to it in the same way."""
    sent = (*request.GET.lists(), *request.POST.lists())
    return any("\0" in text for name, texts in sent for text in (name, *texts))


def _reach(of: type[Model], pk: int, actor: Actor, permission: Permission) -> None:
    try:
        reach(of, pk, actor, permission)
    except NotFound as missing:
        raise Http404(str(missing)) from missing


def _log_in(request: HttpRequest) -> HttpResponse:
    """A partial can't show the log-in inside a page: the browser is told to load the page anew."""
    if request.headers.get("HX-Request"):
        return HttpResponse(status=401, headers={"HX-Refresh": "true"})
    return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")


def chosen_cluster(request: DeskRequest) -> Cluster | None:
    """The cluster that the reader has in view; None: all."""
    name = request.session.get(SESSION_KEY, "")
    return visible_to(Cluster.objects.filter(name=name), request.actor).first() if name else None


def is_part(request: DeskRequest, parts: Sequence[str]) -> bool:
    """Whether a live region asks for its part of the page."""
    return bool(request.htmx) and request.GET.get("part", "") in parts


def respond(
    request: DeskRequest, name: str, parts: Sequence[str], context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """The whole page `NAME.html`, or one of its parts `NAME/PART.html` where a live region asks for it."""
    if is_part(request, parts):
        return render(request, f"{name}/{request.GET['part']}.html", context, status=status)
    return render(request, f"{name}.html", context, status=status)
