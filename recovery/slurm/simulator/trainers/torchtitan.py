"""torchtitan: log lines by Python's logging, checkpoints by PyTorch's distributed checkpointing."""

from __future__ import annotations

from recovery.slurm.simulator.lines import TFLOPS_PER_GPU
from recovery.slurm.simulator.trainers.base import File, Progress, Save, metadata_file, milliseconds, torch_file


class Torchtitan:
    def progress(self, now: Progress) -> list[str]:
        loss = f"{'nan':>8}" if now.nan else f"{now.loss:8.5f}"
        tflops = TFLOPS_PER_GPU * now.speed
        return [
            f"{_head(now.at)}step: {now.step:2}  loss: {loss}  grad_norm: {1 + 0.2 * now.chance[1]:7.4f}"
            f"  memory: {51.2:5.2f}GiB({64.66:.2f}%)  tps: {round(5120 * now.speed):,}  tflops: {tflops:,.2f}"
            f"  mfu: {tflops / 9.89:.2f}%"
        ]

    def save_start(self, save: Save) -> list[str]:
        return [f"{_head(save.at)}Saving the checkpoint."]

    def save_done(self, save: Save) -> list[str]:
        return [f"{_head(save.at)}Finished saving the checkpoint in {save.took_s:.2f} seconds."]

    def load_start(self, save: Save) -> list[str]:
        return [f"{_head(save.at)}Loading the checkpoint from {save.folder}/{self.name(save.step)}."]

    def load_done(self, save: Save) -> list[str]:
        return [f"{_head(save.at)}Finished loading the checkpoint in {save.took_s:.2f} seconds."]

    def fresh_start(self, folder: str) -> list[str]:
        return ["[titan] No checkpoint was provided, this is a fresh start."]

    def begin(self, at: float, step: int) -> list[str]:
        return [f"{_head(at)}Training starts at step {step + 1}"]

    def end(self, at: float, step: int, trained_s: float) -> list[str]:
        return [f"{_head(at)}Training completed"]

    def name(self, step: int) -> str:
        return f"step-{step}"

    def marker(self, step: int) -> str:
        return ""

    def shard_files(self, step: int, shards: int) -> list[File]:
        data = torch_file(step)
        return [File(path=f"{self.name(step)}/__{rank}_0.distcp", data=data) for rank in range(shards)]

    def closing_files(self, step: int, shards: int) -> list[File]:
        """The file that torchtitan itself takes for the sign of a whole checkpoint."""
        return [File(path=f"{self.name(step)}/.metadata", data=metadata_file(shards))]


def _head(at: float) -> str:
    return f"[titan] {milliseconds(at)} - root - INFO - "
