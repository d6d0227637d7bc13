"""Asking for the password again before what is sensitive: a screen may have been left alone."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from recovery import sessions
from recovery.access import ASKS_AGAIN, Permission
from recovery.core.speech import duration
from recovery.middleware import client_address
from recovery.pipeline import accounts, lock_out

FIELD = "confirm_password"
SAFE = ("GET", "HEAD", "OPTIONS")


def ask(request: HttpRequest, user: User, permission: Permission) -> HttpResponse | None:
    """The page that asks, where it is time to; None: go on. What was sent is sent again with the password."""
    if request.method in SAFE or permission not in ASKS_AGAIN:
        return None
    trouble = ""
    if FIELD in request.POST:
        trouble = check(request, user)
        if not trouble:
            given = request.POST.copy()
            del given[FIELD]
            request.POST = given  # type: ignore[assignment]
    if not sessions.asks_again(request.session, user, now=timezone.now()):
        return None
    if request.headers.get("HX-Request") or request.FILES:  # neither could be sent again by a form
        return _elsewhere(request)
    kept = [
        (name, value)
        for name, values in request.POST.lists()
        for value in values
        if name not in ("csrfmiddlewaretoken", FIELD)
    ]
    return _page(request, {"kept": kept, "trouble": trouble, "action": request.get_full_path(), "does": permission})


def page(request: HttpRequest, user: User, *, then: str) -> HttpResponse:
    """On a page of its own, for what can't be sent again."""
    trouble = check(request, user) if request.method == "POST" else ""
    if request.method == "POST" and not trouble:
        return redirect(then)
    return _page(request, {"kept": [("next", then)], "trouble": trouble, "action": reverse("confirm")})


def check(request: HttpRequest, user: User) -> str:
    """Take the password that was sent; what is wrong with it, or ""."""
    name, address, now = user.get_username(), client_address(request), timezone.now()
    known = f"session {request.session.session_key}"  # strangers who try the name don't lock out who is here
    until = lock_out.begin(name, address, known=known, now=now)
    if until is not None:
        return locked_words((until - now).total_seconds())
    if not user.check_password(request.POST.get(FIELD, "")):
        accounts.log_in_failed(name, now=now)
        lock_out.failed(name, address, known=known, now=now)
        return "That is not the password of this account."
    lock_out.succeeded(name, address, known=known)
    sessions.confirm(request.session, now=now)
    return ""


def locked_words(wait_s: float) -> str:
    """The same whether there is such an account or not."""
    return (
        f"Too many tries failed: with this name, or from this address, nobody can log in for {duration(wait_s)}. "
        "An administrator can unlock an account."
    )


def _elsewhere(request: HttpRequest) -> HttpResponse:
    back = urlsplit(request.headers.get("HX-Current-URL", "") or request.get_full_path())
    there = f"{reverse('confirm')}?{urlencode({'next': back.path})}"
    if request.headers.get("HX-Request"):
        return HttpResponse(status=403, headers={"HX-Redirect": there})
    return redirect(there)


def _page(request: HttpRequest, context: dict[str, object]) -> HttpResponse:
    """403: nothing was done yet."""
    return render(request, "confirm.html", context, status=200 if request.method == "GET" else 403)
