"""Coming in and going out; both leave an event."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from recovery.pipeline import accounts


class LogIn(LoginView):
    template_name = "login.html"
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        accounts.logged_in(form.get_user(), now=timezone.now())
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        if form.data.get("username") and form.data.get("password"):
            accounts.log_in_failed(str(form.data["username"]).strip(), now=timezone.now())
        return super().form_invalid(form)


class LogOut(LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        response = super().post(request, *args, **kwargs)
        if user.is_authenticated:
            accounts.logged_out(user, now=timezone.now())
        return response
