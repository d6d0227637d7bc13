"""Log-in at a site's own provider by OpenID Connect. mozilla-django-oidc runs the flow; here is what it leaves open.

It looks neither at audience nor issuer of a token, finds accounts by mail address, and knows no discovery. Here an
account is found by issuer and subject alone, and endpoints come from the provider's description of itself.
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt
import requests
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import SuspiciousOperation, ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from recovery.access import SYSTEM
from recovery.env import OidcSettings
from recovery.models import Identity
from recovery.pipeline import accounts, by_group

log = logging.getLogger(__name__)
TIMEOUT_S = 10
DESCRIPTION_KEPT_S = 3600
LEEWAY_S = 30  # clocks of provider and desk may differ by so much
ALGORITHMS = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
]  # no shared keys, no none
NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
FAULTS = (
    OSError,  # also what requests raises, and a secret that can't be read
    jwt.PyJWTError,
    SuspiciousOperation,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
)


class Refused(Exception):
    """Nobody is let in; the message says why, for the audit trail."""


class Unreachable(Exception):
    """The provider does not describe itself as it should; the message says what is wrong."""


def configured() -> OidcSettings:
    if settings.OIDC is None:
        raise Unreachable("No provider is configured.")
    return settings.OIDC


def description() -> dict[str, Any]:
    """What the provider says of itself: its issuer must be the one that is configured. Raises Unreachable."""
    issuer = configured().issuer
    key = f"oidc-{issuer}"
    found = cache.get(key)
    if found is None:
        found = _ask(issuer)
        cache.set(key, found, DESCRIPTION_KEPT_S)
    return dict(found)


def _ask(issuer: str) -> dict[str, Any]:
    address = issuer.rstrip("/") + "/.well-known/openid-configuration"
    try:
        response = requests.get(address, timeout=TIMEOUT_S, verify=configured().ca_file or True)
        response.raise_for_status()
        found = response.json()
    except (requests.RequestException, ValueError) as error:
        raise Unreachable(f"{address}: {error}") from error
    if not isinstance(found, dict) or found.get("issuer") != issuer:
        raise Unreachable(f"{address} names another issuer than RECOVERY_OIDC_ISSUER={issuer}.")
    for name in (*NEEDED, "userinfo_endpoint", "end_session_endpoint"):
        value = found.get(name)
        if value is None and name not in NEEDED:
            continue
        if not isinstance(value, str) or urlsplit(value).scheme not in ("https", urlsplit(issuer).scheme):
            raise Unreachable(f"{address}: {name} is no https:// address.")
    return found


def setting(name: str, *default: Any) -> Any:
    """What the library asks for by the names of its own settings."""
    oidc = configured()
    plain = {
        "OIDC_RP_CLIENT_ID": oidc.client_id,
        "OIDC_RP_CLIENT_SECRET": oidc.client_secret,
        "OIDC_RP_SCOPES": oidc.scopes,
        "OIDC_RP_SIGN_ALGO": "RS256",  # asymmetric, so with the provider's published keys; ALGORITHMS says which
        "OIDC_AUTHENTICATION_CALLBACK_URL": "oidc-callback",
        "OIDC_USE_PKCE": True,
        "OIDC_TIMEOUT": TIMEOUT_S,
        "OIDC_VERIFY_SSL": oidc.ca_file or True,
        "LOGIN_REDIRECT_URL_FAILURE": "/login/?provider=refused",
    }
    if name in plain:
        return plain[name]
    described = {
        "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
        "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
        "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
        "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
    }
    if name in described:
        return description().get(described[name], "")
    if name == "OIDC_TOKEN_USE_BASIC_AUTH":
        ways = description().get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return "client_secret_post" not in ways
    return default[0] if default else None


def log_out_address(back: str) -> str:
    """Where the provider ends its own session; "" where it has no such place or can't be asked."""
    try:
        address = description().get("end_session_endpoint", "")
    except Unreachable:
        return ""
    query = urlencode({"client_id": configured().client_id, "post_logout_redirect_uri": back})
    return f"{address}{'&' if '?' in address else '?'}{query}" if address else ""


class Backend(OIDCAuthenticationBackend):  # type: ignore[misc]  # the library carries no types
    get_settings = staticmethod(setting)

    def __init__(self) -> None:
        """Nothing: it is made for each request of a session and each local log-in, and must ask no provider then."""

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> User | None:
        if request is None or settings.OIDC is None or "nonce" not in credentials:
            return None
        try:
            super().__init__()
            found: User | None = super().authenticate(request, **credentials)
        except Refused as refusal:
            _refuse(str(refusal))
            return None
        except (Unreachable, *FAULTS) as error:
            log.warning("Log-in at the provider failed: %s: %s", type(error).__name__, error)
            _refuse(f"The provider's answer was not accepted ({type(error).__name__}).")
            return None
        return found

    def get_user(self, user_id: int) -> User | None:
        """None for an account that was switched off: the library would keep its sessions."""
        found: User | None = ModelBackend.get_user(self, user_id)
        return found

    def _verify_jws(self, payload: str, key: Any) -> dict[str, Any]:
        oidc = configured()
        claims: dict[str, Any] = jwt.decode(
            payload, key, algorithms=ALGORITHMS, audience=oidc.client_id, issuer=oidc.issuer, leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )  # fmt: skip
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (several or "azp" in claims) and claims.get("azp") != oidc.client_id:
            raise jwt.InvalidAudienceError("not given to this desk")
        return claims

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        if not kwargs.get("nonce"):
            raise SuspiciousOperation("no nonce")  # None would equal a token's missing one
        found: dict[str, Any] = super().verify_token(token, **kwargs)
        return found

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User:
        claims = dict(payload)
        if self.OIDC_OP_USER_ENDPOINT:
            told = self._told(access_token)
            if told.get("sub") != payload["sub"]:
                raise Refused("The provider told of somebody else.")
            claims = {**told, **payload}
        return _arrived(claims)

    def _told(self, access_token: str) -> dict[str, Any]:
        """Plain JSON alone: signed answers are asked for by nobody."""
        response = requests.get(
            self.OIDC_OP_USER_ENDPOINT, headers={"Authorization": f"Bearer {access_token}"}, timeout=TIMEOUT_S,
            verify=configured().ca_file or True,
        )  # fmt: skip
        response.raise_for_status()
        return dict(response.json())


def _refuse(reason: str) -> None:
    accounts.log_in_refused(reason, now=timezone.now())


def _arrived(claims: dict[str, Any]) -> User:
    """The account of that subject, with the roles of its groups; a new one only where they give it any."""
    oidc, now = configured(), timezone.now()
    groups = claims.get(oidc.groups_claim, [])
    names = {groups} if isinstance(groups, str) else {each for each in groups if isinstance(each, str)}
    slurm_user = claims.get(oidc.slurm_user_claim, "") if oidc.slurm_user_claim else ""
    roles = by_group.wanted(names, slurm_user if isinstance(slurm_user, str) else "", settings.GROUP_ROLES)
    with transaction.atomic():
        known = Identity.objects.select_related("user").filter(issuer=oidc.issuer, subject=claims["sub"]).first()
        if known is None and not roles:
            raise Refused("No group of theirs has a role here, and there is no account yet.")
        user = known.user if known else _new(claims, oidc)
        if not user.is_active:
            raise Refused(f"The account {user.get_username()} is switched off.")
        by_group.apply(user, roles, now=now)
    return user


def _new(claims: dict[str, Any], oidc: OidcSettings) -> User:
    """Never an account that is here already: whoever may choose names at the provider would take it over."""
    name = str(claims.get(oidc.name_claim) or "")
    user = User(username=name)
    user.set_unusable_password()
    try:
        user.full_clean()
    except ValidationError as error:
        raise Refused(f"The claim {oidc.name_claim} is no name for a new account.") from error
    if User.objects.filter(username__iexact=name).exists():
        raise Refused(f"There is an account {name} already, which belongs to nobody at the provider.")
    user.save()
    Identity.objects.create(user=user, issuer=oidc.issuer, subject=claims["sub"])
    accounts.made(user, actor=SYSTEM, now=timezone.now())
    return user
