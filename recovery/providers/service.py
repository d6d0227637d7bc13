"""A service of the site's own: one POST with what is known of the job and the end of its log, one JSON object back."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from recovery.core.opinion import (
    CLASS_CHARS,
    MOST_NODES,
    NODE_CHARS,
    REASON_CHARS,
    Opinion,
    ProviderSettings,
    Question,
    printable,
)
from recovery.core.types import Restart
from recovery.providers.base import NotYet, send
from recovery.sources.http_get import Trouble

VERSION = 1
WHAT = "diagnostic service"


class Service:
    """POST to the address itself. Status 202: it works on it."""

    def __init__(self, settings: ProviderSettings) -> None:
        self.settings = settings

    def ask(self, question: Question) -> Opinion:
        status, found = send(self.settings, "", what=WHAT, document={"version": VERSION, **asdict(question)})
        if status == 202:
            raise NotYet
        try:
            return _opinion(found)
        except ValueError as error:
            sentence = f"{self.settings.url} answers with something else than an opinion ({error})."
            raise Trouble(sentence, "docs/providers.md has the shape of an answer.") from None


def _opinion(found: dict[str, Any]) -> Opinion:
    """Raises ValueError with the field's name."""
    nodes = found.get("nodes") or []
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        raise ValueError("nodes must be a list of names")
    opinion = Opinion(
        failure_class=_text(found, "class", CLASS_CHARS),
        restart=_restart(found.get("restart")),
        nodes=tuple(printable(node, NODE_CHARS) for node in nodes[:MOST_NODES]),
        confidence=_confidence(found.get("confidence")),
        reason=_text(found, "reason", REASON_CHARS),
    )
    if not (opinion.failure_class or opinion.restart or opinion.reason):
        raise ValueError("class, restart and reason are all empty")
    return opinion


def _text(found: dict[str, Any], field: str, limit: int) -> str:
    value = found.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{field} must be a text")
    return printable(value or "", limit)


def _restart(value: object) -> str:
    if value in (None, ""):
        return ""
    if value not in list(Restart):
        raise ValueError(f"restart must be one of {', '.join(Restart)}")
    return "yes" if value in (Restart.YES, Restart.ONCE) else "no"


def _confidence(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise ValueError("confidence must be a number from 0 to 1")
    return float(value)
