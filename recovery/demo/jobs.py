"""Batch scripts that run the reference trainer, as a user would write them.

Slurm's default open mode holds, which truncates: the log of a requeued attempt replaces that of the one before. With
`--open-mode=append` (an option of sbatch) it is continued instead. Readers of the log must cope with both.
"""

from __future__ import annotations

import json
import shlex
import sys
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
    python: str = sys.executable  # the nodes of a lab are this machine


def job_script(job: TrainingJob) -> str:
    """The text for sbatch. ValueError where a name, path or option can't stand in one."""
    wishes = {"run": job.name, "checkpoint_dir": str(job.checkpoint_dir), **dict(job.options)}
    directives = [
        f"--job-name={_quoted(job.name)}",
        f"--nodes={job.nodes}",
        f"--ntasks-per-node={job.ranks_per_node}",
        f"--output={_quoted(str(job.log))}",
        "--requeue" if job.requeueable else "--no-requeue",
        f"--comment={_quoted(json.dumps({'recovery': wishes}, ensure_ascii=False))}",
        *([f"--gres=gpu:{job.gpus_per_node}"] if job.gpus_per_node else []),
    ]
    lines = ["#!/bin/bash", *(f"#SBATCH {directive}" for directive in directives)]
    # One rank's bad end ends the step at once; without it srun would wait for ranks that wait for the dead one.
    lines.append(f"srun --kill-on-bad-exit=1 {shlex.quote(job.python)} {shlex.join(_arguments(job))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """In single quotes, within which sbatch still reads a backslash as its own."""
    if set(text) & set("'\\\n\r\0"):
        raise ValueError(f"{text!r} can't stand in a batch script: no single quote, backslash or line end.")
    return f"'{text}'"


def _arguments(job: TrainingJob) -> list[str]:
    words = [str(TRAINER), "--checkpoint-dir", str(job.checkpoint_dir), "--steps", str(job.steps)]
    words += ["--save-every", str(job.save_every), "--step-time", str(job.step_time_s)]
    for fault in job.faults:
        words += ["--fault", fault]
    return [*words, "--survive-peer-loss"] if job.survive_peer_loss else words
