"""PyTorch Lightning's checkpoints: `epoch=4-step=840.ckpt`, a file or, with FSDP or DeepSpeed, a folder.

Source: `lightning/pytorch/callbacks/model_checkpoint.py`, `strategies/fsdp.py`, `strategies/deepspeed.py`. Nothing is
written last. `last.ckpt` and names without a step tell none: only PyTorch could read it inside.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.checkpoints import dcp, zero
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain, first_told

_STEP = re.compile(r"(?:^|[-_])step=([0-9]{1,10})(?![0-9])")
_ZERO = "checkpoint/"
_LATEST, _META = "latest", "meta.pt"


class _Lightning(Plain):
    name = "lightning"
    as_files = True
    tells_end = False

    def step_of(self, name: str) -> int | None:
        found = _STEP.search(name) if self.belongs(name) else None
        return step_of(found[1]) if found else None

    def belongs(self, name: str) -> bool:
        return name.endswith(".ckpt") and "--" not in name  # two hyphens: NeMo's

    def nameless(self) -> tuple[str, str]:
        return (
            "The .ckpt files here have no step in their names.",
            'Name them by it: ModelCheckpoint(filename="{epoch}-{step}").',
        )

    def flaw(self, listing: Listing) -> str:
        if listing.key in listing.files:
            return ""
        if dcp.is_dcp(listing):
            lost = "" if _META in listing.files else "meta.pt is missing."
            return dcp.unfinished(listing) or dcp.flaw(listing) or lost
        if any(name.startswith(_ZERO) for name in listing.files):
            return zero.flaw(listing, _ZERO) or ("" if _LATEST in listing.files else "latest is missing.")
        return "There is no file of a checkpoint in it."

    def needs(self, name: str) -> bool:
        return super().needs(name) or name == _LATEST

    def rank(self, name: str) -> int | None:
        return first_told(zero.shard_rank(name), dcp.shard_rank(name))


LAYOUT: Layout = _Lightning()
