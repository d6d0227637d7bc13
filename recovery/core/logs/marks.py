"""What a format reader says of one line, and the contract of a format reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recovery.core.logs.lines import LARGEST, MAX_STEP, CleanLine
from recovery.core.types import SignalKind

# JSON values only: it is stored between two looks at a growing log and handed back.
Memory = dict[str, Any]
ITS = "its"  # key of a format's memory: a line was surely its own, even if it said nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A signal before it is given its place in the file."""

    kind: SignalKind
    rule: str
    step: int | None = None
    path: str = ""
    loss: float | None = None
    throughput: float | None = None
    step_time_s: float | None = None
    tokens: float | None = None
    all_ranks: bool = False  # speaks for all ranks, whichever of them printed it


class Format:
    """One trainer's way of writing logs.

    A format is one module in `recovery/core/logs/formats/` that defines `FORMAT`, and a test. Nothing else names it.
    `memory` is the format's own: what it must carry from one line to another is kept there and nowhere else, so that
    reading can stop after any line and go on in another process.

    `words`: of each line that says anything to this format, one of them is part. Lines without are not shown to it,
    unless its memory holds a report that is still open (`blocks.OPEN`): then it sees every line.
    """

    name: str
    words: tuple[str, ...]
    advice: str = ""  # what makes it print its step, for those who see other lines of its own and none with one

    def mute(self, memory: Memory) -> bool:
        """Whether what it said so far shows that no progress will ever stand in the log."""
        return False

    def wants(self, text: str) -> bool:
        """Whether a line with one of the words may say anything. Digits may be exchanged for others: it is the same."""
        return True

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        """What `line` says; empty where it isn't one of this format's lines. Linear in the line, never raises."""
        raise NotImplementedError


def step_of(digits: str) -> int | None:
    """A step from decimal digits; None where no trainer counts so far."""
    step = int(digits) if len(digits) <= len(str(MAX_STEP)) else MAX_STEP + 1
    return step if step <= MAX_STEP else None


def finite(text: str) -> float | None:
    """A number that can be stored and compared; None for anything else, NaN and infinity among them."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None
