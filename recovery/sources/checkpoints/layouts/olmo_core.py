"""OLMo-core's checkpoints: `step840/` with `model_and_optim/`, `train/rank0.pt` and, written last, `.metadata.json`.

Source: `olmo_core/train/checkpoint.py`: a folder is a checkpoint with all three, or the model alone with `.metadata`.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.checkpoints import dcp
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain, hole

_FOLDER = re.compile(r"step([0-9]{1,10})")
_TRAIN = re.compile(r"train/rank([0-9]{1,6})\.pt")
_MODEL, _LAST = "model_and_optim/", ".metadata.json"


class _OlmoCore(Plain):
    name = "olmo_core"

    def step_of(self, name: str) -> int | None:
        found = _FOLDER.fullmatch(name)
        return step_of(found[1]) if found else None

    def unfinished(self, listing: Listing) -> str:
        if dcp.METADATA in listing.files or _LAST in listing.files:
            return ""
        return ".metadata.json is missing: it is written last."

    def flaw(self, listing: Listing) -> str:
        if _is_model_alone(listing):
            return dcp.flaw(listing)
        ranks = [int(found[1]) for name in listing.files if (found := _TRAIN.fullmatch(name))]
        gap = hole(ranks) if ranks else 0
        if gap is not None:
            return f"train/rank{gap}.pt is missing."
        return dcp.unfinished(listing, _MODEL) or dcp.flaw(listing, _MODEL)

    def untold(self, listing: Listing) -> str:
        return "It holds the model only, without the trainer's state." if _is_model_alone(listing) else ""

    def rank(self, name: str) -> int | None:
        found = _TRAIN.fullmatch(name)
        return int(found[1]) if found else dcp.shard_rank(name)


def _is_model_alone(listing: Listing) -> bool:
    return dcp.METADATA in listing.files and _LAST not in listing.files


LAYOUT: Layout = _OlmoCore()
