"""What happens to accounts, each an event: who came in, could not, or left; which role was given and taken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from recovery import audit, sessions
from recovery.access import EVERYTHING, Actor, Permission, actor_for, require
from recovery.models import Cluster, Membership
from recovery.models.access import Role, Scope
from recovery.pipeline.invalid import Invalid


def logged_in(user: User, *, now: datetime) -> None:
    _record("account.logged_in", user, actor=actor_for(user), now=now)


def logged_out(user: User, *, now: datetime) -> None:
    _record("account.logged_out", user, actor=actor_for(user), now=now)


def log_in_failed(name: str, *, now: datetime) -> None:
    """A name that is no account's is not kept: people type their password there."""
    user = User.objects.filter(username=name).first()
    shown = user.get_username() if user else "somebody"
    actor = Actor(kind="user", name=shown, user_id=None, permissions=frozenset())
    reason = "" if user is None or user.is_active else "The account is switched off."
    _record("account.log_in_failed", user, actor=actor, now=now, reason=reason)


def log_in_refused(reason: str, *, now: datetime) -> None:
    """By what the site's own provider told; who it was about is in the reason where it is known."""
    nobody = Actor(kind="user", name="somebody", user_id=None, permissions=frozenset())
    _record("account.log_in_failed", None, actor=nobody, now=now, reason=reason)


def made(user: User, *, actor: Actor, now: datetime) -> None:
    _record("account.made", user, actor=actor, now=now, reason=f"Account {user.username}")


def password_changed(user: User, *, actor: Actor, now: datetime) -> None:
    sessions.end_all(user, now=now)
    _record("account.password_changed", user, actor=actor, now=now, reason=f"Account {user.username}")


# --- roles -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """For what a role is given."""

    scope: Scope = Scope.ALL
    cluster: Cluster | None = None
    name: str = ""


def read_reach(text: str) -> Reach:
    """From what people type: all, cluster=alpha, partition=gpu, account=nlp@alpha, user=mira. Raises Invalid."""
    kind, given, rest = text.strip().partition("=")
    if bool(given) is (kind == Scope.ALL):
        raise Invalid([f"scope: {text!r} is none; give {SCOPES_TYPED}."])
    if kind == Scope.CLUSTER:
        return reach_of(kind, cluster_name=rest)
    name, at, cluster_name = rest.rpartition("@")
    return reach_of(kind, name=name if at else rest, cluster_name=cluster_name if at else "")


SCOPES_TYPED = "all, cluster=NAME, partition=NAME, account=NAME or user=NAME, the last three also with @CLUSTER"


def reach_of(kind: str, *, name: str = "", cluster_name: str = "") -> Reach:
    """Raises Invalid, with what to give instead."""
    if kind not in Scope.values:
        raise Invalid([f"scope: {kind!r} is none; give {SCOPES_TYPED}."])
    scope = Scope(kind)
    if scope is Scope.ALL:
        return Reach()
    cluster = Cluster.objects.filter(name=cluster_name).first() if cluster_name else None
    if cluster is None and (cluster_name or scope is Scope.CLUSTER):
        known = ", ".join(Cluster.objects.order_by("name").values_list("name", flat=True)) or "there is none yet"
        raise Invalid([f"cluster: there is no cluster {cluster_name!r}; choose from: {known}."])
    if scope is Scope.CLUSTER:
        return Reach(scope=scope, cluster=cluster)
    if not 0 < len(name.strip()) <= 100:
        raise Invalid([f"name: name the {scope.label} in 1 to 100 characters."])
    return Reach(scope=scope, cluster=cluster, name=name.strip())


def give_role(user: User, role: Role, reach: Reach, *, actor: Actor, now: datetime, beside: bool = False) -> Membership:
    """Give a role for a scope, in place of others for the same scope unless `beside`. Raises Forbidden or Invalid."""
    require(actor, Permission.ACCOUNT_MANAGE, EVERYTHING)
    if (role is Role.OWNER) is not (reach.scope is Scope.USER):
        raise Invalid(
            ["role: owner is what a Slurm user is to their own jobs: give it with the scope user=NAME alone."]
        )
    with transaction.atomic():
        administrators = _administrators()
        same = Membership.objects.filter(user=user, scope=reach.scope, cluster=reach.cluster, name=reach.name)
        found = same.filter(role=role).first()
        before = [] if beside else list(same.exclude(role=role))
        row = found or Membership.objects.create(
            user=user, role=role, scope=reach.scope, cluster=reach.cluster, name=reach.name
        )
        for other in before:
            other.delete()
        _keep_an_administrator(administrators)
        if found is None or before:
            role_told(user, row, old=before[0].role if before else "", new=role.value, actor=actor, now=now)
    return row


def take_role(row: Membership, *, actor: Actor, now: datetime) -> None:
    """Take one role of one scope. Raises Forbidden or Invalid."""
    require(actor, Permission.ACCOUNT_MANAGE, EVERYTHING)
    with transaction.atomic():
        administrators = _administrators()
        if Membership.objects.filter(pk=row.pk).delete()[0]:
            _keep_an_administrator(administrators)
            role_told(row.user, row, old=row.role, new="", actor=actor, now=now)


def _administrators() -> int:
    """How many there are. They are locked until the change is stored: two who take each other's role wait in turn."""
    rows = Membership.objects.filter(role=Role.ADMIN, scope=Scope.ALL, user__is_active=True)
    return len(rows.select_for_update(of=("self",)).order_by("pk").values_list("pk"))


def _keep_an_administrator(before: int) -> None:
    """Without one nobody could give a role any more."""
    if before and not _administrators():
        raise Invalid(["role: this is the last administrator for everything: give that role to somebody else first."])


def role_told(user: User, row: Membership, *, old: str, new: str, actor: Actor, now: datetime) -> None:
    reason = f"Account {user.username}, for {row.where}"
    sessions.end_all(user, now=now)
    _record("account.role_changed", user, actor=actor, now=now, reason=reason, old=old, new=new)


def _record(
    verb: str, user: User | None, *, actor: Actor, now: datetime, reason: str = "", old: str = "", new: str = ""
) -> None:
    with transaction.atomic():
        audit.record(
            verb, actor=actor, at=now, subject_kind="account", subject_id=user.pk if user else "unknown", old=old,
            new=new, reason=reason,
        )  # fmt: skip
