"""API tokens: `rd_<prefix>_<secret>`, shown once and stored as a digest.

A token never gives more than its owner's role: what it may do is role ∩ scopes, asked anew at each request.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from recovery import audit
from recovery.access import Actor, Forbidden, Permission, actor_for, require
from recovery.models import ApiToken
from recovery.selectors import NotFound

MARK = "rd"  # lets a secret scanner recognise a token that leaked
PREFIX_BYTES = 5  # 10 hex digits, shown in lists
SECRET_BYTES = 32  # so much randomness needs no slow hash
LONGEST = 200  # characters; anything longer is not ours
MOST_LIVE = 50  # tokens in use for each owner: more is a script that forgets to revoke
USED_AT_PRECISION = timedelta(minutes=1)  # a busy script must not write at each of its reads


class Refused(Exception):
    """The token gives no access; the message says why and what to do."""


class Invalid(Exception):
    """Input that can't be accepted: for each field, what is wrong and what to give instead."""

    def __init__(self, **fields: list[str]) -> None:
        super().__init__(" ".join(f"{name}: {text}" for name, texts in fields.items() for text in texts))
        self.fields = fields


# --- use -------------------------------------------------------------------------------------------------------------


def authenticate(text: str, *, now: datetime) -> ApiToken:
    """The live token behind what a client sent, with its owner. Raises Refused.

    1. The digest is compared before anything else is told, in constant time, also where no token has the prefix.
    2. Only who has the secret learns that a token is revoked or has expired.
    """
    prefix, secret = _split(text)
    token = ApiToken.objects.select_related("user").filter(prefix=prefix).first()
    known = hmac.compare_digest(digest(secret), token.digest if token else digest(""))
    if token is None or not known:
        raise Refused("This token is not known. Send it whole, as it was shown when it was made.")
    if token.revoked_at is not None:
        raise Refused(f"The token {token.name} was revoked at {token.revoked_at:%Y-%m-%d %H:%M} UTC: make a new one.")
    if token.expires_at is not None and token.expires_at <= now:
        raise Refused(f"The token {token.name} expired at {token.expires_at:%Y-%m-%d %H:%M} UTC: make a new one.")
    if not token.user.is_active:
        raise Refused("The account behind this token is switched off. An administrator can switch it on again.")
    _mark_used(token, now=now)
    return token


def actor_of(token: ApiToken) -> Actor:
    """Whoever uses this token: its owner, held to its scopes.

    Groups are told at a log-in alone, and a token needs none. So what they gave counts only for a while after the last:
    who was let go there keeps no token for ever.
    """
    last = token.user.last_login
    fresh = last is not None and timezone.now() - last < timedelta(seconds=settings.GROUP_ROLES_S)
    owner = actor_for(token.user, by_groups=fresh)
    return replace(
        owner,
        kind="token",
        name=f"{owner.name} (token {token.name})"[:150],
        permissions=owner.permissions & scopes_of(token),
    )


def scopes_of(token: ApiToken) -> frozenset[Permission]:
    """Its scopes; a stored word that is no permission (any more) gives nothing."""
    return frozenset(permission for permission in Permission if permission in token.scopes)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _split(text: str) -> tuple[str, str]:
    mark, _, rest = text.partition("_")
    prefix, _, secret = rest.partition("_")
    if mark != MARK or not prefix or not secret or len(text) > LONGEST or not text.isascii():
        raise Refused(f"This is no token of Recovery Desk: those look like {MARK}_<prefix>_<secret>.")
    return prefix, secret


def _mark_used(token: ApiToken, *, now: datetime) -> None:
    if token.used_at is not None and now - token.used_at < USED_AT_PRECISION:
        return
    stale = Q(used_at=None) | Q(used_at__lte=now - USED_AT_PRECISION)
    ApiToken.objects.filter(stale, pk=token.pk).update(used_at=now)


# --- making and revoking ---------------------------------------------------------------------------------------------


def tokens_of(actor: Actor) -> QuerySet[ApiToken]:
    """The actor's own tokens, newest first, revoked ones too."""
    return ApiToken.objects.filter(user_id=actor.user_id or 0).order_by("-created_at", "-pk")


def make(
    *, actor: Actor, name: str, scopes: Collection[Permission], expires_at: datetime | None, now: datetime
) -> tuple[ApiToken, str]:
    """Make a token for the actor's account; returns it with the text that is shown once. Raises Forbidden or Invalid.

    A token can't make tokens: one that leaked would outlive its own revocation.
    """
    require(actor, Permission.TOKEN_MANAGE)
    if actor.kind == "token":
        raise Forbidden("A token can't make tokens. Log in with your account and make it there.")
    _check(actor=actor, name=name, scopes=scopes, expires_at=expires_at, now=now)
    prefix, secret = secrets.token_hex(PREFIX_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    owner = User.objects.get(pk=actor.user_id or 0)
    with transaction.atomic():
        live = tokens_of(actor).filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)
        if live.count() >= MOST_LIVE:
            raise Invalid(name=[f"You have {MOST_LIVE} tokens in use: revoke one first."])
        token = ApiToken.objects.create(
            user=owner,
            name=name.strip(),
            prefix=prefix,
            digest=digest(secret),
            scopes=sorted(scopes),
            created_at=now,
            expires_at=expires_at,
        )
        _record("token.made", token, actor=actor, now=now)
    return token, f"{MARK}_{prefix}_{secret}"


def revoke(*, token_id: int, actor: Actor, now: datetime) -> ApiToken:
    """End one of the actor's own tokens, now and for good; again is no error. Raises Forbidden or NotFound."""
    require(actor, Permission.TOKEN_MANAGE)
    with transaction.atomic():
        mine = tokens_of(actor).filter(pk=token_id)
        ended = mine.filter(revoked_at=None).update(revoked_at=now)
        token = mine.first()
        if token is None:
            raise NotFound(f"You have no token {token_id}.")
        if ended:
            _record("token.revoked", token, actor=actor, now=now)
    return token


def _check(
    *, actor: Actor, name: str, scopes: Collection[Permission], expires_at: datetime | None, now: datetime
) -> None:
    wrong: dict[str, list[str]] = {}
    if not 0 < len(name.strip()) <= 100:
        wrong["name"] = ["Give a name of 1 to 100 characters that says what uses the token."]
    if not scopes:
        wrong["scopes"] = ["Give at least one scope: " + ", ".join(sorted(actor.permissions)) + "."]
    elif beyond := sorted(set(scopes) - actor.permissions):
        wrong["scopes"] = [f"You may not {Permission(scope).sentence}, so leave out {scope}." for scope in beyond]
    if expires_at is not None and expires_at <= now:
        wrong["expires_at"] = ["Give a moment that is still to come, or null for a token that never expires."]
    if wrong:
        raise Invalid(**wrong)


def _record(verb: str, token: ApiToken, *, actor: Actor, now: datetime) -> None:
    audit.record(
        verb,
        actor=actor,
        at=now,
        subject_kind="token",
        subject_id=token.pk,
        name=token.name,
        prefix=token.prefix,
        scopes=token.scopes,
    )
