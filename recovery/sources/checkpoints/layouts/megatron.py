"""Megatron-LM's checkpoints: `iter_0000840/` and the tracker `latest_checkpointed_iteration.txt`.

Source: `megatron/training/checkpointing.py`, `megatron/core/dist_checkpointing` (facts: checkpoints). The tracker is
written last, when every rank has written, so a folder newer than it is a save under way, or one that was cut off. A
folder that it vouches for can still have lost files since, or have shards cut short by a full or failing file system:
its files must show no hole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from recovery.core.logs.marks import step_of
from recovery.core.types import CheckpointState
from recovery.sources.beneath import Refused, show
from recovery.sources.checkpoints.ends import Verdict
from recovery.sources.checkpoints.listing import SMALL_BYTES, Listing
from recovery.sources.checkpoints.rules import Layout, Plain, Sizes, Tracker, against

_FOLDER = re.compile(r"iter_([0-9]{7,10})")
_RANK_FOLDER = re.compile(r"mp_rank_([0-9]{2,5})(?:_([0-9]{3,5}))?(?:_([0-9]{3,5}))?/[^/]{1,250}\.(?:pt|pth)")
_DIST_SHARD = re.compile(r"__([0-9]{1,7})_[0-9]{1,7}\.distcp")
_DIST_EXTRAS = (".metadata", "common.pt")
_NOTE = "metadata.json"  # which format it is in; its length differs from step to step


class _Megatron(Plain):
    name = "megatron"
    tracker_name = "latest_checkpointed_iteration.txt"
    inside = False  # its tracker vouches for them

    def step_of(self, name: str) -> int | None:
        found = _FOLDER.fullmatch(name)
        return step_of(found[1]) if found else None

    def folder_name(self, step: int) -> str:
        return f"iter_{step:07d}"

    def tracker(self, content: bytes | None) -> Tracker:
        if content is None:
            return Tracker(note=f"{self.tracker_name} is not there yet")
        word = content.strip()
        if word == b"release":
            return Tracker(note=f"{self.tracker_name} names a release, not a step")
        step = step_of(word.decode()) if word.isdigit() and len(content) < SMALL_BYTES else None
        if step is not None:
            return Tracker(step=step)
        raise Refused(
            f"{self.tracker_name} {'holds no step' if word else 'is empty'}: it is being written, or was cut off.",
            "If it stays so, write the number of the newest complete checkpoint into it: the trainer can't resume.",
        )

    def judge(self, listings: Sequence[Listing], tracker: Tracker) -> list[Verdict]:
        shards = [_shards(listing) for listing in listings]
        flaws = [_flaw(each) for each in shards]
        sound = {
            listing.step: _without_note(each)
            for listing, each, flaw in zip(listings, shards, flaws, strict=True)
            if not (flaw or listing.trouble)
        }
        return [
            _verdict(listing, tracker, flaw or against(listing.step, _without_note(each), sound, rank=_rank))
            for listing, each, flaw in zip(listings, shards, flaws, strict=True)
        ]


def _verdict(listing: Listing, tracker: Tracker, flaw: str) -> Verdict:
    if unknown := listing.trouble or _unreadable_part(listing):
        return CheckpointState.UNKNOWN, unknown
    if tracker.step is None:
        return CheckpointState.ANNOUNCED, f"Not confirmed: {tracker.note}."
    if listing.step > tracker.step:
        return CheckpointState.ANNOUNCED, f"The tracker file names {tracker.step}: this is being saved, or was cut off."
    return (CheckpointState.TORN, flaw) if flaw else (CheckpointState.COMPLETE, "")


def _unreadable_part(listing: Listing) -> str:
    """Why the structure can't be judged although everything could be listed, or ""."""
    for name in sorted(listing.odd):
        if _is_shard(name) or name.startswith("mp_rank_"):
            return f"{show(name)} is a link or no regular file, and was not followed."
    if any(name.endswith("/.zarray") for name in listing.files):
        return "It is in zarr format, whose completeness can't be told from its files."
    return ""


def _is_shard(name: str) -> bool:
    """Whether a restart needs this file; others (notes, marks of retention tools) say nothing."""
    return name in (*_DIST_EXTRAS, _NOTE) or bool(_DIST_SHARD.fullmatch(name) or _RANK_FOLDER.fullmatch(name))


def _shards(listing: Listing) -> Sizes:
    return {name: fact.size for name, fact in listing.files.items() if _is_shard(name)}


def _flaw(shards: Sizes) -> str:
    """What is wrong with these files by themselves, as a sentence, or ""."""
    if not shards:
        return "There is no shard in it."
    empty = [name for name, size in shards.items() if size == 0]
    if empty:
        return f"{show(min(empty))} is empty."
    sharded = any(name in _DIST_EXTRAS or _DIST_SHARD.fullmatch(name) for name in shards)
    if sharded or not any(_RANK_FOLDER.fullmatch(name) for name in shards):
        return _dist_flaw(shards)
    return _grid_flaw(shards)


def _dist_flaw(shards: Sizes) -> str:
    """torch_dist, torch_dcp: `.metadata` is written by one rank after all shards; the other two come as a pair."""
    if ".metadata" not in shards:
        return ".metadata is missing: not all ranks had written their shards."
    if (_NOTE in shards) != ("common.pt" in shards):
        return f"{'common.pt' if _NOTE in shards else _NOTE} is missing."
    if not any(_DIST_SHARD.fullmatch(name) for name in shards):
        return "There is no .distcp shard in it."
    return ""


def _grid_flaw(shards: Sizes) -> str:
    """Legacy: a folder per model-parallel rank, `mp_rank_<tensor>[_<pipeline>[_<expert>]]`, numbered without holes."""
    places = {place for name in shards if (place := _place(name))}
    for axes in {len(place) for place in places}:
        alike = [place for place in places if len(place) == axes]
        full = product(*(range(max(axis) + 1) for axis in zip(*alike, strict=True)))
        missing = next((place for place in full if place not in places), None)
        if missing is not None:
            return f"{_rank_folder(missing)} is missing or has no shard."
    return _uneven(shards)


def _uneven(shards: Sizes) -> str:
    """Every rank writes files of the same names."""
    by_folder: dict[str, set[str]] = {}
    for name in shards:
        folder, slash, file = name.partition("/")
        if slash:
            by_folder.setdefault(folder, set()).add(file)
    every = set().union(*by_folder.values())
    for folder in sorted(by_folder):
        if lacking := every - by_folder[folder]:
            return f"{show(folder)}/{show(min(lacking))} is missing; other ranks have it."
    return ""


def _place(name: str) -> tuple[int, ...]:
    found = _RANK_FOLDER.fullmatch(name)
    return tuple(int(part) for part in found.groups() if part is not None) if found else ()


def _rank_folder(place: Sequence[int]) -> str:
    return f"mp_rank_{place[0]:02d}" + "".join(f"_{part:03d}" for part in place[1:])


def _without_note(shards: Sizes) -> Sizes:
    return {name: size for name, size in shards.items() if name != _NOTE}


def _rank(name: str) -> int | None:
    found = _DIST_SHARD.fullmatch(name)
    return int(found[1]) if found else None


LAYOUT: Layout = _Megatron()
