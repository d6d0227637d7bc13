"""Accounts and tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User

from recovery.access import Permission
from recovery.models import ApiToken, Membership
from recovery.models.access import Role
from tests.factories.base import ago, numbers


def make_user(*, role: Role | None = Role.VIEWER, username: str = "", password: str | None = None) -> User:
    """An account with a role, or with none (an outsider). Named after its role unless a name is given."""
    user = User.objects.create_user(username or (role.value if role else "outsider"), password=password)
    if role:
        Membership.objects.create(user=user, role=role)
    return user


def make_token(*, user: User, secret: str = "x" * 40, scopes: Sequence[Permission] | None = None, **fields: Any) -> str:
    """Store a token and return what its owner sends after "Bearer". It has all scopes unless some are given."""
    prefix = fields.pop("prefix", f"p{next(numbers):07d}")
    wanted = tuple(Permission) if scopes is None else scopes
    defaults = {
        "name": "a script",
        "digest": hashlib.sha256(secret.encode()).hexdigest(),
        "scopes": [str(scope) for scope in wanted],
        "created_at": ago(86_400),
    }
    ApiToken.objects.create(user=user, prefix=prefix, **{**defaults, **fields})
    return f"rd_{prefix}_{secret}"
