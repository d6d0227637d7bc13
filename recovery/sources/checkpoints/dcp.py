"""PyTorch's distributed checkpoints, which many trainers build on: `__0_0.distcp` shards and `.metadata`.

Source: `torch/distributed/checkpoint/filesystem.py`. Rank 0 writes `.metadata` when every rank has written its shards,
to a temporary name that is then renamed; it names every shard.
"""

from __future__ import annotations

import re

from recovery.sources.beneath import show
from recovery.sources.checkpoints.listing import Listing

METADATA = ".metadata"
_SHARD = re.compile(r"__([0-9]{1,7})_[0-9]{1,7}\.distcp")
_NAMED = re.compile(rb"__[0-9]{1,7}_[0-9]{1,7}\.distcp")


def shard_rank(name: str) -> int | None:
    found = _SHARD.fullmatch(name.rpartition("/")[2])
    return int(found[1]) if found else None


def is_dcp(listing: Listing, below: str = "") -> bool:
    """Whether the folder `below` ("" or with its slash) of the checkpoint has one."""
    shards = (name for name in listing.files if name.startswith(below))
    return f"{below}{METADATA}" in listing.files or any("/" not in s[len(below) :] and _is_shard(s) for s in shards)


def _is_shard(name: str) -> bool:
    return shard_rank(name) is not None


def unfinished(listing: Listing, below: str = "") -> str:
    if f"{below}{METADATA}" in listing.files:
        return ""
    return f"{show(below)}.metadata is missing: not all ranks have written their shards."


def flaw(listing: Listing, below: str = "") -> str:
    if not any(name.startswith(below) and _is_shard(name) for name in listing.files):
        return f"There is no .distcp shard in it{f' ({show(below)})' if below else ''}."
    named = {found.decode() for found in _NAMED.findall(listing.texts.get(f"{below}{METADATA}", b""))}
    lost = sorted(name for name in named if f"{below}{name}" not in listing.files)
    return f"{show(below + lost[0])} is missing; .metadata names it." if lost else ""
