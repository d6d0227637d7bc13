"""Hugging Face Trainer's checkpoints (TRL, Axolotl, LLaMA-Factory alike): `checkpoint-840/`.

Source: `transformers/trainer.py`, `_save_checkpoint`: the weights, then optimizer, scheduler and random state, and at
the end `trainer_state.json`. With DeepSpeed the optimizer is in `global_step840/`, with FSDP in `optimizer_0/`. Trainer
resumes from the highest number, whatever is in it.
"""

from __future__ import annotations

import re

from recovery.core.logs.marks import step_of
from recovery.sources.checkpoints import dcp, weights, zero
from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import Layout, Plain, Sizes, first_told

_FOLDER = re.compile(r"checkpoint-([0-9]{1,10})")
_STEP = re.compile(rb'"global_step": ([0-9]{1,10})\b')
_RANDOM = re.compile(r"rng_state_([0-9]{1,6})\.pth")
_STATE = "trainer_state.json"
_LATEST = "latest"  # DeepSpeed's
_OPTIMIZERS = ("optimizer.pt", "optimizer.bin")
_FSDP = ("pytorch_model_fsdp_0/", "optimizer_0/")


class _HuggingFace(Plain):
    name = "huggingface"

    def step_of(self, name: str) -> int | None:
        found = _FOLDER.fullmatch(name)
        return step_of(found[1]) if found else None

    def unfinished(self, listing: Listing) -> str:
        return "" if _STATE in listing.files else "trainer_state.json is missing: it is written last."

    def flaw(self, listing: Listing) -> str:
        return _state_flaw(listing) or _weights_flaw(listing) or _optimizer_flaw(listing)

    def untold(self, listing: Listing) -> str:
        return "" if _has_optimizer(listing) else "It holds no optimizer state (save_only_model?)."

    def needs(self, name: str) -> bool:
        return super().needs(name) or name == _LATEST

    def rank(self, name: str) -> int | None:
        found = _RANDOM.fullmatch(name)
        return first_told(int(found[1]) if found else None, zero.shard_rank(name), dcp.shard_rank(name))

    def _sizes(self, listing: Listing) -> Sizes:
        """DeepSpeed's folder is named after the step."""
        folder = _zero_folder(listing)
        return {name.removeprefix(folder): size for name, size in super()._sizes(listing).items()}


def _state_flaw(listing: Listing) -> str:
    found = _STEP.search(listing.texts.get(_STATE, b""))
    if found is None or int(found[1]) == listing.step:
        return "" if found else "trainer_state.json tells no global_step."
    return f"trainer_state.json tells step {int(found[1])}."


def _weights_flaw(listing: Listing) -> str:
    folder = next((below for below in _FSDP[:1] if dcp.is_dcp(listing, below)), None)
    if folder:
        return dcp.unfinished(listing, folder) or dcp.flaw(listing, folder)
    return "" if _zero_folder(listing) else weights.flaw(listing)


def _optimizer_flaw(listing: Listing) -> str:
    if folder := _zero_folder(listing):
        if _LATEST not in listing.files:
            return "latest is missing: not all ranks had written their shards."
        return zero.flaw(listing, folder)
    if dcp.is_dcp(listing, _FSDP[1]):
        return dcp.unfinished(listing, _FSDP[1]) or dcp.flaw(listing, _FSDP[1])
    if _has_optimizer(listing):
        return "" if "scheduler.pt" in listing.files else "scheduler.pt is missing."
    return "optimizer.pt is missing; scheduler.pt is there." if "scheduler.pt" in listing.files else ""


def _has_optimizer(listing: Listing) -> bool:
    there = any(name in listing.files for name in _OPTIMIZERS)
    return there or bool(_zero_folder(listing)) or dcp.is_dcp(listing, _FSDP[1])


def _zero_folder(listing: Listing) -> str:
    folder = f"global_step{listing.step}/"
    return folder if any(name.startswith(folder) for name in listing.files) else ""


LAYOUT: Layout = _HuggingFace()
