"""Batch scripts that run the reference trainer, as a user would write them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TRAINER = Path(__file__).with_name("trainer.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingJob:
    """One training job of the lab. `faults` are those of the trainer's --fault."""

    name: str
    checkpoint_dir: Path
    log: Path  # with Slurm's patterns
    nodes: int = 2
    ranks_per_node: int = 2
    gpus_per_node: int = 0
    steps: int = 400
    save_every: int = 20
    step_time_s: float = 0.5
    faults: Sequence[str] = ()
    survive_peer_loss: bool = False
    requeueable: bool = True
    options: Sequence[tuple[str, object]] = ()  # more keys of the comment: mode, max_restarts
    python: str = "/usr/bin/env python3"


def job_script(job: TrainingJob) -> str:
    """The text for sbatch. Slurm's default open mode holds: a requeued attempt starts its log anew."""
    comment = {"recovery": {"run": job.name, "checkpoint_dir": str(job.checkpoint_dir), **dict(job.options)}}
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={job.name}",
        f"#SBATCH --nodes={job.nodes}",
        f"#SBATCH --ntasks-per-node={job.ranks_per_node}",
        f"#SBATCH --output={job.log}",
        "#SBATCH --requeue" if job.requeueable else "#SBATCH --no-requeue",
        f"#SBATCH --comment='{json.dumps(comment)}'",
        *([f"#SBATCH --gres=gpu:{job.gpus_per_node}"] if job.gpus_per_node else []),
        f"srun --kill-on-bad-exit=1 {job.python} {shlex.join(_arguments(job))}",
    ]
    return "\n".join(lines) + "\n"


def _arguments(job: TrainingJob) -> list[str]:
    words = [str(TRAINER), "--checkpoint-dir", str(job.checkpoint_dir), "--steps", str(job.steps)]
    words += ["--save-every", str(job.save_every), "--step-time", str(job.step_time_s)]
    for fault in job.faults:
        words += ["--fault", fault]
    return [*words, "--survive-peer-loss"] if job.survive_peer_loss else words
