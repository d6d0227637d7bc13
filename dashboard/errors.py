"""Forbidden, not found and broken, each inside the shell and each with what to do."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import loader

from dashboard.reads.shell import people_with
from recovery.access import actor_for
from recovery.models.access import Role


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Says which permission is missing and names who can grant it."""
    _recognise(request)
    context = {"message": str(exception) or "This page is not open to you.", "admins": people_with(Role.ADMIN)}
    return render(request, "errors/forbidden.html", context, status=403)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form came without its proof of origin: an old tab, usually."""
    _recognise(request)
    return render(request, "errors/csrf.html", {"reason": reason}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    _recognise(request)
    # the resolver's own exception carries a structure for developers, not a sentence
    told = exception.args[0] if exception.args and isinstance(exception.args[0], str) else ""
    return render(request, "errors/not_found.html", {"message": told}, status=404)


def broken(request: HttpRequest) -> HttpResponse:
    """Without a query and without the shell's data: the database may be what is broken."""
    return HttpResponse(loader.get_template("errors/broken.html").render({"theme": "auto"}), status=500)


def _recognise(request: HttpRequest) -> None:
    """These pages are also reached past `page`: the shell still shows itself to those who may see it."""
    user = getattr(request, "user", None)
    if user is not None and not hasattr(request, "actor"):
        request.actor = actor_for(user)  # type: ignore[attr-defined]
