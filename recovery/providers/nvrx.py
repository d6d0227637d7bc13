"""NVRx's attribution service (nvrx-attrsvc): it reads the log itself, by its path on a file system that both see.

POST /logs hands the path over, GET /logs asks for the result: `status` pending, in_flight or completed, and
`recommendation.action` STOP, RESTART, CONTINUE, UNKNOWN or TIMEOUT. Releases before that field put the decision into
the first line of the analyser's text. Facts from NVIDIA/nvidia-resiliency-ext, commit d8686d9 (August 2026). The
service knows no log-in: where a proxy before it asks for a token, ours is sent.
"""

from __future__ import annotations

from typing import Any

from recovery.core.opinion import CLASS_CHARS, REASON_CHARS, Opinion, ProviderSettings, Question, printable
from recovery.providers.base import NotYet, send
from recovery.sources.http_get import Trouble

WHAT = "nvrx-attrsvc"
LOGS = "/logs"
UNDER_WAY = ("pending", "in_flight")


class Nvrx:
    def __init__(self, settings: ProviderSettings) -> None:
        self.settings = settings

    def ask(self, question: Question) -> Opinion:
        if not question.log_path:
            raise Trouble("The job writes no log file that the service could read.", "Submit it with an output file.")
        handed = {"log_path": question.log_path, "analysis_intent": "terminal"}
        if question.user:
            handed["user"] = question.user
        # no job id: with one the service may look for a folder of logs of its own launcher, and track it
        send(self.settings, LOGS, what=WHAT, document=handed)
        _, found = send(self.settings, LOGS, what=WHAT, params={"log_path": question.log_path, "wait": "false"})
        if found.get("status") in UNDER_WAY:
            raise NotYet
        opinion = opinion_of(found)
        if opinion is None:
            sentence = f"{self.settings.url} analysed the log and came to no conclusion."
            raise Trouble(sentence, f"Look into the log of the {WHAT}: its model may be away.")
        return opinion


def opinion_of(found: dict[str, Any]) -> Opinion | None:
    """What a completed result says; None where it says nothing that can be used."""
    item = _first_item(found.get("result"))
    recommendation = found.get("recommendation")
    action = recommendation.get("action") if isinstance(recommendation, dict) else None
    restart = _restart(str(action or item.get("action") or item.get("auto_resume") or ""))
    issues = item.get("primary_issues")
    reasons = (item.get("attribution_text"), item.get("auto_resume_explanation"))
    reason = printable(next((text for text in reasons if isinstance(text, str) and text.strip()), ""), REASON_CHARS)
    named = issues[0] if isinstance(issues, list) and issues and isinstance(issues[0], str) else ""
    if not (restart or reason):
        return None
    return Opinion(failure_class=printable(named, CLASS_CHARS), restart=restart, reason=reason)


def _first_item(result: object) -> dict[str, Any]:
    """The first analysis: an object with named fields, or the analyser's text (alone or first of a pair)."""
    inner = result.get("result") if isinstance(result, dict) else result
    first = inner[0] if isinstance(inner, list) and inner else inner
    if isinstance(first, list) and first:
        first = first[0]
    if isinstance(first, dict):
        return first
    if not isinstance(first, str):
        return {}
    lines = first.split("\n", 2)
    _, marked, text = first.partition("Attribution:")
    return {
        "auto_resume": lines[0],
        "auto_resume_explanation": lines[1] if len(lines) > 1 else "",
        "attribution_text": text.strip().split("\n\n")[0] if marked else "",
    }


def _restart(word: str) -> str:
    """RESTART, CONTINUE, "RESTART IMMEDIATE" → yes; STOP, "STOP - DONT RESTART IMMEDIATE" → no; anything else → ""."""
    word = word.strip().upper()
    if word.startswith("STOP"):
        return "no"
    return "yes" if word.startswith("RESTART") or word == "CONTINUE" else ""
