"""Whether a file is whole, by its two ends: what its format promises to be there, read in a few small pieces.

Formats: PyTorch's archives (zip: the directory stands at the end), safetensors (the header tells the size of the data),
JSON, the pickle `.metadata` of PyTorch's distributed checkpoints, and OCDBT, the key-value store of Orbax (its manifest
and the nodes of its tree begin with their length). Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import os
import re
import struct
from enum import Enum
from typing import cast

from recovery.core.types import CheckpointState

MOST_HEADER = 1 << 20  # of a safetensors file; usual are 2 to 200 KiB
MOST_TEXT = 1 << 16  # of a JSON file; beyond it only its ends are looked at
MOST_INDEX = 1 << 20  # of the JSON file that says which file has which tensor; usual are 20 to 200 KiB
MOST_FRAMES = 64  # of a pickle, 64 KiB each
MOST_METADATA = 1 << 18  # of a pickle, from its end, where the names of the shards stand

_END, _ZIP64 = struct.Struct("<4s4H2LH"), 76  # the archive's last record; the two that may stand before it, in bytes
_NODE = re.compile(r"/d/[0-9a-f]{32}$")
_MANIFEST_BEGINS, _NODE_BEGINS = b"\x0c\xdb\x3a\x2a", b"\x0c\xdb\x20\xde"
_OFFSETS = re.compile(rb'"data_offsets" ?: ?\[ ?[0-9]{1,15} ?, ?([0-9]{1,15}) ?\]')

Verdict = tuple[CheckpointState, str]  # COMPLETE here: the structure is complete now; the text says why it isn't
SOUND: Verdict = (CheckpointState.COMPLETE, "")


class Kind(Enum):
    ARCHIVE = "archive"
    SHARD = "shard"  # of a distributed checkpoint: archives one after the other, or raw bytes
    TENSORS = "tensors"
    TEXT = "text"
    INDEX = "index"
    METADATA = "metadata"
    MANIFEST = "manifest"
    NODE = "node"  # of a tree, or values, or both


_SUFFIXES = {
    ".pt": Kind.ARCHIVE, ".pth": Kind.ARCHIVE, ".ckpt": Kind.ARCHIVE, ".bin": Kind.ARCHIVE, ".distcp": Kind.SHARD,
    ".safetensors": Kind.TENSORS, ".json": Kind.TEXT, ".metadata": Kind.METADATA,
}  # fmt: skip


def kind_of(name: str) -> Kind | None:
    """The format of a file by its name; None for one that is not looked into."""
    file = name.rpartition("/")[2]
    if file in ("_CHECKPOINT_METADATA", "_METADATA", "_sharding"):
        return Kind.TEXT
    if file == "manifest.ocdbt" or _NODE.search(name):
        return Kind.MANIFEST if file == "manifest.ocdbt" else Kind.NODE
    if file.endswith(".index.json"):
        return Kind.INDEX
    return _SUFFIXES.get(f".{file.rpartition('.')[2]}") if "." in file else None


def read_ends(descriptor: int, size: int, kind: Kind) -> tuple[Verdict, bytes]:
    """The verdict on the file and, for text and metadata, what was read of it. Raises OSError."""
    if size == 0:
        return _torn("is empty"), b""
    if kind is Kind.TENSORS:
        return _tensors(descriptor, size), b""
    if kind in (Kind.TEXT, Kind.INDEX):
        head = os.pread(descriptor, MOST_INDEX if kind is Kind.INDEX else MOST_TEXT, 0)
        return _text(head, size, os.pread(descriptor, 64, max(0, size - 64))), head
    if kind is Kind.METADATA:
        tail = os.pread(descriptor, MOST_METADATA, max(0, size - MOST_METADATA))
        return _pickle(descriptor, size, tail), tail
    if kind in (Kind.MANIFEST, Kind.NODE):
        return _tree(os.pread(descriptor, 12, 0), size, manifest=kind is Kind.MANIFEST), b""
    head, tail = os.pread(descriptor, 4, 0), os.pread(descriptor, _END.size, max(0, size - _END.size))
    return _archive(head, tail, size, shard=kind is Kind.SHARD), b""


def _torn(what: str) -> Verdict:
    return CheckpointState.TORN, what


def _archive(head: bytes, tail: bytes, size: int, *, shard: bool) -> Verdict:
    """A shard's directory counts from the beginning of its last archive, so that only its presence can be checked."""
    if head != b"PK\3\4":
        if shard and len(head) == 4:
            return SOUND  # raw bytes: only their number can be compared
        if head[:1] == b"\x80" and not shard:
            return CheckpointState.UNKNOWN, "is in PyTorch's old format, whose end can't be told from outside"
        return _torn("is no PyTorch file")
    if len(tail) < _END.size or not tail.startswith(b"PK\5\6"):
        return _torn("is cut off: the directory at its end is missing")
    *_, length, offset, _comment = _END.unpack(tail)
    end = size - _END.size
    if not shard and offset != 0xFFFFFFFF and length + offset not in (end, end - _ZIP64):
        return _torn("is cut off: the directory at its end does not fit its size")
    return SOUND


def _pickle(descriptor: int, size: int, tail: bytes) -> Verdict:
    """It begins with its protocol, ends with a full stop and, from protocol 4 on, comes in frames of known lengths."""
    at = 2
    for _ in range(MOST_FRAMES):
        frame = os.pread(descriptor, 9, at) if at < size else b""  # what lies may name a place that no file has
        if not frame.startswith(b"\x95") or len(frame) < 9:
            break
        at += 9 + int.from_bytes(frame[1:], "little")
    whole = os.pread(descriptor, 1, 0) == b"\x80" and tail.endswith(b".") and at <= size
    return SOUND if whole else _torn("is cut off, or is no pickle")


def _tree(head: bytes, size: int, *, manifest: bool) -> Verdict:
    """Four bytes that say what it is, eight with its length. Other nodes, and values, may follow the first node."""
    length = int.from_bytes(head[4:], "little")
    if manifest:
        return SOUND if head.startswith(_MANIFEST_BEGINS) and length == size else _torn("is cut off, or is no manifest")
    cut = len(head) < 12 or (head.startswith(_NODE_BEGINS) and length > size)  # so small a value has no file of its own
    return _torn("is cut off") if cut else SOUND


def _tensors(descriptor: int, size: int) -> Verdict:
    """Eight bytes with the header's length, the header, the data."""
    first = os.pread(descriptor, 8, 0)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or size < 8 + length:
        return _torn("is cut off within its header")
    if length > MOST_HEADER:
        return CheckpointState.UNKNOWN, "has a header too long to be read"
    header = os.pread(descriptor, length, 8)
    if not (header.startswith(b"{") and header.rstrip().endswith(b"}")):
        return _torn("has a broken header")
    told = 8 + length + max((int(end) for end in _OFFSETS.findall(header)), default=0)
    return SOUND if told == size else _torn(f"has {size} bytes instead of {told}")


def _text(head: bytes, size: int, tail: bytes) -> Verdict:
    if len(head) < size:
        return SOUND if tail.rstrip().endswith((b"}", b"]")) else _torn("is cut off")
    return SOUND if _json(head) is not None else _torn("is no whole JSON")


def fields(text: bytes) -> dict[str, object] | None:
    """The JSON object in `text`; None where there is none."""
    value = _json(text)
    return value if isinstance(value, dict) else None


def _json(text: bytes) -> object:
    try:
        return cast(object, json.loads(text))
    except (ValueError, RecursionError):
        return None
