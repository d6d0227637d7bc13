"""A ledger: a run's wall time, each moment in exactly one category."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Category(StrEnum):
    """What a moment of a run's wall time went into.

    The order is that of precedence where attempts run side by side: a run does the best that one of its attempts does.
    """

    KEPT = "kept"  # trained, and in a complete checkpoint or restored from since
    NOT_YET_KEPT = "not_yet_kept"  # trained, and in no complete checkpoint yet
    SLOWED = "slowed"  # trained, not lost, at less than the attempt's own pace
    LOST = "lost"  # trained, but the run continued from before it
    SAVING = "saving"
    EVALUATING = "evaluating"
    RESTORE = "restore"  # until the trainer says that its checkpoint is loaded
    START_UP = "start_up"  # before the first step: processes, set-up, compilation
    UNKNOWN = "unknown"  # an attempt ran and couldn't be observed
    ACTING = "acting"  # from the decision until the action was seen to have converged
    QUEUE_WAIT = "queue_wait"
    STALLED = "stalled"  # from the fault to its detection
    DECIDING = "deciding"  # from the detection to the decision
    IDLE = "idle"  # after a failure, and nobody was about to do anything; or nothing of the run was submitted


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """From `start` up to `end` the run did this, while it held so many GPUs in all of its jobs together."""

    category: Category
    start: datetime
    end: datetime
    gpus: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """How a run that isn't over goes on from the ledger's moment, as long as nothing happens."""

    category: Category
    gpus: int
    since: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """The entries of one run: in order, each beginning where the one before it ends, none empty.

    `tail` is None once the run is over. `first_start` is the moment at which the run first left the queue.
    """

    entries: tuple[Entry, ...] = ()
    tail: Tail | None = None
    first_start: datetime | None = None
