"""Coming in, going out and saying the password again; each leaves an event."""

from __future__ import annotations

from math import ceil
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from dashboard import confirm as asking
from dashboard.page import DeskRequest, page
from dashboard.views.shell import back_to
from recovery.middleware import client_address
from recovery.pipeline import accounts, lock_out


class LogInForm(AuthenticationForm):
    """Looks at the password only where neither the name nor the address is locked."""

    locked_s = 0.0

    def clean(self) -> dict[str, Any]:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is not None and password and self.request is not None:
            now = timezone.now()
            until = lock_out.begin(name, client_address(self.request), now=now)
            if until is not None:
                self.locked_s = (until - now).total_seconds()
                raise forms.ValidationError(asking.locked_words(self.locked_s), code="locked")
        return super().clean()


class LogIn(LoginView):
    template_name = "login.html"
    form_class = LogInForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        lock_out.succeeded(form.cleaned_data["username"], client_address(self.request))
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
            lock_out.failed(name, client_address(self.request), now=now)
        return response


class LogOut(LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        response = super().post(request, *args, **kwargs)
        if user.is_authenticated:
            accounts.logged_out(user, now=timezone.now())
        return response


@require_http_methods(["GET", "POST"])
@page()
def confirm(request: DeskRequest) -> HttpResponse:
    return asking.page(request, request.user, then=back_to(request))
