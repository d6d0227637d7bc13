"""Each view declares what it requires; this holds it to that. A view that declares nothing is closed."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from recovery import sessions
from recovery.access import ASKS_AGAIN, Forbidden, Permission, require
from recovery.api.authentication import actor_of
from recovery.models import PushToken

if TYPE_CHECKING:  # these classes are named in the settings, which the framework reads while it makes APIView
    from rest_framework.views import APIView


class Access(Enum):
    """What a view may require besides a Permission."""

    OPEN = "nothing"
    LOGGED_IN = "an account, also one without a role"
    PUSH = "a push token"


class HasPermission(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        required = getattr(view, "required", None)
        if required is Access.OPEN:
            return True
        if required is Access.PUSH:
            return isinstance(request.auth, PushToken)
        if not request.user.is_authenticated or required is None:
            return False
        if isinstance(required, Permission):
            _hold(request, required)
        return True


def _hold(request: Request, permission: Permission) -> None:
    actor = actor_of(request)
    if actor.kind == "token" and not actor.can(permission):
        raise Forbidden(
            f"{actor.name} may not {permission.sentence}. "
            f"The token needs the scope {permission}, and its owner a role that has this permission."
        )
    require(actor, permission)
    if actor.kind == "user" and permission in ASKS_AGAIN and request.method not in SAFE_METHODS:
        _ask_again(request)


def _ask_again(request: Request) -> None:
    session = request._request.session
    if isinstance(request.user, User) and sessions.asks_again(session, request.user, now=timezone.now()):
        raise Forbidden("It is a while since you gave your password: give it again at /confirm/, then repeat this.")
