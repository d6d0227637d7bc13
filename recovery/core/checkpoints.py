"""Pure rules over looks at checkpoint folders. The looking itself is done by `recovery.sources.checkpoints`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median, median_low

from recovery.core.types import CheckpointState

INTERVALS = 6  # so many of the newest tell how often a run saves; an older rhythm no longer holds


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointLook:
    """What one look at one checkpoint found.

    `state` COMPLETE means "the structure is complete at this moment"; `settle` turns looks into a verdict.
    `fingerprint` digests names, sizes and modification times of all files: equal fingerprints mean that nothing was
    written in between. `detail` says why the state isn't complete: one sentence, at most 300 characters.
    """

    step: int
    path: str
    state: CheckpointState
    detail: str
    size_bytes: int
    fingerprint: str


def settle(previous: CheckpointLook | None, look: CheckpointLook, *, over: bool = False) -> CheckpointState:
    """The state to store for `look`, given the look before it (a poll earlier) at the same checkpoint.

    Only *complete* needs proof: two looks, one after the other, with equal fingerprints (facts: modification times
    alone can't be trusted, and a writer may pause). Until then it is announced. Every other state holds at once: a
    checkpoint that shows a hole must not be restored from while we wait for a second look.

    `over`: whoever wrote it has ended. What is announced then, and is the same in two looks, will not be finished any
    more: it is torn.
    """
    unchanged = (
        previous is not None
        and previous.path == look.path
        and previous.fingerprint == look.fingerprint
        and look.fingerprint != ""
    )
    if look.state is CheckpointState.COMPLETE:
        return CheckpointState.COMPLETE if unchanged else CheckpointState.ANNOUNCED
    if look.state is CheckpointState.ANNOUNCED and unchanged and over:
        return CheckpointState.TORN
    return look.state


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """One checkpoint in the history of a run, also one that is gone by now.

    `at` is when it was last seen to be written: one that was written anew is as old as that. `removed` where it was
    there and is gone: by rotation, or by somebody.
    """

    step: int
    at: datetime
    state: CheckpointState
    size_bytes: int | None = None
    removed: bool = False

    @property
    def is_there(self) -> bool:
        """Whether rotation counts it: every folder, whole or torn, but the one that is being saved."""
        return not self.removed and self.state not in (CheckpointState.MISSING, CheckpointState.ANNOUNCED)

    @property
    def age(self) -> tuple[datetime, int]:
        """Sorts by age, the oldest first."""
        return self.at, self.step


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """How many checkpoints the folder keeps.

    `count` is how many of the newest rotation leaves, one being saved not among them; None: nothing was removed so far,
    so all are kept, as far as can be told. `for_good` are the steps that rotation passed over.
    """

    count: int | None
    for_good: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NextSave:
    step: int
    at: datetime
    every_steps: int
    every: timedelta


def retention(history: Sequence[Saved]) -> Kept:
    """How many the folder keeps, as seen: rotation removes the oldest ones when a save is over.

    Trainers rotate by number (Hugging Face's save_total_limit, Megatron's --ckpt-retain…, Lightning's save_top_k).
    What is older than the last one that was removed was passed over.
    """
    gone = [each.age for each in history if each.removed]
    if not gone:
        return Kept(count=None)
    there = by_age(history)
    return Kept(
        count=sum(each.age > max(gone) for each in there),
        for_good=tuple(each.step for each in there if each.age < max(gone)),
    )


def by_age(history: Sequence[Saved]) -> list[Saved]:
    """Those that are there, the oldest first: the one that rotation takes next."""
    return sorted((each for each in history if each.is_there), key=lambda each: each.age)


def next_save(history: Sequence[Saved]) -> NextSave | None:
    """When the next save is due, by the rhythm of the last ones; None before there are two.

    The middle of the last intervals counts: one that holds a restart or a break is longer than the others.
    """
    saves = sorted({each.step: each.at for each in sorted(history, key=lambda each: each.at)}.items())
    pairs = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(saves)]
    usable = [(steps, time) for steps, time in pairs if time > timedelta(0)][-INTERVALS:]
    if not usable:
        return None
    every_steps = median_low(steps for steps, _ in usable)
    every = timedelta(seconds=median(time.total_seconds() for _, time in usable))
    step, at = saves[-1]
    return NextSave(step=step + every_steps, at=at + every, every_steps=every_steps, every=every)
