"""Checkpoint folders as trainers leave them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from recovery.core.checkpoints import CheckpointLook
from recovery.sources.checkpoints import NO_WORLDS, FolderScan, scan_checkpoints

TRACKER = "latest_checkpointed_iteration.txt"


def track(folder: Path, content: str | int) -> None:
    (folder / TRACKER).write_text(str(content))


def legacy(folder: Path, step: int, *, ranks: int = 4, size: int = 1000) -> Path:
    """One shard for each of `ranks` tensor-parallel ranks."""
    checkpoint = folder / f"iter_{step:07d}"
    for rank in range(ranks):
        write(checkpoint / f"mp_rank_{rank:02d}" / "model_optim_rng.pt", size)
    return checkpoint


def sharded(folder: Path, step: int, *, ranks: int = 4, size: int = 1000) -> Path:
    """torch_dist: two shards for each rank and the metadata."""
    checkpoint = folder / f"iter_{step:07d}"
    for rank in range(ranks):
        for part in range(2):
            write(checkpoint / f"__{rank}_{part}.distcp", size)
    write(checkpoint / ".metadata", 500)
    write(checkpoint / "common.pt", 200)
    write(checkpoint / "metadata.json", 40 + step % 3)
    return checkpoint


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\1" * size)
    os.utime(path, ns=(0, 10**9))


def scan(folder: Path, *, newest: int = 20, worlds: Mapping[str, int] = NO_WORLDS) -> FolderScan:
    return scan_checkpoints(str(folder), roots=[str(folder.parent)], newest=newest, worlds=worlds)


def look(folder: Path, step: int) -> CheckpointLook:
    return next(each for each in scan(folder).looks if each.step == step)
