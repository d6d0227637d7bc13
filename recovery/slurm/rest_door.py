"""The way to one slurmrestd: which version of its API is spoken, as whom, and what it can't do."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

from recovery.slurm import rest_json, rest_versions
from recovery.slurm.base import YES, Can, NotSupported, Operation, SlurmError, SlurmUnreachable
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.names import check_word
from recovery.slurm.rest_auth import ScontrolToken, TokenSource, own_name, user_of
from recovery.slurm.rest_http import HttpAnswer, Request, RestHttp, path_of
from recovery.slurm.rest_json import NoSuchCall, TokenRefused

T = TypeVar("T")

_versions: dict[str, str] = {}  # by address; forgotten when a call is not there any more, or lacks slurmdbd
_again_at: dict[str, float] = {}  # by address: when a newer version, which lacks slurmdbd, is asked for again
AGAIN_AFTER_S = 60


class RestDoor:
    """`token` is asked before each request ("" for rest_auth/local); `user` goes with it, "" takes the token's own."""

    def __init__(self, http: RestHttp, *, token: TokenSource, user: str) -> None:
        self._http = http
        self._token = token
        self._user = user

    def can(self, operation: Operation) -> Can:
        try:
            version = self.version()
        except SlurmError as error:
            reason = f"What this slurmrestd offers can't be told: {error.message}."
            return Can(yes=False, reason=reason, remedy="See that it answers at the cluster's url.")
        if operation in rest_versions.operations(version):
            return YES
        first = rest_versions.since(operation)
        upgrade = f", or upgrade to Slurm {first.release}" if first else ""
        return Can(
            yes=False,
            reason=f"slurmrestd's API {version} can't {rest_versions.LACKS[operation]}.",
            remedy=f"Let the commands act beside it (option acts_by: cli){upgrade}.",
        )

    def needed(self, operation: Operation) -> str:
        """The version in use, which has this operation. Raises NotSupported; SlurmUnreachable where none is known."""
        version = self.version()
        if not self.can(operation):
            raise self.denied(operation)
        return version

    def denied(self, operation: Operation) -> NotSupported:
        able = self.can(operation)
        return NotSupported(f"{able.reason} {able.remedy}", tried=operation.value, permanent=True)

    def read(self, request: Request) -> dict[str, Any]:
        return rest_json.whole(self.send(request))

    def send(self, request: Request) -> HttpAnswer:
        headers = self._headers()
        answer = _without(headers.get("X-SLURM-USER-TOKEN", ""), self._http.send(request, headers=headers))
        if request.path.startswith("/slurm/") and rest_json.lacks_slurmdbd(answer):
            _versions.pop(self._http.url, None)  # an older one may do without
        try:
            rest_json.check_access(answer)
        except NoSuchCall:
            if request.path.startswith("/slurm/"):  # Slurm has been replaced since; accounting may just not be there
                _versions.pop(self._http.url, None)
            raise
        except TokenRefused:
            if isinstance(self._token, ScontrolToken):
                self._token.forget()
            raise
        return answer

    def _headers(self) -> dict[str, str]:
        token = self._token()
        name = self._user or user_of(token)
        if name:
            check_word(name, kind="user", tried="say who we are")
        headers = {"X-SLURM-USER-NAME": name} if name else {}
        return headers | ({"X-SLURM-USER-TOKEN": token} if token else {})

    def me(self) -> str:
        """As whom we speak: "" where a token doesn't say."""
        token = self._token()
        return self._user or user_of(token) or ("" if token else own_name())

    def path(self, *parts: str) -> str:
        return path_of("slurm", self.version(), *parts)

    def version(self) -> str:
        """The newest version that both know, found by asking for each from the newest down, once per address.

        One that answers nothing without slurmdbd (23.02's v0.0.39) makes room for an older one until that is back.
        """
        url = self._http.url
        known = _versions.get(url)
        if known is not None and time.monotonic() < _again_at.get(url, math.inf):
            return known
        _again_at.pop(url, None)
        lame = ""
        for version in rest_versions.NEWEST_FIRST:
            try:
                answer = self.send(Request(method="GET", path=path_of("slurm", version, "ping")))
            except NoSuchCall:
                continue
            rest_json.check_slurmrestd(answer)
            if rest_json.lacks_slurmdbd(answer):
                lame = lame or version
                continue
            if lame and not self._answers(version):
                return lame  # a token that is refused looks the same
            if lame:
                _again_at[url] = time.monotonic() + AGAIN_AFTER_S
            _versions[url] = version
            return version
        if lame:
            return lame
        message = f"it offers none of {', '.join(rest_versions.NEWEST_FIRST)}: is this a slurmrestd?"
        raise SlurmUnreachable(message, tried=f"find slurmrestd's version at {self._http.url}", permanent=True)

    def _answers(self, version: str) -> bool:
        """Whether the controller answers us in this version."""
        try:
            self.read(Request(method="GET", path=path_of("slurm", version, "diag")))
        except SlurmError:
            return False
        return True

    def parsed(self, parse: Callable[[], T], *, tried: str) -> T:
        """A parser's result; SlurmUnreachable where it finds the answer unusable."""
        try:
            return parse()
        except BadAnswer as error:
            raise SlurmUnreachable(f"the answer can't be used: {error}", tried=tried) from error


def _without(token: str, answer: HttpAnswer) -> HttpAnswer:
    """What answers may repeat our own headers (a proxy's page of errors does), and we repeat what it says to people."""
    secret = token.encode()
    if not secret or secret not in answer.body:
        return answer
    return dataclasses.replace(answer, body=answer.body.replace(secret, b"(hidden)"))
