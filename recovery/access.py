"""Who may do what: one enum of permissions, one table from roles to permissions, one function `can`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from recovery.models.access import Membership, Role

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser


class Permission(StrEnum):
    """Each with the sentence that a refusal shows."""

    VIEW = "view"
    OPERATE = "operate"
    DECIDE = "decide"
    POLICY_EDIT = "policy.edit"
    TOKEN_MANAGE = "token.manage"  # noqa: S105 - the name of a permission

    @property
    def sentence(self) -> str:
        return SENTENCES[self]


SENTENCES = {
    Permission.VIEW: "see jobs, incidents, recommendations and policies",
    Permission.OPERATE: "pause automation and close cases by hand",
    Permission.DECIDE: "approve and reject recommendations",
    Permission.POLICY_EDIT: "change policies and arm automation again",
    Permission.TOKEN_MANAGE: "make and revoke API tokens",
}

_VIEWER = frozenset({Permission.VIEW})
_OPERATOR = _VIEWER | {Permission.OPERATE, Permission.TOKEN_MANAGE}
_APPROVER = _OPERATOR | {Permission.DECIDE}
ROLE_PERMISSIONS: dict[str, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.APPROVER: _APPROVER,
    Role.ADMIN: frozenset(Permission),
}


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who does something: a user at a page, a user's API token, or the product itself."""

    kind: str  # "user", "token", "system"
    name: str
    user_id: int | None
    permissions: frozenset[Permission]

    def can(self, permission: Permission) -> bool:
        return permission in self.permissions


SYSTEM = Actor(kind="system", name="Recovery Desk", user_id=None, permissions=frozenset())


class Forbidden(Exception):
    """The actor lacks a permission; the message says which, and who can give it."""


def require(actor: Actor, permission: Permission) -> None:
    if actor.can(permission):
        return
    roles = " or ".join(sorted(role for role, granted in ROLE_PERMISSIONS.items() if permission in granted))
    raise Forbidden(f"{actor.name} may not {permission.sentence}. An administrator can give the role {roles}.")


def actor_for(user: AbstractBaseUser | AnonymousUser) -> Actor:
    """The actor behind a logged-in user; an account without a role has no permission at all."""
    if not user.is_authenticated or not user.is_active:
        return Actor(kind="user", name="nobody", user_id=None, permissions=frozenset())
    role = Membership.objects.filter(user_id=user.pk).values_list("role", flat=True).first()
    return Actor(
        kind="user",
        name=user.get_username(),
        user_id=user.pk,
        permissions=ROLE_PERMISSIONS.get(role or "", frozenset()),
    )
