"""A model's weights in Hugging Face's files: one, or numbered ones with an index that names them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from recovery.sources.beneath import show
from recovery.sources.checkpoints.ends import MOST_INDEX, fields
from recovery.sources.checkpoints.listing import Listing

_NUMBERED = re.compile(
    r"(?:pytorch_)?(?:model|adapter_model)[-_]([0-9]{1,5})[-_]of[-_]([0-9]{1,5})\.(?:safetensors|bin|pt)"
)
_ONE = re.compile(r"(?:pytorch_)?(?:model|adapter_model)(?:_fsdp)?\.(?:safetensors|bin)")
_INDEX = re.compile(r"(?:pytorch_)?(?:model|adapter_model)\.(?:safetensors|bin)\.index\.json")


def flaw(listing: Listing) -> str:
    """What is missing of the weights, as a sentence, or ""."""
    numbered = {name: found for name in listing.files if (found := _NUMBERED.fullmatch(name))}
    index = next((name for name in sorted(listing.files) if _INDEX.fullmatch(name)), None)
    if index is not None and not (numbered and listing.files[index].size > MOST_INDEX):
        return _lost(listing, index)
    if numbered:  # of a mixture of many experts the index is too long to be read: the names tell as much
        first = numbered[min(numbered)]
        total = int(first[2])
        if len(numbered) < total:
            return f"{total - len(numbered)} of {total} files of the model are missing."
        return "" if index is not None else "The index of the model's files is missing."
    return "" if any(_ONE.fullmatch(name) for name in listing.files) else "There are no weights of a model in it."


def _lost(listing: Listing, index: str) -> str:
    text = fields(listing.texts.get(index, b""))
    weight_map = text.get("weight_map") if text else None
    if not isinstance(weight_map, dict) or not weight_map:
        return f"{index} names no files, or is too long to be read."
    lost = _texts(weight_map.values()) - listing.files.keys()
    return f"{show(min(lost))} is missing; {index} names it." if lost else ""


def _texts(values: Iterable[object]) -> set[str]:
    return {value for value in values if isinstance(value, str)}
