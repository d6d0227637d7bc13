"""nanoGPT's checkpoint: one file, `ckpt.pt`, written over at each save.

Source: `train.py` of nanoGPT. The step stands inside, and while it is being written there is no other one.
"""

from __future__ import annotations

from recovery.sources.checkpoints.rules import Layout, Plain


class _NanoGPT(Plain):
    name = "nanogpt"

    def step_of(self, name: str) -> int | None:
        return None

    def belongs(self, name: str) -> bool:
        return name == "ckpt.pt"

    def nameless(self) -> tuple[str, str]:
        return (
            "nanoGPT keeps one file, ckpt.pt, and writes it over: its step stands inside and can't be told.",
            "Save each step under a name of its own, for example checkpoint-<step>.",
        )


LAYOUT: Layout = _NanoGPT()
