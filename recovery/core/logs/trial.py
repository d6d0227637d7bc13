"""A site's own pattern tried on lines that a person pasted, before it counts."""

from __future__ import annotations

from dataclasses import dataclass

from recovery.core.logs import LogParser
from recovery.core.logs.cut import LogBytes, lines_of
from recovery.core.logs.own_pattern import RULE, PatternError, own_pattern
from recovery.core.types import LogLine, Signal, SignalKind

MOST_CHARS = 50_000  # of a sample that are looked at
MOST_LINES = 200

NO_SAMPLE = "Paste some lines of a log: a pattern counts only after it was tried."
NO_MATCH = "No line of the sample matches."


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """One line of the sample, and the progress that is read from it: `own` by the pattern, else by a known format."""

    text: str
    progress: Signal | None
    own: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """`problem` is not empty where the pattern must not be used."""

    lines: tuple[Tried, ...] = ()
    problem: str = ""

    @property
    def matches(self) -> int:
        return sum(line.own for line in self.lines)


def try_pattern(pattern: str, sample: str) -> Trial:
    """What `pattern` reads from the lines of `sample`, as it would from a log. Never raises."""
    try:
        parser = LogParser(own=own_pattern(pattern))
    except PatternError as error:
        return Trial(problem=str(error))
    data = sample[:MOST_CHARS].encode("utf-8", "replace")
    lines = list(lines_of(LogBytes(data=data, file="sample")))[:MOST_LINES]
    if not lines:
        return Trial(problem=NO_SAMPLE)
    tried = tuple(_tried(line, parser.feed(line)) for line in lines)
    return Trial(lines=tried, problem="" if any(line.own for line in tried) else NO_MATCH)


def _tried(line: LogLine, signals: list[Signal]) -> Tried:
    progress = next((signal for signal in signals if signal.kind is SignalKind.PROGRESS), None)
    return Tried(text=line.text, progress=progress, own=progress is not None and progress.rule == RULE)
