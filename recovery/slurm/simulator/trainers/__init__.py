"""The trainers whose logs and checkpoints simulated jobs write, one module for each: its lines and its layout.

Lines are those of the trainers' own sources; which parts of them the product reads is no concern of the simulator. A
trainer that the product can't read yet makes a blind job, as on a real cluster.
"""

from __future__ import annotations

from recovery.slurm.simulator.spec import Trainer
from recovery.slurm.simulator.trainers import hf, lightning, megatron, nemo, torchtitan
from recovery.slurm.simulator.trainers.base import Style

STYLES: dict[Trainer, Style] = {
    Trainer.MEGATRON: megatron.Megatron(),
    Trainer.HF: hf.HuggingFace(),
    Trainer.LIGHTNING: lightning.Lightning(),
    Trainer.NEMO: nemo.Nemo(),
    Trainer.TORCHTITAN: torchtitan.Torchtitan(),
}

__all__ = ["STYLES", "Style"]
