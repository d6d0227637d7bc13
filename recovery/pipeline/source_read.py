"""What a source of an attempt's progress hands to ingest, beside the job's log: pushed rows, metrics files.

A source is a function `read(attempt, *, now, go_on) -> SourceRead`. Ingest stores the signals as it stores a log's, and
calls `done` in the same transaction: a killed worker neither loses nor doubles a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from recovery.core.types import Signal
from recovery.models import Attempt

GoOn = Callable[[], bool]  # whether a look has time for more: a worker is ended that outlives its lease

MOST_SIGNALS = 20_000  # of one source in one look, but for its last read: bounds memory
RESTARTED = (
    "restarted"  # in Attempt.places: its launcher may have started the workers anew, and no step came again so far
)
SKEW = timedelta(seconds=90)  # a time further outside of the attempt's life than this is not believed


def always() -> bool:
    """For who has all the time."""
    return True


def nothing() -> None:
    """Nothing has to move on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRead:
    """What one source said since the last look. The signals are as a log's, each with a time within the attempt's life.

    sees: it can tell progress from silence now, so the attempt isn't blind, whatever the other sources can't read.
    trouble, remedy: two sentences where it should tell and can't, else "".
    more: there is more for the next look.
    done: moves the source's own position on; called in the transaction that stores the signals.
    """

    signals: tuple[Signal, ...] = ()
    sees: bool = False
    trouble: str = ""
    remedy: str = ""
    more: bool = False
    done: Callable[[], None] = nothing


def within_life(signals: Iterable[Signal], attempt: Attempt, now: datetime) -> list[Signal]:
    """Each with a time that can be true: a sender or a file can claim any, and what has none was told now."""
    earliest = (attempt.started_at or now) - SKEW
    return [
        s._replace(at=min(s.at, now) if s.at is not None and earliest <= s.at <= now + SKEW else now) for s in signals
    ]
