"""The three checks of a case, as its page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recovery.core.verify import CheckKey, CheckState
from recovery.models import Incident

NAMES = {
    CheckKey.CONVERGED: "Runs again",
    CheckKey.RESTORED: "Restored",
    CheckKey.CHECKPOINT: "Next checkpoint",
}
SHOWN_WAITING = (CheckState.WAITING, CheckState.OVERDUE)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRow:
    key: CheckKey
    state: CheckState
    expected: str
    seen: str
    places: Sequence[dict[str, Any]]
    contradictions: Sequence[str]
    at: datetime | None
    deadline_at: datetime | None
    deadline_from: str
    queued_s: float | None
    held_s: float | None
    held_since: datetime | None

    @property
    def name(self) -> str:
        return NAMES[self.key]

    @property
    def waits(self) -> bool:
        return self.state in SHOWN_WAITING


def checks_of(incident: Incident) -> list[CheckRow]:
    """Empty while nothing is verified yet."""
    return [_row(check) for check in incident.verification]


def _row(check: dict[str, Any]) -> CheckRow:
    return CheckRow(
        key=CheckKey(check["key"]),
        state=CheckState(check["state"]),
        expected=check["expected"],
        seen=check["seen"],
        places=check["places"],
        contradictions=check["contradictions"],
        at=_moment(check["at"]),
        deadline_at=_moment(check["deadline_at"]),
        deadline_from=check["deadline_from"],
        queued_s=check["queued_s"],
        held_s=check.get("held_s"),  # cases that are older have none
        held_since=_moment(check.get("held_since")),
    )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
