"""NeMo's checkpoints: `model--step=840-consumed_samples=861184.0-last`, a folder or a `.ckpt` file.

Source: `nemo/lightning/pytorch/callbacks/model_checkpoint.py`, `nemo/utils/callbacks/nemo_model_checkpoint.py`: the
marker `<name>-unfinished` stands beside it while it is being written or removed.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.checkpoints import dcp
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain, hole

_STEP = re.compile(r"(?:^|[-_])step=([0-9]{1,10})(?![0-9])")
_RANK = re.compile(r"(?:tp_rank_[0-9]{1,5}_pp_rank_[0-9]{1,5}|mp_rank_([0-9]{1,5}))/[^/]{1,255}\.ckpt")
_MARK = "-unfinished"


class _NeMo(Plain):
    name = "nemo"
    as_files = True

    def step_of(self, name: str) -> int | None:
        found = _STEP.search(name) if self.belongs(name) and not name.endswith(_MARK) else None
        return step_of(found[1]) if found else None

    def belongs(self, name: str) -> bool:
        return "--" in name and ("step=" in name or name.endswith(("-last", "-last.ckpt", f"-last{_MARK}")))

    def marker(self, name: str) -> str:
        return f"{name.removesuffix('.ckpt').removesuffix('-EMA')}{_MARK}"

    def nameless(self) -> tuple[str, str]:
        return (
            "The checkpoints here have no step in their names.",
            'Put "{step}" into the name that the checkpoint callback gives them.',
        )

    def unfinished(self, listing: Listing) -> str:
        below = _below(listing)
        return dcp.unfinished(listing, below) if below is not None else ""

    def flaw(self, listing: Listing) -> str:
        if listing.key in listing.files:
            return ""
        below = _below(listing)
        if below is None:
            ranks = [int(found[1]) for name in listing.files if (found := _RANK.fullmatch(name)) and found[1]]
            gap = hole(ranks)
            return f"mp_rank_{gap:02d} is missing." if gap is not None else ""
        pair = {name for name in ("common.pt", "metadata.json") if f"{below}{name}" in listing.files}
        if len(pair) == 1:
            return f"{below}{'metadata.json' if 'common.pt' in pair else 'common.pt'} is missing."
        return dcp.flaw(listing, below)

    def rank(self, name: str) -> int | None:
        return dcp.shard_rank(name)


def _below(listing: Listing) -> str | None:
    """Where the distributed shards are; None where there are none."""
    if any(name.startswith("weights/") for name in listing.files):
        return "weights/"
    return next((below for below in ("", "model_weights/") if dcp.is_dcp(listing, below)), None)


LAYOUT: Layout = _NeMo()
