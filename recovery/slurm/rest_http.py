"""HTTP to slurmrestd: over a unix socket or TCP, with and without TLS, limited in time and size.

Nothing of our environment takes part (no proxies, no netrc), and no redirect is followed: a token goes to the
configured address or nowhere. Each request has a connection of its own: slurmrestd closes it after every error anyway,
and nothing is left open between two polls.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from recovery.http_deadline import whole_within
from recovery.slurm.base import SlurmUnreachable

# Recent releases need about 9 kB of JSON for a job: thirty thousand jobs.
MAX_ANSWER = 256 * 1024 * 1024
UNIX = "unix:"
_REDIRECTS = frozenset({300, 301, 302, 303, 305, 307, 308})  # 304 is an answer: nothing has changed


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked of slurmrestd. `path` is quoted by `path_of`; `str()` is what people are shown."""

    method: str
    path: str
    params: Mapping[str, str] | None = None
    body: Mapping[str, Any] | None = None

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.params)}" if self.params else self.path

    def __str__(self) -> str:
        body = f" {json.dumps(self.body)}" if self.body is not None else ""
        return f"{self.method} {self.target}{body}"


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpAnswer:
    """A whole answer: its body has the length that its head announced."""

    status: int
    content_type: str  # "application/json", without parameters
    body: bytes
    tried: str


def path_of(*parts: str) -> str:
    """ "/slurm/v0.0.45/job/11%2B1": slurmrestd refuses a bare plus sign."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def why_no_url(url: str) -> str:
    """One sentence on why slurmrestd can't be reached at this address; "" where it may be."""
    if url.startswith(UNIX):
        return "" if url.removeprefix(UNIX).startswith("/") else f"{url!r} names no absolute path after unix:"
    if "@" in url or "?" in url or "#" in url:  # what stands there may be a secret: it is not repeated
        return "the address may hold no user, query or fragment"
    try:
        parts = urlsplit(url)
        port = parts.port  # raises for one that is no number
    except ValueError as error:
        return f"{url!r} is no address ({error})"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return f"{url!r} is neither unix:/path nor http(s)://host:port"
    return ""


class RestHttp:
    """One slurmrestd. `ca_file` holds the certificates that its own must come from ("": the well-known ones)."""

    def __init__(self, url: str, *, ca_file: str = "", timeout_s: float = 10, max_answer: int = MAX_ANSWER) -> None:
        self._socket = url.removeprefix(UNIX) if url.startswith(UNIX) else ""
        self._base = "http://slurmrestd" if self._socket else url.rstrip("/")
        self._ca_file = ca_file
        self._timeout_s = timeout_s
        self._max_answer = max_answer
        self.url = url

    def send(self, request: Request, *, headers: Mapping[str, str]) -> HttpAnswer:
        """The whole answer, whatever its status. SlurmUnreachable where there is none within the time."""
        tried = f"{request} at {self.url}"
        if self._socket and not Path(self._socket).exists():
            message = f"there is no socket {self._socket}: start slurmrestd or correct the option url"
            raise SlurmUnreachable(message, tried=tried)
        own = {"Accept": "application/json", "Accept-Encoding": "identity"}
        body = json.dumps(request.body).encode() if request.body is not None else None
        if body is not None:
            own["Content-Type"] = "application/json"
        try:
            with (
                whole_within(self._timeout_s) as extensions,
                self._client(tried) as client,
                client.stream(
                    request.method, request.target, content=body, headers=own | dict(headers), extensions=extensions
                ) as response,
            ):
                return self._whole(response, tried)
        except httpx.TimeoutException:
            raise SlurmUnreachable(f"no whole answer within {self._timeout_s:g} s", tried=tried) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SlurmUnreachable(f"no whole answer ({error or type(error).__name__})", tried=tried) from error

    def _client(self, tried: str) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=self._socket or None, verify=self._verify(tried), trust_env=False)
        return httpx.Client(
            base_url=self._base,
            transport=transport,
            timeout=self._timeout_s,
            follow_redirects=False,
            trust_env=False,
        )

    def _verify(self, tried: str) -> ssl.SSLContext | bool:
        if not self._base.startswith("https:"):
            return False  # there is no TLS to verify, and a context is expensive to make
        try:
            return ssl.create_default_context(cafile=self._ca_file or None)
        except OSError as error:  # ssl.SSLError is one too
            message = f"the certificates of {self._ca_file} can't be used ({error}): correct the option ca_file"
            raise SlurmUnreachable(message, tried=tried, permanent=True) from error

    def _whole(self, response: httpx.Response, tried: str) -> HttpAnswer:
        if response.status_code in _REDIRECTS:
            message = f"it sends us elsewhere ({response.status_code}), and we don't go: correct the option url"
            raise SlurmUnreachable(message, tried=tried, permanent=True)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise SlurmUnreachable("the answer is compressed, which nobody asked for", tried=tried)
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > self._max_answer:
                raise SlurmUnreachable(f"its answer is longer than {self._max_answer} bytes", tried=tried)
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return HttpAnswer(status=response.status_code, content_type=kind, body=bytes(body), tried=tried)
