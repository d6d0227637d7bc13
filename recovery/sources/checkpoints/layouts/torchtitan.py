"""torchtitan's checkpoints: `step-840/` with PyTorch's distributed shards, or with Hugging Face's.

Source: `torchtitan/components/checkpoint.py`: a folder counts with `.metadata`, or `model.safetensors.index.json`.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.checkpoints import dcp, weights
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain

_FOLDER = re.compile(r"step-([0-9]{1,10})")
_INDEX = "model.safetensors.index.json"


class _Torchtitan(Plain):
    name = "torchtitan"

    def step_of(self, name: str) -> int | None:
        found = _FOLDER.fullmatch(name)
        return step_of(found[1]) if found else None

    def unfinished(self, listing: Listing) -> str:
        return "" if _INDEX in listing.files else dcp.unfinished(listing)

    def flaw(self, listing: Listing) -> str:
        return weights.flaw(listing) if _INDEX in listing.files else dcp.flaw(listing)

    def untold(self, listing: Listing) -> str:
        return "It holds the model only, without the optimizer." if _INDEX in listing.files else ""

    def rank(self, name: str) -> int | None:
        return dcp.shard_rank(name)


LAYOUT: Layout = _Torchtitan()
