"""Composer's checkpoints (llm-foundry alike): `ep0-ba840-rank0.pt`, or the folder `ep0-ba840/` where they are sharded.

Source: `composer/callbacks/checkpoint_saver.py`. The link `latest-rank0.pt` is made anew after each save, with a gap in
between: it proves nothing by being away. A file is written where it will lie.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.checkpoints import dcp
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain, hole

_NAME = re.compile(r"(ep[0-9]{1,7}-ba([0-9]{1,10}))(?:-rank([0-9]{1,6}))?(?:\.pt)?")
_LATEST = re.compile(r"latest-rank[0-9]{1,6}(?:\.pt)?")


class _Composer(Plain):
    name = "composer"
    as_files = True
    tells_end = False

    def step_of(self, name: str) -> int | None:
        found = _NAME.fullmatch(name)
        return step_of(found[2]) if found else None

    def belongs(self, name: str) -> bool:
        return self.step_of(name) is not None or bool(_LATEST.fullmatch(name))

    def key(self, name: str) -> str:
        found = _NAME.fullmatch(name)
        return found[1] if found else name

    def nameless(self) -> tuple[str, str]:
        return (
            "Only the link to the latest checkpoint is here, and links to other names are not followed.",
            'Keep save_filename at "ep{epoch}-ba{batch}-rank{rank}.pt".',
        )

    def flaw(self, listing: Listing) -> str:
        if dcp.is_dcp(listing):
            return dcp.unfinished(listing) or dcp.flaw(listing)
        ranks = [int(found[3]) for name in listing.files if (found := _NAME.fullmatch(name)) and found[3]]
        gap = hole(ranks)
        return f"The file of rank {gap} is missing." if gap is not None else ""

    def rank(self, name: str) -> int | None:
        found = _NAME.fullmatch(name) or _NAME.fullmatch(f"ep0-ba0{name}")
        return int(found[3]) if found and found[3] else dcp.shard_rank(name)


LAYOUT: Layout = _Composer()
