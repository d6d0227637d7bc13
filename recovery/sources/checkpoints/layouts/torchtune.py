"""torchtune's checkpoints: `epoch_0/` and `step_840/` with the weights, and one `recipe_state/` for all of them.

Source: `torchtune/training/checkpointing/_checkpointer.py`, `_utils.py`. The state of optimizer and data lies in
`recipe_state/recipe_state.pt` beside them and is written over: to which of them it belongs can't be told from outside.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.checkpoints import dcp, weights
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain

_STEPPED = re.compile(r"step_([0-9]{1,10})")
_OTHER = re.compile(r"epoch_[0-9]{1,7}|recipe_state")
_DIST = "dist_checkpoint/"


class _Torchtune(Plain):
    name = "torchtune"

    def step_of(self, name: str) -> int | None:
        found = _STEPPED.fullmatch(name)
        return step_of(found[1]) if found else None

    def belongs(self, name: str) -> bool:
        return bool(_STEPPED.fullmatch(name) or _OTHER.fullmatch(name))

    def nameless(self) -> tuple[str, str]:
        return (
            "The names here tell epochs only, and the step stands inside the files.",
            "Save by steps (save_every_n_steps): such names tell the step.",
        )

    def flaw(self, listing: Listing) -> str:
        if dcp.is_dcp(listing, _DIST):
            return dcp.unfinished(listing, _DIST) or dcp.flaw(listing, _DIST)
        return weights.flaw(listing)

    def untold(self, listing: Listing) -> str:
        if dcp.is_dcp(listing, _DIST):
            return ""
        return "Its weights are whole; whether recipe_state, which is written over, belongs to it can't be told."


LAYOUT: Layout = _Torchtune()
