"""What happens to accounts, for the audit trail: who came in, who could not, who left."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from recovery import audit
from recovery.access import Actor, actor_for


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


def _record(verb: str, user: User | None, *, actor: Actor, now: datetime, reason: str = "") -> None:
    with transaction.atomic():
        audit.record(
            verb, actor=actor, at=now, subject_kind="account", subject_id=user.pk if user else "unknown", reason=reason
        )
