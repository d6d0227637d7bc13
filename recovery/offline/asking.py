"""Asking the external diagnostic service about log files alone: for `diagnose` and `evaluate`, where a person says so.

What it says is counted and shown apart from our own verdict, as everywhere (docs/providers.md).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recovery.core.opinion import Opinion, ProviderMode, Question
from recovery.core.types import Restart
from recovery.core.words import PROVIDER_WORDS
from recovery.offline.logs import STANDARD_INPUT
from recovery.offline.record import OfflineJob
from recovery.providers.base import NotYet, Provider
from recovery.sources.http_get import Trouble

TAIL_BYTES = 64 * 1024
MOST_LOOKS, LOOK_AGAIN_S = 20, 3.0  # at one case, while the service works on it
MOST_IN_A_ROW = 3  # failures: then the rest is not asked about


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What came of asking, as `diagnose` shows it."""

    mode: ProviderMode
    sentence: str = ""
    opinion: Opinion | None = None

    def as_json(self) -> dict[str, Any]:
        said = self.opinion and {
            "class": self.opinion.failure_class, "restart": self.opinion.restart, "nodes": list(self.opinion.nodes),
            "confidence": self.opinion.confidence, "reason": self.opinion.reason,
        }  # fmt: skip
        label = PROVIDER_WORDS[self.mode].label
        return {"mode": self.mode, "label": label, "sentence": self.sentence, "second_opinion": said}


def ask(provider: Provider, job: OfflineJob, files: Sequence[Path]) -> Asked:
    """Waits for the answer, for a minute at most where the service works on it."""
    question = question_of(job, files)
    try:
        for _ in range(MOST_LOOKS):
            try:
                return Asked(mode=ProviderMode.GOOD, opinion=provider.ask(question))
            except NotYet:
                time.sleep(LOOK_AGAIN_S)
    except Trouble as trouble:
        return Asked(mode=ProviderMode.DEGRADED, sentence=f"{trouble.sentence} {trouble.remedy}")
    return Asked(mode=ProviderMode.DEGRADED, sentence="The service still works on it; ask again later.")


def question_of(job: OfflineJob, files: Sequence[Path]) -> Question:
    """What is told of a job: the record's fields, and the end of its last file. Raises OSError."""
    last = next((file for file in reversed(files) if file != STANDARD_INPUT), None)
    return Question(
        state=job.state, exit_code=job.exit_code, restart_count=job.restart_count, nodes=job.nodes,
        log_path=str(last.absolute()) if last else "", log_tail=_tail(last) if last else "",
    )  # fmt: skip


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        return file.read(TAIL_BYTES).decode("utf-8", errors="replace")


@dataclass(kw_only=True)
class ServiceScore:
    """How good the service's answers are on labelled cases; our own figures stand elsewhere."""

    asked: int = 0
    answered: int = 0
    classes_named: int = 0
    classes_right: int = 0
    restarts_named: int = 0
    restarts_right: int = 0
    not_asked: int = 0  # after too many failures in a row
    trouble: str = ""  # the last one
    in_a_row: int = field(default=0, repr=False)

    def add(self, said: Asked, *, classes: Sequence[str], restarts: Sequence[str]) -> None:
        """`classes` and `restarts`: what the label accepts."""
        self.asked += 1
        if said.opinion is None:
            self.trouble, self.in_a_row = said.sentence, self.in_a_row + 1
            return
        self.answered, self.in_a_row = self.answered + 1, 0
        if said.opinion.failure_class:
            self.classes_named += 1
            self.classes_right += said.opinion.failure_class in classes
        if said.opinion.restart:
            would = {"yes" if each in (Restart.YES, Restart.ONCE) else "no" for each in restarts}
            self.restarts_named += 1
            self.restarts_right += said.opinion.restart in would

    @property
    def given_up(self) -> bool:
        return self.in_a_row >= MOST_IN_A_ROW

    def as_json(self) -> dict[str, Any]:
        return {
            "mode": ProviderMode.DEGRADED if self.given_up or not self.answered else ProviderMode.GOOD,
            "asked": self.asked, "answered": self.answered, "not_asked": self.not_asked,
            "class_accuracy": _share(self.classes_right, self.classes_named), "classes_named": self.classes_named,
            "restart_accuracy": _share(self.restarts_right, self.restarts_named), "restarts_named": self.restarts_named,
            "trouble": self.trouble,
        }  # fmt: skip


def _share(right: int, named: int) -> float | None:
    return round(right / named, 4) if named else None
