"""The contract of a checkpoint layout, its defaults, and the comparisons that several layouts need. No I/O here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Protocol

from recovery.core.types import CheckpointState
from recovery.sources.beneath import show
from recovery.sources.checkpoints.ends import SOUND, Verdict, kind_of
from recovery.sources.checkpoints.listing import Listing

TOO_SMALL = 0.75  # a shard with less than this part of what it has in other checkpoints was cut off …
EVENLY = 0.05  # … unless the parts of all shards lie this close together

Sizes = Mapping[str, int]  # file name below the checkpoint → size


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracker:
    """What the tracker file says: the step it names, or None and a note why it names none."""

    step: int | None = None
    note: str = ""


class Layout(Protocol):
    """One trainer's way of laying out checkpoints: a module in `layouts/` that defines `LAYOUT`, and a test."""

    name: str
    tracker_name: str  # the file that names the checkpoint to load; "" where there is none
    as_files: bool  # whether files in the folder are checkpoints too
    inside: bool  # whether files are looked into

    def step_of(self, name: str) -> int | None:
        """The step of a checkpoint folder (or file) by its name; None for any other name."""
        ...

    def belongs(self, name: str) -> bool:
        """Whether this layout alone has such a name: a checkpoint's, or one that its trainer leaves beside them."""
        ...

    def key(self, name: str) -> str:
        """What all files of one checkpoint have in common."""
        ...

    def marker(self, name: str) -> str:
        """The name beside the checkpoint that says that it is being written; "" where the trainer has none."""
        ...

    def nameless(self) -> tuple[str, str]:
        """Why the names of checkpoints may tell no step, and what would help: two sentences."""
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


class Plain:
    """A layout whose checkpoints are judged by their own files: what most trainers have. A layout fills in the rest."""

    tracker_name = ""
    as_files = False
    inside = True
    tells_end = (
        True  # whether something is written last, or moved into place: then half a checkpoint is no save under way
    )

    def step_of(self, name: str) -> int | None:
        raise NotImplementedError

    def unfinished(self, listing: Listing) -> str:
        """What is missing that the trainer writes last, as a sentence, or ""."""
        return ""

    def flaw(self, listing: Listing) -> str:
        """What is wrong with the checkpoint as a whole, as a sentence, or ""."""
        return ""

    def untold(self, listing: Listing) -> str:
        """Why it can't be told whether it is complete, as a sentence, or ""."""
        return ""

    def needs(self, name: str) -> bool:
        """Whether a restart needs this file."""
        return kind_of(name) is not None

    def rank(self, name: str) -> int | None:
        """The rank that wrote this file, where its name tells."""
        return None

    def belongs(self, name: str) -> bool:
        return self.step_of(name) is not None

    def key(self, name: str) -> str:
        return name

    def marker(self, name: str) -> str:
        return ""

    def nameless(self) -> tuple[str, str]:
        return "", ""

    def folder_name(self, step: int) -> str:
        return str(step)

    def tracker(self, content: bytes | None) -> Tracker:
        return Tracker(note="this trainer keeps no tracker file")

    def judge(self, listings: Sequence[Listing], tracker: Tracker) -> list[Verdict]:
        """What has no end yet is being saved if it is the newest, else it was cut off."""
        newest = max((listing.step for listing in listings), default=0)
        first = [self._alone(listing, tracker, newest=listing.step == newest) for listing in listings]
        sound = {
            listing.step: self._sizes(listing)
            for listing, (state, _) in zip(listings, first, strict=True)
            if state is CheckpointState.COMPLETE
        }
        return [
            self._beside(listing, sound) if state is CheckpointState.COMPLETE else (state, why)
            for listing, (state, why) in zip(listings, first, strict=True)
        ]

    def _alone(self, listing: Listing, tracker: Tracker, *, newest: bool) -> Verdict:
        if trouble := listing.trouble or self._link(listing):
            return CheckpointState.UNKNOWN, trouble
        if self.tracker_name and (tracker.step is None or listing.step > tracker.step):
            why = tracker.note if tracker.step is None else f"{self.tracker_name} names step {tracker.step}"
            return CheckpointState.ANNOUNCED, f"Not confirmed: {why}."
        end = "A marker beside it says that it is being written." if listing.marked else self.unfinished(listing)
        if end:
            return CheckpointState.ANNOUNCED if newest else CheckpointState.TORN, end
        state, why = self._files(listing)
        if state is CheckpointState.TORN and newest and not self.tells_end:
            return CheckpointState.ANNOUNCED, f"{why} It is being written, or was cut off."
        return state, why

    def _files(self, listing: Listing) -> Verdict:
        if listing.settled:
            return SOUND
        needed = sorted(name for name in listing.files if self.needs(name))
        if not needed:
            return CheckpointState.TORN, "There is no file of a checkpoint in it."
        found = {name: verdict for name in needed if (verdict := listing.inside.get(name))}
        for name in needed:
            state, why = found.get(name, (CheckpointState.COMPLETE, ""))
            if listing.files[name].size == 0 or state is CheckpointState.TORN:
                return CheckpointState.TORN, f"{show(name)} {why or 'is empty'}."
        if flaw := self.flaw(listing):
            return CheckpointState.TORN, flaw
        for name, (state, why) in found.items():
            if state is not CheckpointState.COMPLETE:
                return state, f"{show(name)} {why}."
        untold = self.untold(listing)
        return (CheckpointState.UNKNOWN, untold) if untold else (CheckpointState.COMPLETE, "")

    def _beside(self, listing: Listing, sound: Mapping[int, Sizes]) -> Verdict:
        if listing.settled:
            return SOUND
        why = against(listing.step, self._sizes(listing), sound, rank=self.rank)
        return (CheckpointState.TORN, why) if why else (CheckpointState.COMPLETE, "")

    def _sizes(self, listing: Listing) -> Sizes:
        """By names that are the same in each checkpoint. Texts grow and shrink."""
        return {
            name.removeprefix(listing.key): fact.size
            for name, fact in listing.files.items()
            if self.needs(name) and not name.endswith((".json", "METADATA", ".metadata"))
        }

    def _link(self, listing: Listing) -> str:
        odd = sorted(name for name in listing.odd if self.needs(name))
        return f"{show(odd[0])} is a link or no regular file, and was not followed." if odd else ""


def against(step: int, mine: Sizes, sound: Mapping[int, Sizes], *, rank: Callable[[str], int | None]) -> str:
    """What is wrong with these files beside those of the run's sound checkpoints, as a sentence, or ""."""
    older = max((other for other in sound if other < step), default=None)
    newer = min((other for other in sound if other > step), default=None)
    neighbours = [sound[other] for other in (older, newer) if other is not None]
    others = [shards for other, shards in sound.items() if other != step]
    return lacks(mine, neighbours, rank=rank) or too_small(mine, others)


def lacks(mine: Sizes, neighbours: Sequence[Sizes], *, rank: Callable[[str], int | None]) -> str:
    """A shard that the neighbours have.

    A run may go on with fewer ranks, and a checkpoint then lacks the last ranks' files altogether. That is believed
    where the ranks that are left write more each, and unless the checkpoints on both sides have those files.
    """
    other = next((other for other in neighbours if mine.keys() < other.keys()), None)
    if other is None:
        return ""
    lacking = sorted(other.keys() - mine.keys())
    both = len(neighbours) > 1 and all(mine.keys() < other.keys() for other in neighbours)
    if not both and _is_resize(mine, other, lacking, rank):
        return ""
    return f"{show(lacking[0])} is missing ({len(lacking)} files fewer than in the checkpoint beside it)."


def _is_resize(mine: Sizes, other: Sizes, lacking: Sequence[str], rank: Callable[[str], int | None]) -> bool:
    ranks = {name: found for name in mine if (found := rank(name)) is not None}
    gone = [found for name in lacking if (found := rank(name)) is not None]
    if len(gone) < len(lacking) or not ranks or min(gone) <= max(ranks.values()):
        return False
    return sum(mine[name] for name in ranks) > (1 + EVENLY) * sum(other[name] for name in ranks)


def too_small(shards: Sizes, others: Sequence[Sizes]) -> str:
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
    return f"{show(worst or 'The file')} has {shards[worst]} bytes; in other checkpoints it has {usual[worst]}."


def first_told(*ranks: int | None) -> int | None:
    return next((rank for rank in ranks if rank is not None), None)


def hole(numbers: Sequence[int]) -> int | None:
    """The first number that is missing between 0 and the largest; None where there is none."""
    there = set(numbers)
    return next((number for number in range(len(there)) if number not in there), None)
