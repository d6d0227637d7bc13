"""Progress lines whose values stand in columns: what is found once holds for all lines of one shape.

Lines that differ in nothing but their digits have the same fields at the same places. So a format only says where the
values of a line stand, and the next line of that shape is read without any pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from recovery.core.logs.lines import LARGEST, MAX_STEP, CleanLine, Layout
from recovery.core.logs.marks import Format, Mark, Memory
from recovery.core.types import SignalKind

_Number = float | None
Values = tuple[int, _Number, _Number, _Number, _Number]  # step, loss, throughput, step time in seconds, tokens


def from_ms(value: float) -> float:
    return value / 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Where the values of a progress line stand in it: the step as ten digits at most, the others as `fields.NUMBER`.

    `in_seconds` makes a step time of what the trainer prints. A step below `first` is none.
    """

    rule: str
    step: slice
    loss: slice | None = None
    throughput: slice | None = None
    step_time: slice | None = None
    in_seconds: Callable[[float], float | None] = float
    tokens: slice | None = None
    all_ranks: bool = True
    first: int = 0

    def values(self, text: str) -> Values | None:
        """None where the step is none, or beyond what any trainer counts."""
        step = int(text[self.step])
        if not self.first <= step <= MAX_STEP:
            return None
        step_time = _number(text, self.step_time)
        if step_time is not None:
            step_time = self.in_seconds(step_time)
        return step, _number(text, self.loss), _number(text, self.throughput), step_time, _number(text, self.tokens)


def _number(text: str, place: slice | None) -> float | None:
    if place is None:
        return None
    value = float(text[place].replace(",", ""))
    return value if abs(value) <= LARGEST else None


def span(found: re.Match[str] | None, group: int = 1) -> slice | None:
    """Where a group was found; None where nothing was."""
    return None if found is None or found[group] is None else slice(*found.span(group))


class InColumns(Format):
    """A format whose progress lines stand for themselves: each has all its values, whatever went before."""

    def columns(self, text: str) -> Columns | None:
        """Where the values stand if `text` is a progress line. Digits may be exchanged for others: it is the same."""
        raise NotImplementedError

    def progressed(self, memory: Memory, step: int) -> None:
        """A progress line was read, with its step: what it makes of the format's memory."""

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        """What a line says that is none of progress."""
        raise NotImplementedError

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        columns = self.columns(line.text)
        values = columns.values(line.text) if columns else None
        if columns is None or values is None:
            return self.other(line, memory)
        step, loss, throughput, step_time_s, tokens = values
        self.progressed(memory, step)
        return (
            Mark(
                kind=SignalKind.PROGRESS, rule=columns.rule, step=step, loss=loss, throughput=throughput,
                step_time_s=step_time_s, tokens=tokens, all_ranks=columns.all_ranks,
            ),
        )  # fmt: skip


class Recipe(NamedTuple):
    """How to read a progress line of which all is known but its digits, in ASCII, with colours or not.

    `failures`: what must not be found in it, else it says more than progress.
    """

    format: InColumns
    columns: Columns
    layout: Layout
    failures: tuple[re.Pattern[str], ...]
