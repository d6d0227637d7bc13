"""What the simulated jobs do to the disk: the world names it, this module carries it out.

Carrying an effect out twice gives the same files as once. That is what makes the world safe against being killed: the
effects are stored with the state that they belong to, and are done again where nobody can tell whether they were done.
"""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

TRACKER = "latest_checkpointed_iteration.txt"


class EffectKind(StrEnum):
    LOG = "log"  # put `text` at `offset` of the log, which ends there; offset 0 empties it first
    SAVE_BEGIN = "save_begin"  # half of the shards are there, one of them in part
    SAVE_END = "save_end"
    SAVE_TORN = "save_torn"  # looks finished, but the last shard is empty
    REMOVE = "remove"


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """`path` is relative to the state directory: a log, a run's checkpoint folder, or what is removed."""

    kind: EffectKind
    path: str
    offset: int = 0
    text: str = ""
    step: int = 0
    shards: int = 0


def carry_out(effects: Sequence[Effect], root: Path) -> None:
    """Do all `effects`, in order, below `root`. Raises ValueError for a path that leaves it."""
    ended = {(e.path, e.step) for e in effects if e.kind in (EffectKind.SAVE_END, EffectKind.SAVE_TORN)}
    for effect in effects:
        path = _below(root, effect.path)
        if effect.kind is EffectKind.SAVE_BEGIN and (effect.path, effect.step) in ended:
            continue  # what it would write, the end of the save writes again
        if effect.kind is EffectKind.LOG:
            _write_log(path, effect.offset, effect.text)
        elif effect.kind is EffectKind.REMOVE:
            _remove(path)
        else:
            _save(path, effect)


def folder_name(step: int) -> str:
    """Of one checkpoint, in its run's folder."""
    return f"iter_{step:07d}"


def shard_bytes(step: int) -> bytes:
    """A file that PyTorch's reader would open: an archive with one pickle. All shards of a checkpoint are alike."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        # protocol-0 pickle of the integer; a fixed date, so that the same step gives the same bytes
        info = zipfile.ZipInfo("model_optim_rng/data.pkl", date_time=(1980, 1, 1, 0, 0, 0))
        archive.writestr(info, f"I{step}\n.".encode() + b"\0" * 256)
    return out.getvalue()


def _below(root: Path, relative: str) -> Path:
    path = root / relative
    if not relative or ".." in path.parts or not path.is_relative_to(root):
        raise ValueError(f"{relative!r} is not below the state directory.")
    return path


def _write_log(path: Path, offset: int, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    if offset == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return
    if not path.exists():
        return  # deleted under the job: what it writes on goes nowhere, as with a real unlinked file
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
        file.truncate()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _save(run_folder: Path, effect: Effect) -> None:
    """Megatron's own layout (--ckpt-format torch): one folder for each model-parallel rank, then the tracker file."""
    folder = run_folder / folder_name(effect.step)
    data = shard_bytes(effect.step)
    shards = [data] * effect.shards
    if effect.kind is EffectKind.SAVE_BEGIN:
        shards = [*shards[: effect.shards // 2], data[: len(data) // 4]]
    elif effect.kind is EffectKind.SAVE_TORN:
        shards[-1] = b""  # as after a power loss: the name is there, the blocks are not
    for rank, content in enumerate(shards):
        _write_shard(folder / f"mp_rank_{rank:02d}", content)
    if effect.kind is not EffectKind.SAVE_BEGIN:
        _replace(run_folder / TRACKER, f"{effect.step}")  # last: it is what makes the checkpoint count


def _write_shard(folder: Path, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model_optim_rng.pt").write_bytes(data)


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    os.replace(new, path)  # noqa: PTH105 - the atomic call, by its own name
