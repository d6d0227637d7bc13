"""Coming in, going out and saying the password again; each leaves an event."""

from __future__ import annotations

import secrets
from math import ceil
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from dashboard import confirm as asking
from dashboard.page import DeskRequest, page
from dashboard.views.shell import back_to
from recovery import oidc
from recovery.middleware import client_address
from recovery.pipeline import accounts, by_group, lock_out

KNOWN = "known_browser"  # a signed cookie, for the log-in alone; it lets nobody in
KNOWN_S = 180 * 86_400


def known_browser(request: HttpRequest, name: str) -> str:
    """What tells a browser in which somebody logged in with that name before; "" for any other."""
    told = request.get_signed_cookie(KNOWN, default="", salt=KNOWN, max_age=KNOWN_S) or ""
    of, _, browser = told.partition(":")
    return browser if browser and of == lock_out.name_of_browser(name) else ""


def remember_browser(response: HttpResponse, name: str, known: str) -> None:
    response.set_signed_cookie(
        KNOWN, f"{lock_out.name_of_browser(name)}:{known or secrets.token_hex(16)}", salt=KNOWN, max_age=KNOWN_S,
        path=reverse("login"), secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax",
    )  # fmt: skip


class LogInForm(AuthenticationForm):
    """Looks at the password only where neither the name nor the address is locked."""

    locked_s = 0.0

    def clean(self) -> dict[str, Any]:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is not None and password and self.request is not None:
            now = timezone.now()
            known = known_browser(self.request, name)
            until = lock_out.begin(name, client_address(self.request), known=known, now=now)
            if until is not None:
                self.locked_s = (until - now).total_seconds()
                raise forms.ValidationError(asking.locked_words(self.locked_s), code="locked")
        return super().clean()


class LogIn(LoginView):
    template_name = "login.html"
    form_class = LogInForm
    redirect_authenticated_user = True

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """`provider`: what came of a log-in there, or `left`: somebody who may want to log out there as well."""
        told = self.request.GET.get("provider", "")
        out = (
            oidc.log_out_address(self.request.build_absolute_uri("/login/")) if told == "left" and settings.OIDC else ""
        )
        return super().get_context_data(**context) | {"has_provider": settings.OIDC, "told": told, "log_out_there": out}

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        by_group.take_from_backend(form.get_user(), settings.GROUP_ROLES)  # before: a change of role ends sessions
        name = form.cleaned_data["username"]
        known = known_browser(self.request, name)
        response = super().form_valid(form)
        lock_out.succeeded(name, client_address(self.request), known=known)
        remember_browser(response, name, known)
        accounts.logged_in(form.get_user(), now=timezone.now())
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        locked_s = getattr(form, "locked_s", 0.0)
        if locked_s:
            response.status_code = 429
            response.headers["Retry-After"] = str(ceil(locked_s))
        elif form.cleaned_data.get("username") and form.cleaned_data.get("password"):
            name, now = form.cleaned_data["username"], timezone.now()
            accounts.log_in_failed(name.strip(), now=now)
            known = known_browser(self.request, name)
            lock_out.failed(name, client_address(self.request), known=known, now=now)
        return response


class LogOut(LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        by_provider = request.session.get(BACKEND_SESSION_KEY, "").startswith("recovery.oidc.")
        response = super().post(request, *args, **kwargs)
        if user.is_authenticated:
            accounts.logged_out(user, now=timezone.now())
        # Not at once on to the provider: the policy for our forms lets them lead nowhere else.
        return redirect("/login/?provider=left") if by_provider else response


@require_http_methods(["GET", "POST"])
@page()
def confirm(request: DeskRequest) -> HttpResponse:
    return asking.page(request, request.user, then=back_to(request))
