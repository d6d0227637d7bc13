"""Typed reading of environment variables. A wrong value stops the start and names the variable and the remedy.

Every variable NAME may also be given as NAME_FILE, the path of a file that holds the value (for secrets).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from zoneinfo import available_timezones

from django.core.exceptions import ImproperlyConfigured

from recovery.core.opinion import PROVIDER_KINDS, ProviderSettings


def env_str(name: str, default: str = "") -> str:
    file = os.environ.get(f"{name}_FILE")
    if file is None:
        return os.environ.get(name, default)
    if name in os.environ:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: keep one.")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}_FILE={file} can't be read ({error.strerror}): point it at a readable file."
        ) from error


def env_bool(name: str, default: bool) -> bool:
    value = env_str(name).lower()
    if not value:
        return default
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is not a yes or no: use true or false.")


def env_float(name: str, default: float, *, least: float = 0.0) -> float:
    value = env_str(name)
    if not value:
        return default
    try:
        number = float(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={value!r} is not a number: give one, {least:g} or more.") from error
    if not least <= number < float("inf"):
        raise ImproperlyConfigured(f"{name}={value!r} is out of range: give a number, {least:g} or more.")
    return number


def env_rate(name: str, default: str) -> str:
    """So many requests in a second, minute, hour or day, as Django REST framework writes it; "none" gives ""."""
    value = env_str(name, default).lower()
    if value in ("", "none"):
        return ""
    if re.fullmatch(r"[1-9][0-9]{0,8}/(s|sec|second|m|min|minute|h|hour|d|day)", value):
        return value
    raise ImproperlyConfigured(f"{name}={value!r} is no rate: use one such as 1200/min, or none for no limit.")


def env_list(name: str, default: list[str]) -> list[str]:
    """A comma-separated list; blanks around items are dropped."""
    value = env_str(name)
    return [item.strip() for item in value.split(",") if item.strip()] if value else default


# A refused connection is tried once more, at once: kombu's own default waits 2 s first, and a pressed button with it.
QUICK_RETRY = {"max_retries": 1, "interval_start": 0.1}


def broker(url: str) -> tuple[str, dict[str, Any]]:
    """Celery's broker URL and transport options for REDIS_URL.

    redis://HOST:PORT/DB, rediss://… (TLS), redis+socket:///PATH, or filesystem:///FOLDER: messages as files in an
    existing folder of this machine, for a checkout where no Redis can be had.
    """
    parts = urlsplit(url)
    if parts.scheme in ("redis", "rediss", "redis+socket"):
        return url, QUICK_RETRY
    if parts.scheme != "filesystem" or not parts.path:
        raise ImproperlyConfigured(
            f"REDIS_URL starts with {parts.scheme!r}: use redis://…, rediss://…, redis+socket:///… or filesystem:///…."
        )
    folder = unquote(parts.path)
    # One folder for both directions: a producer's way out is a consumer's way in.
    return "filesystem://", {"data_folder_in": folder, "data_folder_out": folder, "control_folder": folder}


def env_zone(name: str, default: str) -> str:
    value = env_str(name, default)
    if value not in available_timezones():
        raise ImproperlyConfigured(f"{name}={value!r} is not a time zone: give an IANA name such as Europe/Paris.")
    return value


def provider(settings: ProviderSettings, *, hosts: Sequence[str], lease_s: float) -> ProviderSettings | None:
    """The external diagnostic service; None where none is named: built-in rules alone.

    Its host must also stand among `hosts`: logs leave for nowhere by one mistyped address.
    """
    if not settings.kind:
        return None
    if settings.kind not in PROVIDER_KINDS:
        raise ImproperlyConfigured(f"RECOVERY_PROVIDER={settings.kind!r} is none of {', '.join(PROVIDER_KINDS)}.")
    parts = urlsplit(settings.url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ImproperlyConfigured("RECOVERY_PROVIDER_URL must be http:// or https:// with HOST[:PORT][/PATH].")
    if parts.hostname not in hosts:
        raise ImproperlyConfigured(
            f"RECOVERY_PROVIDER_URL leads to {parts.hostname}: name that host in RECOVERY_PROVIDER_HOSTS, too."
        )
    if settings.timeout_s > lease_s / 3:
        raise ImproperlyConfigured(
            f"RECOVERY_PROVIDER_TIMEOUT_S={settings.timeout_s:g} is too long: "
            f"at most a third of RECOVERY_LEASE_S, {lease_s / 3:g}."
        )
    return settings


@dataclass(frozen=True, kw_only=True, slots=True)
class OidcSettings:
    """A provider for log-ins (recovery/oidc.py)."""

    issuer: str
    client_id: str
    secret_file: str  # the path: it is read at each log-in
    scopes: str = "openid profile"
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    slurm_user_claim: str = ""
    ca_file: str = ""

    @property
    def client_secret(self) -> str:
        return Path(self.secret_file).read_text(encoding="utf-8").strip()


def oidc(settings: OidcSettings) -> OidcSettings | None:
    """None where no issuer is named: log-in with local passwords alone."""
    if not settings.issuer:
        return None
    parts = urlsplit(settings.issuer)
    here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or parts.query or parts.fragment or (parts.scheme != "https" and not here):
        raise ImproperlyConfigured("RECOVERY_OIDC_ISSUER must be https://HOST[/PATH], as the provider writes it.")
    if not settings.client_id:
        raise ImproperlyConfigured("RECOVERY_OIDC_CLIENT_ID is not set, and RECOVERY_OIDC_ISSUER is.")
    if not settings.secret_file or not Path(settings.secret_file).is_file():
        raise ImproperlyConfigured(
            f"RECOVERY_OIDC_SECRET_PATH={settings.secret_file} is no file: name the one with the client's secret."
        )
    if "openid" not in settings.scopes.split():
        raise ImproperlyConfigured("RECOVERY_OIDC_SCOPES must have openid among them.")
    return settings


@dataclass(frozen=True, slots=True)
class GroupRole:
    """Who is in that group has that role for that scope, as it is typed at the command line."""

    group: str
    role: str
    scope: str = "all"


ROLES_BY_GROUP = ("viewer", "operator", "approver", "policy_admin", "admin")


def group_roles(text: str) -> tuple[GroupRole, ...]:
    """From "GROUP: ROLE; GROUP: ROLE for SCOPE"; a group may stand there several times."""
    found = []
    for entry in filter(None, (each.strip() for each in text.split(";"))):
        group, colon, given = entry.rpartition(":")
        role, _, scope = given.strip().partition(" for ")
        if not colon or not group.strip() or role.strip() not in ROLES_BY_GROUP:
            raise ImproperlyConfigured(
                f"RECOVERY_GROUP_ROLES: {entry!r} is not GROUP: ROLE or GROUP: ROLE for SCOPE, "
                f"with a role of {', '.join(ROLES_BY_GROUP)}."
            )
        found.append(GroupRole(group.strip(), role.strip(), scope.strip() or "all"))
    return tuple(found)


def database(url: str, *, sqlite_path: Path) -> dict[str, Any]:
    """Django's database dictionary for DATABASE_URL: sqlite:///PATH or postgres://USER:PASSWORD@HOST:PORT/NAME."""
    if not url:
        return sqlite(sqlite_path)
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return sqlite(
            Path(unquote(parts.path[1:])) if parts.path[1:] else sqlite_path
        )  # sqlite:////abs or sqlite:///rel
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(f"DATABASE_URL starts with {parts.scheme!r}: use postgres://… or sqlite:///….")
    host = unquote(parts.hostname or "")
    query = dict(item.split("=", 1) for item in parts.query.split("&") if "=" in item)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(query.get("host", host)),
        "PORT": str(parts.port or ""),
        # One connection per request: under ASGI a kept one is held by whichever thread ran last.
        "CONN_MAX_AGE": 0,
    }


def sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        # IMMEDIATE takes the write lock at BEGIN: two writers queue up instead of failing in the middle.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    }


def mail_server(url: str) -> tuple[str, int, str, str, bool, bool]:
    """Host, port, user, password, STARTTLS, TLS of RECOVERY_MAIL_URL: smtp://, smtp+tls:// (STARTTLS) or smtps://."""
    parts = urlsplit(url)
    ports = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
    try:
        port = parts.port or ports.get(parts.scheme)
    except ValueError:  # no number, or none that a port can have
        port = None
    if port is None or not parts.hostname:
        raise ImproperlyConfigured("RECOVERY_MAIL_URL must be like smtp+tls://USER:PASSWORD@mail.example.org:587.")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return parts.hostname, port, user, password, parts.scheme == "smtp+tls", parts.scheme == "smtps"
