"""PyTorch Lightning: tqdm's bar with the loss behind it, one .ckpt file for each checkpoint, and no word of a save."""

from __future__ import annotations

from recovery.slurm.simulator.trainers.base import File, Progress, Quiet, Save, bar, clock_of, torch_file

STEPS_OF_AN_EPOCH = 1000


class Lightning(Quiet):
    def progress(self, now: Progress) -> list[str]:
        epoch, batch = divmod(now.step - 1, STEPS_OF_AN_EPOCH)
        batch += 1
        of = min(STEPS_OF_AN_EPOCH, now.total)
        spent, rest = clock_of(batch * now.took_s), clock_of((of - batch) * now.took_s)
        loss = "nan" if now.nan else f"{now.loss:.3f}"
        return [
            f"\rEpoch {epoch}: {bar(batch, of)} {batch}/{of} [{spent}<{rest}, {1 / now.took_s:5.2f}it/s, v_num=0,"
            f" train_loss={loss}]"
        ]

    def load_start(self, save: Save) -> list[str]:
        return [f"Restoring states from the checkpoint path at {save.folder}/{self.name(save.step)}"]

    def load_done(self, save: Save) -> list[str]:
        return [f"Restored all states from the checkpoint at {save.folder}/{self.name(save.step)}"]

    def begin(self, at: float, step: int) -> list[str]:
        return ["GPU available: True (cuda), used: True"]

    def end(self, at: float, step: int, trained_s: float) -> list[str]:
        return [f"`Trainer.fit` stopped: `max_steps={step}` reached."]

    def name(self, step: int) -> str:
        return f"epoch={(step - 1) // STEPS_OF_AN_EPOCH}-step={step}.ckpt"

    def shard_files(self, step: int, shards: int) -> list[File]:
        """Written where it will lie: killed in between, half a file is left."""
        return [File(path=self.name(step), data=torch_file(step))]

    def closing_files(self, step: int, shards: int) -> list[File]:
        return [File(path="last.ckpt", data=torch_file(step))]
