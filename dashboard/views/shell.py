"""The shell's own requests: its live parts, the reader's preferences, search."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from dashboard import errors
from dashboard.context import THEMES
from dashboard.page import DeskRequest, page
from dashboard.reads.search import search as find
from dashboard.reads.shell import SESSION_KEY
from recovery.models import Cluster
from recovery.selectors.scope import visible_to

YEAR_S = 31_536_000


@require_GET
@page()
def shell(request: DeskRequest) -> HttpResponse:
    """Automation, age of the picture and the count of what needs a person, each to its place."""
    return render(request, "parts/shell.html")


@require_POST
@page()
def preferences(request: DeskRequest) -> HttpResponse:
    """The cluster in view (kept in the session) and the theme (kept in a cookie), then back to the page."""
    response = redirect(back_to(request))
    if "cluster" in request.POST:
        name = request.POST["cluster"]
        request.session[SESSION_KEY] = (
            name if visible_to(Cluster.objects.filter(name=name), request.actor).exists() else ""
        )
    if request.POST.get("theme") in THEMES:
        response.set_cookie("theme", request.POST["theme"], max_age=YEAR_S, samesite="Lax", secure=request.is_secure())
    return response


def back_to(request: HttpRequest) -> str:
    """The page that the form or the address names, if it is one of ours."""
    wanted = request.POST.get("next") or request.GET.get("next", "")
    allowed = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if allowed and wanted.startswith("/") else "/"


@require_GET
@page()
def search(request: DeskRequest) -> HttpResponse:
    """One hit opens; more are listed."""
    words = request.GET.get("q", "").strip()[:100]
    found = find(words, actor=request.actor)
    only = found.only
    if only is not None:
        return redirect(only)
    return render(request, "search.html", {"q": words, "found": found, "place": ""})


def nothing_here(request: HttpRequest) -> HttpResponse:
    return errors.not_found(request, Http404())
