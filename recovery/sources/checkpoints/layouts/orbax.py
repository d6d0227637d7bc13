"""Orbax's checkpoints, and so MaxText's: a folder with the step as its name.

Source: `orbax/checkpoint/_src/path/step.py`, `atomicity.py`, `_src/metadata/checkpoint.py`. It is written as
`840.orbax-checkpoint-tmp-1`, or `840.orbax-checkpoint-tmp`, and moved; on object stores it gets `commit_success.txt` at
the end instead. `_CHECKPOINT_METADATA` tells when it was committed. Data files have names without order: a lost one
shows only by the size of the whole, and a cut in the values of one not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from recovery.core.logs.marks import step_of
from recovery.sources.beneath import show
from recovery.sources.checkpoints.ends import Verdict, fields, kind_of
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain, Sizes

_FOLDER = re.compile(r"[0-9]{1,10}")
_TEMPORARY = re.compile(r"[0-9]{1,10}\.orbax-checkpoint-tmp(?:-[0-9]{1,20})?")
_ARRAYS = "//arrays"  # no file can be called so
_COMMIT, _STEP, _ITEM = "commit_success.txt", "_CHECKPOINT_METADATA", "_METADATA"
_MANIFEST, _PROCESS = "manifest.ocdbt", "ocdbt.process_"


class _Orbax(Plain):
    name = "orbax"

    def step_of(self, name: str) -> int | None:
        return step_of(name) if _FOLDER.fullmatch(name) else None

    def belongs(self, name: str) -> bool:
        return bool(_FOLDER.fullmatch(name) or _TEMPORARY.fullmatch(name))

    def unfinished(self, listing: Listing) -> str:
        if _COMMIT in listing.files:
            return ""
        if any(name.endswith(f"/{_COMMIT}") for name in listing.files):
            return "commit_success.txt is missing; its items have one."
        if _STEP not in listing.files:
            return "Neither _CHECKPOINT_METADATA nor commit_success.txt is in it."
        told = fields(listing.texts.get(_STEP, b"")) or {}
        if told.get("commit_timestamp_nsecs", 1):
            return ""
        return "_CHECKPOINT_METADATA tells of no commit."

    def needs(self, name: str) -> bool:
        """All in its items: data files are known by no name."""
        return kind_of(name) is not None or "/" in name or name == _COMMIT

    def flaw(self, listing: Listing) -> str:
        places = _places(listing.files)
        if not any("/" in name for name in listing.files):
            return "There is no item in it."
        for name in sorted(listing.files):
            folder, _, file = name.rpartition("/")
            if lost := _lost_beside(folder, file, places):
                return f"{show(f'{folder}/{lost}')} is missing."
        return ""

    def _beside(self, listing: Listing, sound: Mapping[int, Sizes]) -> Verdict:
        """Beside older ones only: data is compressed, and the zeros of a young optimizer take no room."""
        return super()._beside(listing, {step: sizes for step, sizes in sound.items() if step <= listing.step})

    def _sizes(self, listing: Listing) -> Sizes:
        return {"": sum(fact.size for fact in listing.files.values())}


def _places(files: Iterable[str]) -> set[str]:
    """The files and all folders that they are in; for old items, a folder for each array, the place `arrays`."""
    places = set(files)
    for name in files:
        if name.endswith("/.zarray"):
            places.add(f"{name.partition('/')[0]}/{_ARRAYS}")
        while "/" in name:
            name = name.rpartition("/")[0]
            places.add(name)
    return places


def _lost_beside(folder: str, file: str, places: set[str]) -> str:
    """What must stand beside this file and doesn't, or "".

    An item of arrays is a key-value store: a manifest, and data in `d`. Each process has one of its own in it.
    """
    if file == _MANIFEST and f"{folder}/d" not in places:
        return "d"
    if folder.endswith("/d") and f"{folder[:-1]}{_MANIFEST}" not in places:
        return f"../{_MANIFEST}"
    if file == _MANIFEST and f"{folder}/{_ITEM}" not in places and _PROCESS not in folder:
        return _ITEM
    if file == _ITEM and f"{folder}/{_MANIFEST}" not in places and f"{folder}/{_ARRAYS}" not in places:
        return _MANIFEST
    return ""


LAYOUT: Layout = _Orbax()
