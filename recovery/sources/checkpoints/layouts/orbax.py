"""Orbax's checkpoints, and so MaxText's: a folder with the step as its name.

Source: `orbax/checkpoint/_src/path/step.py`, `atomicity.py`, `_src/metadata/checkpoint.py`. It is written as
`840.orbax-checkpoint-tmp-1`, or `840.orbax-checkpoint-tmp`, and moved; on object stores it gets `commit_success.txt` at
the end instead. `_CHECKPOINT_METADATA` tells when it was committed. Data files have names without order: a lost one
shows only by the size of the whole, and a cut in the values of one not at all.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.beneath import show
from recovery.sources.checkpoints.ends import fields, kind_of
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain, Sizes

_FOLDER = re.compile(r"[0-9]{1,10}")
_TEMPORARY = re.compile(r"[0-9]{1,10}\.orbax-checkpoint-tmp(?:-[0-9]{1,20})?")
_COMMIT, _STEP, _ITEM = "commit_success.txt", "_CHECKPOINT_METADATA", "_METADATA"
_MANIFEST = "manifest.ocdbt"


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
        items = {name.partition("/")[0] for name in listing.files if "/" in name}
        if not items:
            return "There is no item in it."
        for name in sorted(listing.files):
            folder, _, file = name.rpartition("/")
            if file == _ITEM and not _has_data(listing, folder):
                return f"{show(folder)}/{_MANIFEST} is missing, or the data that it stands for."
            if folder.endswith("/d") and f"{folder[:-1]}{_MANIFEST}" not in listing.files:
                return f"{show(folder[:-1])}{_MANIFEST} is missing."
            if file == _MANIFEST and not any(each.startswith(f"{folder}/d/") for each in listing.files):
                return f"{show(folder)}/d has no data."
            if file == _MANIFEST and f"{folder}/{_ITEM}" not in listing.files and "ocdbt.process_" not in folder:
                return f"{show(folder)}/{_ITEM} is missing."
        return ""

    def _sizes(self, listing: Listing) -> Sizes:
        return {"": sum(fact.size for fact in listing.files.values())}


def _has_data(listing: Listing, folder: str) -> bool:
    """Either one key-value store with its manifest, or a folder for each array."""
    inside = [name for name in listing.files if name.startswith(f"{folder}/")]
    if any("/ocdbt.process_" in name or "/d/" in name for name in inside):
        return f"{folder}/{_MANIFEST}" in listing.files
    return f"{folder}/{_MANIFEST}" not in listing.files and any(name.endswith("/.zarray") for name in inside)


LAYOUT: Layout = _Orbax()
