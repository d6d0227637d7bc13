"""Asking a server of the site for JSON: limited in time and size, to the configured address or nowhere.

No proxy, no netrc, no redirect, no compression; certificates are verified. The token is read from its file each time.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from recovery.http_deadline import whole_within

TIMEOUT_S = 10.0
MOST_BYTES = 16 * 1024 * 1024
SHOWN_CHARS = 150


class Trouble(Exception):
    """No usable answer: what happened, and what would help; both are shown to people."""

    def __init__(self, sentence: str, remedy: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.remedy = remedy


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """`name` is the prefix of the options that set it up: "prometheus", "loki"."""

    name: str
    url: str
    token_file: str = ""
    ca_file: str = ""
    tenant: str = ""

    @classmethod
    def of(cls, name: str, sources: Mapping[str, str]) -> Server:
        get = {key: sources.get(f"{name}_{key}", "") for key in ("url", "token_file", "ca_file", "tenant")}
        return cls(name=name, **{**get, "url": get["url"].rstrip("/")})

    def option(self, key: str) -> str:
        """How its setting is called: of a cluster `loki_ca_file`; of the environment in capitals, where `…_FILE` has a
        meaning of its own (recovery/env.py): `RECOVERY_PROVIDER_CA_PATH`.
        """
        return f"{self.name}_{key.upper().replace('_FILE', '_PATH') if self.name.isupper() else key}"


def ask(
    server: Server, path: str, *, params: Mapping[str, str] | None = None, form: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S, most_bytes: int = MOST_BYTES,
) -> Any:  # fmt: skip
    """The JSON value that the server answers with. GET with `params`, or POST with `form`. Raises Trouble."""
    status, body = exchange(server, path, params=params, form=form, timeout_s=timeout_s, most_bytes=most_bytes)
    return _json(server, status, body)


def exchange(
    server: Server, path: str, *, params: Mapping[str, str] | None = None, form: Mapping[str, str] | None = None,
    document: Mapping[str, Any] | None = None, timeout_s: float = TIMEOUT_S, most_bytes: int = MOST_BYTES,
) -> tuple[int, bytes]:  # fmt: skip
    """Status and body of what the server answers: to GET, or to POST with a form or a JSON document. Raises Trouble."""
    method = "GET" if form is None and document is None else "POST"
    try:
        with (
            whole_within(timeout_s) as extensions,
            httpx.Client(verify=_verify(server), timeout=timeout_s, trust_env=False, follow_redirects=False) as client,
            client.stream(
                method, server.url + path, params=params, data=form, json=document, headers=_headers(server),
                extensions=extensions,
            ) as answer,
        ):  # fmt: skip
            return answer.status_code, _whole(server, answer, most_bytes=most_bytes)
    except httpx.TimeoutException:
        raise Trouble(
            f"{server.url} gave no whole answer within {timeout_s:g} s.", _check(server, "that it is not overloaded")
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        what = str(error)[:SHOWN_CHARS] or type(error).__name__
        remedy = _check(server, "that it runs")
        if "CERTIFICATE_VERIFY_FAILED" in what:
            ca_file = server.option("ca_file")
            remedy = f"Set {ca_file} to the certificates that its own comes from; it must bear the name in its address."
        raise Trouble(f"{server.url} can't be reached ({what}).", remedy) from error


def _headers(server: Server) -> dict[str, str]:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if server.tenant:
        headers["X-Scope-OrgID"] = server.tenant
    if server.token_file:
        try:
            token = Path(server.token_file).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no plain text"
            remedy = f"Let this service read it, or correct {server.option('token_file')}."
            raise Trouble(f"The token file {server.token_file} can't be read ({why}).", remedy) from None
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _verify(server: Server) -> ssl.SSLContext | bool:
    if not server.url.startswith("https:"):
        return False  # there is no TLS to verify
    try:
        return ssl.create_default_context(cafile=server.ca_file or None)
    except OSError as error:
        remedy = f"Correct {server.option('ca_file')}."
        raise Trouble(f"The certificates of {server.ca_file} can't be used ({error}).", remedy) from None


def _whole(server: Server, answer: httpx.Response, *, most_bytes: int) -> bytes:
    """The body as it was sent: nothing is unpacked."""
    body = bytearray()
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) > most_bytes:
            remedy = f"Narrow the query of {server.name}."
            raise Trouble(f"The answer of {server.url} is longer than {most_bytes} bytes.", remedy)
    return bytes(body)


def decoded(server: Server, status: int, body: bytes, *, what: str) -> Any:
    """The JSON value of an answer. Raises Trouble where it refuses us, sends us elsewhere, or is no JSON."""
    if status in (401, 403):
        remedy = f"Set {server.option('token_file')} to a file with a token that may read."
        raise Trouble(f"{server.url} refuses us ({status}).", remedy)
    if 300 <= status < 400:
        sentence = f"{server.url} sends us elsewhere ({status}), and we don't go."
        raise Trouble(sentence, f"Correct {server.option('url')}.")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        sentence = f"{server.url} answers with status {status} and no JSON."
        raise Trouble(sentence, _check(server, f"that it is a {what}")) from None


def shown(text: object) -> str:
    """A short piece of what a server says, in one line."""
    return "".join(char if char.isprintable() else " " for char in str(text)[:SHOWN_CHARS])


def _json(server: Server, status: int, body: bytes) -> Any:
    found = decoded(server, status, body, what=server.name)
    told = found.get("error") if isinstance(found, dict) else None
    if status != 200 or told or not isinstance(found, dict) or found.get("status") != "success":
        sentence = f"{server.url} refuses the query ({status}: {shown(told or 'no reason given')})."
        raise Trouble(sentence, f"Correct the options of {server.name} that begin with {server.name}_query.")
    return found.get("data")


def _check(server: Server, what: str) -> str:
    return f"Check {server.option('url')}, that this machine reaches it, and {what}."
