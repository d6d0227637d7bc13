"""As whom we speak to slurmrestd: a token that is configured, read from a file or made by `scontrol token`.

A token never appears in a message: it is checked before it gets into a header, where a bad one would be quoted.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from recovery.slurm.base import SlurmUnreachable
from recovery.slurm.cli_commands import Commands
from recovery.slurm.names import check_word, user_name

LIFESPAN_S = 1800
RENEW_S = 120  # so long before its end a token is no longer used: the clocks of two machines differ
MAX_TOKEN_FILE = 64 * 1024

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
_PREFIX = "SLURM_JWT="  # as `scontrol token` prints it, and as people store it

TokenSource = Callable[[], str]


def no_token() -> str:
    """For rest_auth/local, which tells who we are from the socket."""
    return ""


def fixed_token(token: str) -> TokenSource:
    return lambda: _not_ended(_checked(token, of="the option token"), renew="set the option token anew")


def token_from_file(path: str) -> TokenSource:
    """Read at each use: whoever renews the token (a secret's volume, a cron job) replaces the file."""

    def read() -> str:
        try:
            with Path(path).open("rb") as file:
                text = file.read(MAX_TOKEN_FILE).decode(errors="replace")
        except OSError as error:
            message = f"{path} can't be read ({error.strerror}): correct the option token_file or its permissions"
            raise SlurmUnreachable(message, tried="read the token", permanent=True) from error
        return _not_ended(_checked(text, of=path), renew=f"whoever renews {path} did not")

    return read


class ScontrolToken:
    """Tokens of `scontrol token`, one for all clients of the same options, made anew shortly before it ends.

    Slurm makes one for whoever runs the command; for another `user` only for root and SlurmUser.
    """

    _lock = threading.Lock()
    _kept: dict[tuple[str, str, str, str], tuple[str, float]] = {}  # token, and when it is to be renewed (monotonic)

    def __init__(self, *, slurm_conf: str, bin_dir: str, prefix: str, user: str, timeout_s: float) -> None:
        self._commands = Commands(slurm_conf=slurm_conf, bin_dir=bin_dir, prefix=prefix, timeout_s=timeout_s)
        self._key = (slurm_conf, bin_dir, prefix, user)
        self._user = user

    def __call__(self) -> str:
        with self._lock:
            token, renew_at = self._kept.get(self._key, ("", 0.0))
            if time.monotonic() >= renew_at:
                token = self._make()
                self._kept[self._key] = (token, time.monotonic() + LIFESPAN_S - RENEW_S)
            return token

    def forget(self) -> None:
        """The next use makes a new one: this one was refused (the key was changed, or our clocks differ)."""
        with self._lock:
            self._kept.pop(self._key, None)

    def _make(self) -> str:
        if self._user:
            check_word(self._user, kind="user", tried="make a token")
        whose = [f"username={self._user}"] if self._user else []
        answer = self._commands.run("scontrol", "token", f"lifespan={LIFESPAN_S}", *whose)
        if not answer.output.startswith(_PREFIX):
            raise SlurmUnreachable("it prints no token", tried=answer.tried)
        return _checked(answer.output, of="the output of scontrol token")


def user_of(token: str) -> str:
    """The user that the token names (claim "sun", as Slurm writes it); "" where it can't be read out of it.

    Only slurmrestd can verify it; nothing is decided by this but the user's name in our words.
    """
    name = _claims(token).get("sun")
    return name if isinstance(name, str) else ""


def end_of(token: str) -> datetime | None:
    """When the token ends (claim "exp", RFC 7519, section 4.1.4); None where it doesn't say."""
    ends = _claims(token).get("exp")
    if not isinstance(ends, (int, float)) or isinstance(ends, bool):
        return None
    try:
        return datetime.fromtimestamp(ends, UTC)
    except (ValueError, OverflowError, OSError):  # no time that a clock shows
        return None


def _claims(token: str) -> dict[str, object]:
    payload = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def own_name() -> str:
    """Who we are to rest_auth/local: the owner of this process."""
    return user_name(os.geteuid())


def _not_ended(token: str, *, renew: str) -> str:
    """22.05 answers to an ended token as if its controller were down ("Unspecified error"), so it is not sent.

    The clocks of two machines differ: what ended just now by ours may hold by theirs.
    """
    ends = end_of(token)
    if ends is not None and ends.timestamp() < time.time() - RENEW_S:
        message = f"the token ended at {ends:%Y-%m-%d %H:%M:%S} UTC, by this machine's clock: {renew}"
        raise SlurmUnreachable(message, tried="read the token", permanent=True)
    return token


def _checked(text: str, *, of: str) -> str:
    token = text.strip().removeprefix(_PREFIX)
    if not _TOKEN.fullmatch(token):
        raise SlurmUnreachable(f"{of} holds no token", tried="read the token", permanent=True)
    return token
