"""Who may do what, and for what: one enum of permissions, one table from roles to them, one question, `Actor.can`.

A role is given for a scope (recovery/models/access.py), several to one account. docs/access.md is made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from recovery.models import Action, Attempt, Cluster, Incident, Job, Recommendation, Run
from recovery.models.access import Membership, Role, Scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser


class Permission(StrEnum):
    """Each with the sentence that a refusal shows."""

    VIEW = "view"
    OPERATE = "operate"
    DECIDE = "decide"
    POLICY_EDIT = "policy.edit"
    TOKEN_MANAGE = "token.manage"  # noqa: S105 - the name of a permission
    AUDIT_VIEW = "audit.view"
    CHANNEL_MANAGE = "channel.manage"
    ACCOUNT_MANAGE = "account.manage"

    @property
    def sentence(self) -> str:
        return SENTENCES[self]


SENTENCES = {
    Permission.VIEW: "see jobs, incidents, recommendations and policies",
    Permission.OPERATE: "pause automation and close cases by hand",
    Permission.DECIDE: "approve and reject recommendations",
    Permission.POLICY_EDIT: "change policies and arm automation again",
    Permission.TOKEN_MANAGE: "make and revoke API tokens",
    Permission.AUDIT_VIEW: "see the whole audit trail, log-ins too, and export it",
    Permission.CHANNEL_MANAGE: "set up the channels by which people are told",
    Permission.ACCOUNT_MANAGE: "give and take roles",
}

# Whoever uses a session gives the password again before these, once it is a while ago (recovery/sessions.py).
ASKS_AGAIN = frozenset(
    {Permission.POLICY_EDIT, Permission.TOKEN_MANAGE, Permission.CHANNEL_MANAGE, Permission.ACCOUNT_MANAGE}
)

_VIEWER = frozenset({Permission.VIEW})
_OPERATOR = _VIEWER | {Permission.OPERATE, Permission.TOKEN_MANAGE}
_APPROVER = _OPERATOR | {Permission.DECIDE}
ROLE_PERMISSIONS: dict[str, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.APPROVER: _APPROVER,
    Role.POLICY_ADMIN: _VIEWER
    | {Permission.POLICY_EDIT, Permission.TOKEN_MANAGE, Permission.AUDIT_VIEW, Permission.CHANNEL_MANAGE},
    Role.ADMIN: frozenset(Permission),
    Role.OWNER: _VIEWER,  # and to decide on their own runs, where `owners_decide` says so
}


# --- where something is ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """What scopes are compared with. Nothing named: only a role for everything reaches it."""

    cluster_id: int | None = None
    partitions: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    user: str = ""


EVERYTHING = Place()

Subject = Place | Cluster | Run | Job | Attempt | Incident | Recommendation | Action


def place_of(subject: Subject) -> Place:
    """Where it is. A run is wherever one of its jobs is."""
    if isinstance(subject, Place):
        return subject
    if isinstance(subject, Cluster):
        return Place(subject.pk)
    if isinstance(subject, Run):
        jobs = list(subject.jobs.values_list("partition", "account").distinct())
        partitions = frozenset(name for partition, _ in jobs for name in partition.split(","))
        return Place(subject.cluster_id, partitions, frozenset(account for _, account in jobs), subject.user)
    if isinstance(subject, Recommendation | Action):
        return place_of(subject.incident)
    if isinstance(subject, Incident):
        return place_of(subject.attempt.job)
    job = subject.job if isinstance(subject, Attempt) else subject
    return Place(job.cluster_id, frozenset(job.partition.split(",")), frozenset({job.account}), job.user)


def owners_decide(subject: Subject) -> bool:
    """Whether the policy lets training users decide on their own runs here: the recommendation says so."""
    if isinstance(subject, Incident):
        asked = next((each for each in subject.recommendations.all() if each.superseded_at is None), None)
        return asked is not None and owners_decide(asked)
    return isinstance(subject, Recommendation) and subject.approval.get("owner") is True


# --- who -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grant:
    """One role for one scope, as somebody holds it."""

    role: str
    scope: str = Scope.ALL
    cluster_id: int | None = None
    name: str = ""
    words: str = "everything"  # the scope as people say it

    @property
    def permissions(self) -> frozenset[Permission]:
        return ROLE_PERMISSIONS.get(self.role, frozenset())

    def allows(self, permission: Permission, subject: Subject) -> bool:
        if self.scope != Scope.ALL and not self.covers(place_of(subject)):
            return permission is Permission.VIEW and isinstance(subject, Cluster) and self.touches(subject.pk)
        by_policy = permission is Permission.DECIDE and self.role == Role.OWNER and owners_decide(subject)
        return permission in self.permissions or by_policy

    def covers(self, place: Place) -> bool:
        if self.scope == Scope.ALL:
            return True
        if self.cluster_id is not None and self.cluster_id != place.cluster_id:
            return False
        return {
            Scope.CLUSTER.value: self.cluster_id is not None,
            Scope.PARTITION.value: self.name in place.partitions,
            Scope.ACCOUNT.value: self.name in place.accounts,
            Scope.USER.value: self.name == place.user,
        }.get(self.scope, False) and (self.scope == Scope.CLUSTER or self.name != "")

    def touches(self, cluster_id: int) -> bool:
        """Whether it may reach anything on a cluster: then the cluster itself may be seen."""
        return bool(self.permissions) and self.cluster_id in (None, cluster_id)


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who does something: a user at a page, a user's API token, or the product itself.

    `permissions` is the most that they may do anywhere; `grants` says where. Without grants (None, as for whoever sits
    at the command line) the permissions hold everywhere.
    """

    kind: str  # "user", "token", "system"
    name: str
    user_id: int | None
    permissions: frozenset[Permission]
    grants: tuple[Grant, ...] | None = None

    def can(self, permission: Permission, subject: Subject | None = None) -> bool:
        """Whether they may do it to `subject`; without one: to anything at all."""
        if permission not in self.permissions and not (permission is Permission.DECIDE and self._owns_jobs):
            return False
        if subject is None or self.grants is None:
            return True
        return any(grant.allows(permission, subject) for grant in self.grants)

    @property
    def _owns_jobs(self) -> bool:
        """A policy may let them decide, at a page; a token decides by its scope alone."""
        return self.kind == "user" and any(grant.role == Role.OWNER for grant in self.grants or ())

    @property
    def sees_everything(self) -> bool:
        return self.can(Permission.VIEW, EVERYTHING)

    @property
    def roles(self) -> list[str]:
        """In words, for the menu: "Operator", "Approver for partition gpu on alpha"."""
        labels = dict(Role.choices)
        return [
            labels.get(grant.role, grant.role) + ("" if grant.scope == Scope.ALL else f" for {grant.words}")
            for grant in self.grants or ()
        ]


SYSTEM = Actor(kind="system", name="Recovery Desk", user_id=None, permissions=frozenset())


class Forbidden(Exception):
    """The actor lacks a permission; the message says which, and who can give it."""


def require(actor: Actor, permission: Permission, subject: Subject | None = None) -> None:
    if actor.can(permission, subject):
        return
    if permission in actor.permissions:
        more = "An administrator can give a role for more."
        raise Forbidden(f"{actor.name} may not {permission.sentence} here: {_held(actor)}. {more}")
    roles = " or ".join(sorted(role for role, granted in ROLE_PERMISSIONS.items() if permission in granted))
    raise Forbidden(f"{actor.name} may not {permission.sentence}. An administrator can give the role {roles}.")


def _held(actor: Actor) -> str:
    return "the role is " + ", ".join(role[0].lower() + role[1:] for role in actor.roles)


def holds_role(actor: Actor, role: str, subject: Subject | None = None) -> bool:
    """Whether the actor was given the role, or one that may do at least as much, for `subject` where one is given.

    A token's scopes make it no less: what it may do at all is asked by `Actor.can`.
    """
    wanted = ROLE_PERMISSIONS.get(role, frozenset(Permission))
    if actor.grants is None:
        return wanted <= actor.permissions
    place = place_of(subject) if subject is not None else None
    return any(wanted <= grant.permissions and (place is None or grant.covers(place)) for grant in actor.grants)


def owns(actor: Actor, run: Run) -> bool:
    """Whether the account was given the name of the run's user, on that cluster. Its own name says nothing about it."""
    place = Place(run.cluster_id, user=run.user)
    return any(grant.role == Role.OWNER and grant.covers(place) for grant in actor.grants or ())


def actor_for(user: AbstractBaseUser | AnonymousUser, *, by_groups: bool = True) -> Actor:
    """The actor behind a logged-in user; an account without a role has no permission at all.

    `by_groups`: whether what the groups of the site's own log-in gave still counts.
    """
    if not user.is_authenticated or not user.is_active:
        return Actor(kind="user", name="nobody", user_id=None, permissions=frozenset())
    rows = Membership.objects.filter(user_id=user.pk).select_related("cluster").order_by("pk")
    rows = rows if by_groups else rows.filter(by_group=False)
    grants = tuple(Grant(row.role, row.scope, row.cluster_id, row.name, row.where) for row in rows)
    return Actor(
        kind="user",
        name=user.get_username(),
        user_id=user.pk,
        permissions=frozenset().union(*(grant.permissions for grant in grants)),
        grants=grants,
    )
