"""DeepSpeed's shards: `mp_rank_00_model_states.pt`, `zero_pp_rank_3_mp_rank_00_optim_states.pt`, `layer_02-model_00-…`.

Source: `deepspeed/runtime/engine.py` and `runtime/pipe/module.py`. Every data-parallel rank writes a ZeRO shard for
each model-parallel rank, numbered from 0; with ZeRO-3 model and optimizer shards come in pairs.
"""

from __future__ import annotations

import re
from itertools import product

from recovery.sources.checkpoints.listing import Listing
from recovery.sources.checkpoints.rules import hole

_ZERO = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_([0-9]{1,6})_mp_rank_([0-9]{1,5})_(optim|model)_states\.pt")
_MODEL = re.compile(r"mp_rank_([0-9]{1,5})(?:_[0-9]{1,5})?_model_states\.pt")
_LAYER = re.compile(r"layer_([0-9]{1,5})-model_([0-9]{1,5})-model_states\.pt")


def shard_rank(name: str) -> int | None:
    found = _ZERO.fullmatch(name.rpartition("/")[2])
    return int(found[1]) if found else None


def flaw(listing: Listing, below: str = "") -> str:
    """What is missing of the shards in the folder `below` ("" or with its slash), as a sentence, or ""."""
    names = [name[len(below) :] for name in listing.files if name.startswith(below)]
    model = [int(found[1]) for name in names if (found := _MODEL.fullmatch(name))]
    shards = {kind: [(int(m[1]), int(m[2])) for name in names if (m := _ZERO.fullmatch(name)) and m[3] == kind]
              for kind in ("optim", "model")}  # fmt: skip
    if not model and not shards["model"]:
        return "There is no model_states.pt in it."
    gap = hole(model)
    if gap is not None:
        return f"mp_rank_{gap:02d}_model_states.pt is missing."
    every = _zero_flaw(shards["optim"], shards["model"]) or _layers_flaw(names)
    return every or _count_flaw(len(set(shards["optim"])), listing.world)


def _zero_flaw(optim: list[tuple[int, int]], model: list[tuple[int, int]]) -> str:
    every = set(optim) | set(model)
    if not every:
        return ""
    ranks, parts = sorted({rank for rank, _ in every}), {part for _, part in every}
    if (gap := hole(ranks)) is not None:
        return f"The ZeRO shards of rank {gap} are missing."
    for kind, there in (("optim", set(optim)), ("model", set(model))):
        lost = next((place for place in product(ranks, sorted(parts)) if place not in there), None)
        if there and lost is not None:
            return f"zero_pp_rank_{lost[0]}_mp_rank_{lost[1]:02d}_{kind}_states.pt is missing."
    return "The ZeRO shards of the optimizer are missing." if not optim else ""


def _count_flaw(shards: int, world: int) -> str:
    """Each rank writes one. Where ranks have the same (MiCS), the first group of them does: then its size divides."""
    if not 0 < shards < world or world % shards == 0:
        return ""
    return f"There are ZeRO shards of {shards} ranks; its job's log tells of {world}."


def _layers_flaw(names: list[str]) -> str:
    """Of a pipeline: each layer that has weights, for each tensor-parallel rank. Layers without weights leave gaps."""
    there = {(int(found[1]), int(found[2])) for name in names if (found := _LAYER.fullmatch(name))}
    wanted = product(sorted({layer for layer, _ in there}), sorted({part for _, part in there}))
    lost = next((place for place in wanted if place not in there), None)
    return f"layer_{lost[0]:02d}-model_{lost[1]:02d}-model_states.pt is missing." if lost else ""
