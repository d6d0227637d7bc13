"""Push tokens: `rdp_<prefix>_<secret>`, shown once and stored as a digest.

They push for one job, for one Slurm user's jobs or for one cluster, and can do nothing else: no read, no decision.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from recovery import audit
from recovery.access import Actor, Forbidden, Permission, require
from recovery.api.tokens import LONGEST, PREFIX_BYTES, SECRET_BYTES, USED_AT_PRECISION, Invalid, Refused, digest
from recovery.models import Cluster, Job, PushToken
from recovery.selectors import NotFound

MARK = "rdp"
LIFETIME, LONGEST_LIFE = timedelta(days=90), timedelta(days=730)
MOST_LIVE = 1000  # tokens in use for each cluster: more is a script that forgets to revoke


def authenticate(text: str, *, now: datetime) -> PushToken:
    """The live token behind what was sent; only who has the secret learns that it has ended. Raises tokens.Refused."""
    mark, _, rest = text.partition("_")
    prefix, _, secret = rest.partition("_")
    if mark != MARK or not prefix or not secret or len(text) > LONGEST or not text.isascii():
        raise Refused(f"This is no push token: those look like {MARK}_<prefix>_<secret>.")
    token = PushToken.objects.select_related("cluster", "job").filter(prefix=prefix).first()
    known = hmac.compare_digest(digest(secret), token.digest if token else digest(""))
    if token is None or not known:
        raise Refused("This push token is not known. Send it whole, as it was shown when it was made.")
    if token.revoked_at is not None:
        raise Refused(
            f"The push token {token.name} was revoked at {token.revoked_at:%Y-%m-%d %H:%M} UTC: make another."
        )
    if token.expires_at <= now:
        raise Refused(f"The push token {token.name} expired at {token.expires_at:%Y-%m-%d %H:%M} UTC: make another.")
    if token.used_at is None or now - token.used_at >= USED_AT_PRECISION:
        PushToken.objects.filter(pk=token.pk).update(used_at=now)
    return token


def push_tokens() -> QuerySet[PushToken]:
    """All of them, newest first, ended ones too."""
    return PushToken.objects.select_related("cluster", "job")


def make(
    *, actor: Actor, name: str, cluster: Cluster, now: datetime, job: Job | None = None, user: str = "",
    expires_at: datetime | None = None,
) -> tuple[PushToken, str]:  # fmt: skip
    """Make a token; returns it with the text that is shown once. Raises Forbidden or Invalid.

    A token can't make tokens: one that leaked would outlive its own revocation.
    """
    require(actor, Permission.TOKEN_MANAGE, cluster)
    if actor.kind == "token":
        raise Forbidden("A token can't make tokens. Log in with your account and make it there.")
    expires_at = expires_at or now + LIFETIME
    _check(name=name, cluster=cluster, job=job, user=user, expires_at=expires_at, now=now)
    prefix, secret = secrets.token_hex(PREFIX_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    with transaction.atomic():
        live = PushToken.objects.filter(cluster=cluster, revoked_at=None, expires_at__gt=now)
        if live.count() >= MOST_LIVE:
            raise Invalid(name=[f"{cluster} has {MOST_LIVE} push tokens in use: revoke some first."])
        token = PushToken.objects.create(
            cluster=cluster, job=job, user=user, name=name.strip(), prefix=prefix, digest=digest(secret),
            made_by=actor.name[:150], created_at=now, expires_at=expires_at,
        )  # fmt: skip
        _record("push_token.made", token, actor=actor, now=now)
    return token, f"{MARK}_{prefix}_{secret}"


def _check(
    *, name: str, cluster: Cluster, job: Job | None, user: str, expires_at: datetime, now: datetime
) -> None:  # fmt: skip
    wrong: dict[str, list[str]] = {}
    if not 0 < len(name.strip()) <= 100 or not name.isprintable():
        wrong["name"] = ["Give a name of 1 to 100 characters that says what uses the token."]
    if job is not None and user:
        wrong["user"] = ["Give a job or a user, not both: a job's token is for that job alone."]
    elif len(user) > 100 or (user and not user.isprintable()):
        wrong["user"] = ["Give a Slurm user's name."]
    if job is not None and job.cluster_id != cluster.pk:
        wrong["job"] = [f"Job {job.job_id} is not one of {cluster}."]
    if not now < expires_at <= now + LONGEST_LIFE:
        wrong["expires_at"] = [f"Give a moment that is still to come, within {LONGEST_LIFE.days} days."]
    if wrong:
        raise Invalid(**wrong)


def revoke(*, token_id: int, actor: Actor, now: datetime) -> PushToken:
    """End a push token, whoever made it; again is no error. Raises Forbidden or NotFound."""
    require(actor, Permission.TOKEN_MANAGE)
    with transaction.atomic():
        token = push_tokens().filter(pk=token_id).first()
        if token is None:
            raise NotFound(f"There is no push token {token_id}.")
        require(actor, Permission.TOKEN_MANAGE, token.cluster)
        if PushToken.objects.filter(pk=token_id, revoked_at=None).update(revoked_at=now):
            token.revoked_at = now
            _record("push_token.revoked", token, actor=actor, now=now)
    return token


def live(now: datetime) -> QuerySet[PushToken]:
    return push_tokens().filter(Q(revoked_at=None), expires_at__gt=now)


def _record(verb: str, token: PushToken, *, actor: Actor, now: datetime) -> None:
    audit.record(
        verb, actor=actor, at=now, subject_kind="push_token", subject_id=token.pk, name=token.name,
        prefix=token.prefix, reach=token.reach,
    )  # fmt: skip
