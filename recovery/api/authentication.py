"""Who is asking: a token in the Authorization header, or a logged-in session with its CSRF token.

Both give `(user, Actor)`, so `request.auth` is whoever acts, with what they may do.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from recovery.access import Actor, actor_for
from recovery.api import tokens

NOBODY = Actor(kind="user", name="nobody", user_id=None, permissions=frozenset())


def actor_of(request: Request) -> Actor:
    return request.auth if isinstance(request.auth, Actor) else NOBODY


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer rd_<prefix>_<secret>`. A wrong token is refused, also where a session would do."""

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        header = authentication.get_authorization_header(request).decode("latin-1")
        scheme, _, text = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        try:
            token = tokens.authenticate(text.strip(), now=timezone.now())
        except tokens.Refused as error:
            raise AuthenticationFailed(str(error)) from error
        return token.user, tokens.actor_of(token)

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Recovery Desk"'


class SessionAuthentication(authentication.SessionAuthentication):
    """The session of the pages. Whatever changes something needs the CSRF token as well."""

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        found = super().authenticate(request)
        return None if found is None else (found[0], actor_for(found[0]))

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied as error:
            remedy = "Send the CSRF token as X-CSRFToken, or an API token instead of the session."
            raise PermissionDenied(f"{error.detail} {remedy}", code="csrf_failed") from error
