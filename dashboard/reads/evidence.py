"""An evidence line in its surroundings: the recognised lines before and after it, as they were stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recovery.models import Incident, LogFile, Signal

AROUND = 6  # recognised lines on each side


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceLine:
    """One line of the stored diagnosis. `source` is a log file's path, or the word for who said it."""

    index: int
    text: str
    source: str
    line: int | None
    role: str
    rule: str
    at: datetime | None
    rank: int | None
    node: str
    first: bool  # where it began

    @property
    def said_by(self) -> str:
        """ "Slurm says", or the file and line."""
        if self.line is not None:
            return f"{self.source}:{self.line}"
        return {"scheduler": "Slurm says", "node": "Slurm says of the node"}.get(self.source, self.source)


def lines_of(incident: Incident) -> tuple[EvidenceLine, ...]:
    """The evidence of the diagnosis that holds now, in its own order."""
    diagnosis = incident.diagnosis
    first = diagnosis.get("first_failure") or {}
    place = (first.get("source"), first.get("line"), first.get("text"))
    return tuple(
        EvidenceLine(
            index=index,
            text=str(item.get("text", "")),
            source=str(item.get("source", "")),
            line=item.get("line"),
            role=str(item.get("role", "")),
            rule=str(item.get("rule", "")),
            at=_moment(item.get("at")),
            rank=item.get("rank"),
            node=str(item.get("node", "")),
            first=bool(first) and (item.get("source"), item.get("line"), item.get("text")) == place,
        )
        for index, item in enumerate(diagnosis.get("evidence") or ())
    )


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    file: str
    line: int | None
    before: tuple[Signal, ...]
    here: tuple[Signal, ...]
    after: tuple[Signal, ...]
    lines_read: int | None  # of the whole file, so far

    @property
    def lines(self) -> tuple[Signal, ...]:
        return self.before + self.here + self.after


def surroundings_of(incident: Incident, index: int) -> Surroundings | None:
    """None where the incident has no such evidence line. Lines of one attempt never show another's."""
    evidence = incident.diagnosis.get("evidence") or []
    if not 0 <= index < len(evidence):
        return None
    file, line = str(evidence[index].get("source", "")), evidence[index].get("line")
    if not isinstance(line, int):
        return Surroundings(file=file, line=None, before=(), here=(), after=(), lines_read=None)
    rows = Signal.objects.filter(attempt_id=incident.attempt_id, file=file)
    log = LogFile.objects.filter(attempt_id=incident.attempt_id, path=file).first()
    return Surroundings(
        file=file,
        line=line,
        before=tuple(rows.filter(line__lt=line).order_by("-line", "-pk")[:AROUND])[::-1],
        here=tuple(rows.filter(line=line).order_by("pk")[:1]),
        after=tuple(rows.filter(line__gt=line).order_by("line", "pk")[:AROUND]),
        lines_read=log.line if log else None,
    )
