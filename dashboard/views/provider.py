"""Log-in at the site's own provider: the way there, and the way back."""

from __future__ import annotations

from django.conf import settings
from django.contrib import auth
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from recovery import oidc
from recovery.pipeline import accounts

ON_THE_WAY_S = 600  # how long somebody may take at the provider


class Ask(OIDCAuthenticationRequestView):  # type: ignore[misc]  # the library carries no types
    get_settings = staticmethod(oidc.setting)


class Return(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    get_settings = staticmethod(oidc.setting)

    def login_success(self) -> HttpResponseBase:
        then = self.request.session.pop("oidc_login_next", None)
        auth.login(self.request, self.user)
        self.request.session.set_expiry(None)  # a session like any other from here on
        accounts.logged_in(self.user, now=timezone.now())
        return redirect(then or "overview")


@require_GET
@never_cache
def ask(request: HttpRequest) -> HttpResponseBase:
    _on()
    try:
        response: HttpResponseBase = Ask.as_view()(request)
    except oidc.Unreachable:
        return redirect("/login/?provider=unreachable")
    if not request.user.is_authenticated:
        request.session.set_expiry(ON_THE_WAY_S)  # anybody can begin: what is left lying is soon gone
    return response


@require_GET
@never_cache
def back(request: HttpRequest) -> HttpResponseBase:
    _on()
    refused = redirect(oidc.setting("LOGIN_REDIRECT_URL_FAILURE"))
    if request.GET.get("error"):
        return refused
    try:
        response: HttpResponseBase = Return.as_view()(request)
    except SuspiciousOperation:  # nobody here has asked for it, or it was answered before
        return refused
    return response


def _on() -> None:
    if settings.OIDC is None:
        raise Http404("No provider for log-ins is configured.")
