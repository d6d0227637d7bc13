"""Megatron-LM: lines of its source of August 2026 (megatron/training/training.py, checkpointing.py)."""

from __future__ import annotations

from recovery.slurm.simulator import lines
from recovery.slurm.simulator.trainers.base import File, Progress, Quiet, Save, torch_file

TRACKER = "latest_checkpointed_iteration.txt"


class Megatron(Quiet):
    """Its own layout (--ckpt-format torch): one folder for each model-parallel rank, then the tracker file."""

    def progress(self, now: Progress) -> list[str]:
        return [
            lines.iteration(
                at=now.at,
                step=now.step,
                total=now.total,
                took_s=now.took_s,
                speed=now.speed,
                nans=now.nans,
                nan=now.nan,
                chance=now.chance,
            )
        ]

    def save_start(self, save: Save) -> list[str]:
        return [lines.save_start(save.at, save.step, save.folder)]

    def save_done(self, save: Save) -> list[str]:
        return [lines.save_done(save.at, save.step, save.folder, save.shards)]

    def load_start(self, save: Save) -> list[str]:
        return [lines.load_start(save.step, save.folder)]

    def load_done(self, save: Save) -> list[str]:
        return [lines.load_done(save.step, save.folder, save.shards)]

    def fresh_start(self, folder: str) -> list[str]:
        return lines.fresh_start(folder)

    def begin(self, at: float, step: int) -> list[str]:
        return [lines.milestone(at, "before the start of training step")]

    def end(self, at: float, step: int, trained_s: float) -> list[str]:
        return [lines.milestone(at, "after training is done")]

    def name(self, step: int) -> str:
        return f"iter_{step:07d}"

    def shard_files(self, step: int, shards: int) -> list[File]:
        data = torch_file(step)
        return [
            File(path=f"{self.name(step)}/mp_rank_{rank:02d}/model_optim_rng.pt", data=data) for rank in range(shards)
        ]

    def closing_files(self, step: int, shards: int) -> list[File]:
        return [File(path=TRACKER, data=f"{step}".encode())]
