"""DeepSpeed's checkpoints, and so GPT-NeoX's: `global_step840/` and the file `latest`, which names the one to load.

Source: `deepspeed/runtime/engine.py`, `save_checkpoint`: rank 0 writes `latest` when every rank has written.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.beneath import Refused
from recovery.sources.checkpoints import zero
from recovery.sources.checkpoints.listing import SMALL_BYTES, Listing
from recovery.sources.checkpoints.rules import Layout, Plain, Tracker

_FOLDER = re.compile(r"global_step([0-9]{1,10})")


class _DeepSpeed(Plain):
    name = "deepspeed"
    tracker_name = "latest"

    def step_of(self, name: str) -> int | None:
        found = _FOLDER.fullmatch(name)
        return step_of(found[1]) if found else None

    def folder_name(self, step: int) -> str:
        return f"global_step{step}"

    def tracker(self, content: bytes | None) -> Tracker:
        if content is None:
            return Tracker(note="latest is not there yet")
        word = content.strip().decode("utf-8", "replace")
        if not word or "\0" in word:
            raise Refused(
                "latest is empty: it is being written, or was cut off.",
                "If it stays so, write the name of the newest complete folder into it: the trainer can't resume.",
            )
        step = self.step_of(word) if len(content) < SMALL_BYTES else None
        return Tracker(step=step) if step is not None else Tracker(note="latest names no global_step folder")

    def flaw(self, listing: Listing) -> str:
        return zero.flaw(listing)

    def rank(self, name: str) -> int | None:
        return zero.shard_rank(name)


LAYOUT: Layout = _DeepSpeed()
