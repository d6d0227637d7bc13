"""Each view declares what it requires; this holds it to that. A view that declares nothing is closed."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from recovery.access import Forbidden, Permission, require
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
