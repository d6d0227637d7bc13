"""NeMo AutoModel's checkpoints: `epoch_0_step_840/` with `model/`, `optim/` and the states of loaders and randomness.

Source: `nemo_automodel/recipes/base_recipe.py`, `components/checkpoint/lifecycle.py`, 2025 to 2026. The folder is made
with `.incomplete` in it, which goes when all is written, after the link `LATEST` was moved. Releases before that mark
wrote the optimizer last, so `optim/.metadata` is their end.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.checkpoints import dcp
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain

_FOLDER = re.compile(r"epoch_[0-9]{1,7}_step_([0-9]{1,10})")
_POINTERS = ("LATEST", "LATEST.txt", "LOWEST_VAL", "LOWEST_VAL.txt")
_MODEL, _OPTIMIZER, _MARK = "model/", "optim/", ".incomplete"


class _AutoModel(Plain):
    name = "automodel"

    def step_of(self, name: str) -> int | None:
        found = _FOLDER.fullmatch(name)
        return step_of(found[1]) if found else None

    def belongs(self, name: str) -> bool:
        return bool(_FOLDER.fullmatch(name)) or name in _POINTERS

    def unfinished(self, listing: Listing) -> str:
        if _MARK in listing.files:
            return "The mark .incomplete is in it: it is being written, or was cut off."
        return dcp.unfinished(listing, _OPTIMIZER) if dcp.is_dcp(listing, _OPTIMIZER) else ""

    def flaw(self, listing: Listing) -> str:
        if dcp.is_dcp(listing, _MODEL):
            lost = dcp.unfinished(listing, _MODEL) or dcp.flaw(listing, _MODEL)
        else:
            lost = "" if _has_weights(listing) else "There are no weights of a model in it."
        return lost or (dcp.flaw(listing, _OPTIMIZER) if dcp.is_dcp(listing, _OPTIMIZER) else "")

    def untold(self, listing: Listing) -> str:
        return "" if dcp.is_dcp(listing, _OPTIMIZER) else "It holds no optimizer state."

    def rank(self, name: str) -> int | None:
        return dcp.shard_rank(name)


def _has_weights(listing: Listing) -> bool:
    return any(name.startswith(_MODEL) and name.endswith(".safetensors") for name in listing.files)


LAYOUT: Layout = _AutoModel()
