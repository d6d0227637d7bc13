"""Hugging Face's Trainer: one dictionary for each logging step, the step itself only in tqdm's bar."""

from __future__ import annotations

import json

from recovery.slurm.simulator.trainers.base import (
    File,
    Progress,
    Quiet,
    Save,
    bar,
    clock_of,
    safetensors_file,
    torch_file,
)

STEPS_OF_AN_EPOCH = 1000


class HuggingFace(Quiet):
    def progress(self, now: Progress) -> list[str]:
        """The bar is wiped by a carriage return, the dictionary takes its line."""
        rest = clock_of((now.total - now.step) * now.took_s)
        speed = f"{now.took_s:5.2f}s/it" if now.took_s >= 1 else f"{1 / now.took_s:5.2f}it/s"
        shown = f"{bar(now.step, now.total)} {now.step}/{now.total} [{clock_of(now.trained_s)}<{rest}, {speed}]"
        fields = {
            "loss": float("nan") if now.nan else round(now.loss, 4),
            "grad_norm": float("nan") if now.nan else round(0.3 + 0.2 * now.chance[1], 4),
            "learning_rate": 2e-05,
            "epoch": round(now.step / STEPS_OF_AN_EPOCH, 3),
        }
        return [f"\r{shown}\r{' ' * len(shown)}\r{fields}"]

    def save_start(self, save: Save) -> list[str]:
        return [f"Saving model checkpoint to {save.folder}/{self.name(save.step)}"]

    def load_start(self, save: Save) -> list[str]:
        return [f"Loading model from {save.folder}/{self.name(save.step)}."]

    def load_done(self, save: Save) -> list[str]:
        return [
            "  Continuing training from checkpoint, will skip to saved global_step",
            f"  Continuing training from epoch {save.step // STEPS_OF_AN_EPOCH}",
            f"  Continuing training from global step {save.step}",
        ]

    def begin(self, at: float, step: int) -> list[str]:
        return ["***** Running training *****"]

    def end(self, at: float, step: int, trained_s: float) -> list[str]:
        per_second = step / trained_s if trained_s else 0.0
        fields = {
            "train_runtime": round(trained_s, 4),
            "train_samples_per_second": round(8 * per_second, 3),
            "train_steps_per_second": round(per_second, 3),
            "train_loss": 1.81,
            "epoch": round(step / STEPS_OF_AN_EPOCH, 2),
        }
        return [
            "",
            "Training completed. Do not forget to share your model on huggingface.co/models =)",
            "",
            f"{fields}",
        ]

    def name(self, step: int) -> str:
        return f"checkpoint-{step}"

    def shard_files(self, step: int, shards: int) -> list[File]:
        folder = self.name(step)
        model = safetensors_file(step)
        files = [File(path=f"{folder}/{name}", data=model) for name in _model_names(shards)]
        files += [File(path=f"{folder}/{name}", data=torch_file(step)) for name in ("optimizer.pt", "scheduler.pt")]
        return [*files, *(File(path=f"{folder}/rng_state_{n}.pth", data=torch_file(step)) for n in range(shards))]

    def closing_files(self, step: int, shards: int) -> list[File]:
        """The index of the model's shards, then the trainer's state: the last that Trainer writes."""
        folder, names = self.name(step), _model_names(shards)
        weights = {f"layer.{number}.weight": name for number, name in enumerate(names)}
        index = {"metadata": {"total_size": 256 * shards}, "weight_map": weights}
        state = {"global_step": step, "epoch": step / STEPS_OF_AN_EPOCH, "log_history": []}
        return [
            File(path=f"{folder}/model.safetensors.index.json", data=json.dumps(index).encode()),
            File(path=f"{folder}/training_args.bin", data=torch_file(step)),
            File(path=f"{folder}/trainer_state.json", data=json.dumps(state).encode()),
        ]


def _model_names(shards: int) -> list[str]:
    return [f"model-{number:05d}-of-{shards:05d}.safetensors" for number in range(1, shards + 1)]
