"""fairseq's checkpoints: `checkpoint_3_840.pt` (epoch, updates), `checkpoint3.pt`, `checkpoint_last.pt` and others.

Source: `fairseq/checkpoint_utils.py`. The first name is written, the others are copies of it and tell no step.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain, hole

_STEPPED = re.compile(r"(checkpoint_[0-9]{1,7}_([0-9]{1,10}))(?:-shard([0-9]{1,6}))?\.pt")
_OTHER = re.compile(r"checkpoint(?:[0-9]{1,7}|_last|_best)(?:-shard[0-9]{1,6})?\.pt")


class _Fairseq(Plain):
    name = "fairseq"
    as_files = True
    tells_end = False

    def step_of(self, name: str) -> int | None:
        found = _STEPPED.fullmatch(name)
        return step_of(found[2]) if found else None

    def belongs(self, name: str) -> bool:
        return bool(_STEPPED.fullmatch(name) or _OTHER.fullmatch(name))

    def key(self, name: str) -> str:
        found = _STEPPED.fullmatch(name)
        return found[1] if found else name

    def nameless(self) -> tuple[str, str]:
        return (
            "The names here tell epochs only, and the step stands inside the files.",
            "Save by updates too (--save-interval-updates): such names tell the step.",
        )

    def flaw(self, listing: Listing) -> str:
        ranks = [int(found[3]) for name in listing.files if (found := _STEPPED.fullmatch(name)) and found[3]]
        gap = hole(ranks)
        return f"Shard {gap} is missing." if gap is not None else ""

    def rank(self, name: str) -> int | None:
        found = _STEPPED.fullmatch(f"checkpoint_0_0{name}")
        return int(found[3]) if found and found[3] else None


LAYOUT: Layout = _Fairseq()
