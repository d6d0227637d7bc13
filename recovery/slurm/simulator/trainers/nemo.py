"""NeMo 2 on Lightning: its own progress line, folders of distributed shards, and a marker while one is written."""

from __future__ import annotations

from recovery.slurm.simulator.lines import GLOBAL_BATCH, PEAK_LEARNING_RATE
from recovery.slurm.simulator.trainers.base import File, Progress, Quiet, Save, metadata_file, torch_file


class Nemo(Quiet):
    def progress(self, now: Progress) -> list[str]:
        """Iterations count from 0 in the line's head; global_step is the same number."""
        done = now.step - 1
        loss = "nan" if now.nan else f"{now.loss:.4g}"
        return [
            f"Training epoch 0, iteration {done}/{now.total - 1} | lr: {PEAK_LEARNING_RATE:.4g} |"
            f" global_batch_size: {GLOBAL_BATCH} | global_step: {done} | reduced_train_loss: {loss} |"
            f" train_step_timing in s: {now.took_s:.4g} | consumed_samples: {now.step * GLOBAL_BATCH}"
        ]

    def load_start(self, save: Save) -> list[str]:
        return [f"Restoring states from the checkpoint path at {save.folder}/{self.name(save.step)}"]

    def load_done(self, save: Save) -> list[str]:
        return [f"Restored all states from the checkpoint at {save.folder}/{self.name(save.step)}"]

    def end(self, at: float, step: int, trained_s: float) -> list[str]:
        return [f"`Trainer.fit` stopped: `max_steps={step}` reached."]

    def name(self, step: int) -> str:
        return f"model--step={step - 1}-consumed_samples={step * GLOBAL_BATCH}.0-last"

    def marker(self, step: int) -> str:
        return f"{self.name(step)}-unfinished"

    def shard_files(self, step: int, shards: int) -> list[File]:
        data = torch_file(step)
        return [File(path=f"{self.name(step)}/weights/__{n}_0.distcp", data=data) for n in range(shards)]

    def closing_files(self, step: int, shards: int) -> list[File]:
        folder = f"{self.name(step)}/weights"
        return [
            File(path=f"{folder}/common.pt", data=torch_file(step)),
            File(path=f"{folder}/metadata.json", data=b'{"sharded_backend": "torch_dist"}'),
            File(path=f"{folder}/.metadata", data=metadata_file(shards)),
        ]
