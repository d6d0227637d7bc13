"""What a diagnostic service is to us, and one exchange with it."""

from __future__ import annotations

from typing import Any, Protocol

from recovery.core.opinion import Opinion, ProviderSettings, Question
from recovery.sources.http_get import Server, Trouble, decoded, exchange, shown

MOST_BYTES = 256 * 1024  # of an answer
SETTING = "RECOVERY_PROVIDER"  # what its settings begin with


def server_of(settings: ProviderSettings) -> Server:
    return Server(name=SETTING, url=settings.url.rstrip("/"), token_file=settings.token_file, ca_file=settings.ca_file)


class NotYet(Exception):
    """The service works on it: it is asked again later."""


class Provider(Protocol):
    def ask(self, question: Question) -> Opinion:
        """Raises Trouble, NotYet."""


def send(
    settings: ProviderSettings, path: str, *, what: str, params: dict[str, str] | None = None,
    document: dict[str, Any] | None = None,
) -> tuple[int, dict[str, Any]]:  # fmt: skip
    """Status and JSON object of the answer; 202 is no answer yet. Raises Trouble."""
    server = server_of(settings)
    status, body = exchange(
        server, path, params=params, document=document, timeout_s=settings.timeout_s, most_bytes=MOST_BYTES
    )
    found = decoded(server, status, body, what=what)
    if not isinstance(found, dict):
        sentence = f"{server.url} answers with JSON that is no object."
        raise Trouble(sentence, f"Check {server.option('url')}, and that it is a {what}.")
    if status not in (200, 202):
        told = found.get("message") or found.get("detail") or found.get("error") or "no reason given"
        sentence = f"{server.url} does not answer the question ({status}: {shown(told)})."
        raise Trouble(sentence, f"Look into the log of the {what}.")
    return status, found
