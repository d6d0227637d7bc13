"""What the simulated jobs do to the disk: the world names it, this module carries it out.

Carrying an effect out twice gives the same files as once. That is what makes the world safe against being killed: the
effects are stored with the state that they belong to, and are done again where nobody can tell whether they were done.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from recovery.slurm.simulator.spec import Trainer
from recovery.slurm.simulator.trainers import STYLES
from recovery.slurm.simulator.trainers.base import File


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
    trainer: Trainer = Trainer.MEGATRON


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
    """The checkpoint in its trainer's own layout: the shards, then what makes it count."""
    style = STYLES[effect.trainer]
    shards = style.shard_files(effect.step, effect.shards)
    marker = style.marker(effect.step)
    if effect.kind is EffectKind.SAVE_BEGIN:
        half = shards[len(shards) // 2]
        shards = [*shards[: len(shards) // 2], File(path=half.path, data=half.data[: len(half.data) // 4])]
        if marker:
            _replace(run_folder / marker, b"")
    elif effect.kind is EffectKind.SAVE_TORN:
        shards[-1] = File(path=shards[-1].path, data=b"")  # as after a power loss: the name without the blocks
    for file in shards:
        _write_shard(run_folder / file.path, file.data)
    if effect.kind is EffectKind.SAVE_BEGIN:
        return
    for file in style.closing_files(effect.step, effect.shards):
        _replace(run_folder / file.path, file.data)
    if marker:
        (run_folder / marker).unlink(missing_ok=True)


def _write_shard(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    os.replace(new, path)  # noqa: PTH105 - the atomic call, by its own name
