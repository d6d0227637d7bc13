"""An evidence line in its surroundings: the recognised lines before and after it, as they were stored."""

from __future__ import annotations

from dataclasses import dataclass

from recovery.models import Incident, LogFile, Signal

AROUND = 6  # recognised lines on each side


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
