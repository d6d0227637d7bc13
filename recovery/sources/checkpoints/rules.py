"""The contract of a checkpoint layout, and the comparisons that several layouts need. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Protocol

from recovery.core.types import CheckpointState
from recovery.sources.beneath import show
from recovery.sources.checkpoints.listing import Listing

TOO_SMALL = 0.75  # a shard with less than this part of what it has in other checkpoints was cut off …
EVENLY = 0.05  # … unless the parts of all shards lie this close together

Verdict = tuple[CheckpointState, str]  # COMPLETE here: the structure is complete now; the text says why it isn't


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracker:
    """What the tracker file says: the step it names, or None and a note why it names none."""

    step: int | None = None
    note: str = ""


class Layout(Protocol):
    """One trainer's way of laying out checkpoints: a module in `layouts/` that defines `LAYOUT`, and a test."""

    name: str
    tracker_name: str  # the file that names the checkpoint to load

    def step_of(self, name: str) -> int | None:
        """The step of a checkpoint folder by its name; None for any other name."""
        ...

    def folder_name(self, step: int) -> str: ...

    def tracker(self, content: bytes | None) -> Tracker:
        """What the tracker file's first 64 bytes say; None: there is no such file.

        Raises Refused where it is broken: nothing can be concluded then.
        """
        ...

    def judge(self, listings: Sequence[Listing], tracker: Tracker) -> list[Verdict]:
        """The state of each checkpoint, in the order of `listings`."""
        ...


def too_small(shards: Mapping[str, int], others: Sequence[Mapping[str, int]]) -> str:
    """The shard that is cut most against the other checkpoints, as a sentence, or "".

    Only checkpoints with exactly the same shards are comparable: with another number of ranks the sizes differ. Where
    all shards shrank alike, the trainer saves less now (no optimizer state, for one) and nothing was cut.
    """
    alike = [other for other in others if other.keys() == shards.keys()]
    if not alike or not shards:
        return ""
    usual = {name: median_low(other[name] for other in alike) for name in shards}
    parts = {name: size / usual[name] if usual[name] else 1.0 for name, size in shards.items()}
    worst = min(sorted(parts), key=parts.__getitem__)
    alike_smaller = len(parts) > 1 and max(parts.values()) - parts[worst] <= EVENLY
    if parts[worst] >= TOO_SMALL or alike_smaller:
        return ""
    return f"{show(worst)} has {shards[worst]} bytes; in other checkpoints it has {usual[worst]}."
