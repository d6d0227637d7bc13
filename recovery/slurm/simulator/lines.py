"""What a job's log says, word for word: Megatron-LM's lines, and those that Slurm's srun and slurmstepd add.

Megatron's formats are those of its source of August 2026 (megatron/training/training.py and checkpointing.py),
Slurm's those of 22.05 (slurmstepd's and srun's messages). Times are UTC, as on a cluster that runs in UTC.
"""

from __future__ import annotations

import hashlib
import math
import struct
from datetime import UTC, datetime

GLOBAL_BATCH = 1024
PEAK_LEARNING_RATE = 3e-4
WARM_UP_STEPS = 200
TORCH = "2.8.0"
TFLOPS_PER_GPU = 402.5  # at the job's nominal speed


def noise(*key: object) -> tuple[float, float, float, float]:
    """Four numbers in [0, 1) that depend on `key` only: the same in every process and in every order of events."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
    a, b, c, d = struct.unpack("<4I", digest)
    return a / 2**32, b / 2**32, c / 2**32, d / 2**32


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def slurm_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def loss_at(step: int, chance: float) -> float:
    """Falls as that of a language model does, with a little noise."""
    return 1.7 + 5.5 * math.exp(-step / 900) + 0.06 * (chance - 0.5)


def iteration(
    *, at: float, step: int, total: int, took_s: float, speed: float, nans: int, nan: bool, chance: tuple[float, ...]
) -> str:
    """The progress line. `speed` is nominal over present step time; with `nan` Megatron leaves out the loss field."""
    loss = loss_at(step, chance[0])
    rate = PEAK_LEARNING_RATE * min(1.0, step / WARM_UP_STEPS)
    loss_field = "" if nan else f" lm loss: {loss:.6E} |"
    grad_norm = "nan" if nan else f"{0.3 + 0.2 * chance[1]:.3f}"
    return (
        f" [{stamp(at)}] iteration {step:8d}/{total:8d} | consumed samples: {step * GLOBAL_BATCH:12d} |"
        f" elapsed time per iteration (ms): {took_s * 1000:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {TFLOPS_PER_GPU * speed:.1f} |"
        f" learning rate: {rate:.6E} | global batch size: {GLOBAL_BATCH:5d} |{loss_field}"
        f" loss scale: 1.0 | grad norm: {grad_norm} |"
        f" number of skipped iterations: {0:3d} | number of nan iterations: {nans:3d} |"
    )


def save_start(at: float, step: int, folder: str) -> str:
    return f"[{stamp(at)}] saving checkpoint at iteration {step:7d} to {folder} in torch format"


def save_done(at: float, step: int, folder: str, shards: int) -> str:
    return (
        f"  [{stamp(at)}] successfully saved checkpoint from iteration {step:7d} to {folder}"
        f" [ t 1/{shards}, gtp_remat 1/1, p 1/1 ]"
    )


def load_start(step: int, folder: str) -> str:
    return f" loading checkpoint from {folder} at iteration {step}"


def load_done(step: int, folder: str, shards: int) -> str:
    return f"  successfully loaded checkpoint from {folder} [ t 1/{shards}, p 1/1 ] at iteration {step}"


def fresh_start(folder: str) -> list[str]:
    return [
        f"WARNING: could not find the metadata file {folder}/latest_checkpointed_iteration.txt",
        "    will not load any checkpoints and will start from random",
    ]


def milestone(at: float, what: str) -> str:
    """`[after training is done] datetime: …` and its like."""
    return f"[{what}] datetime: {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} "


def cancelled(job_id: str, node: str, at: float, why: str) -> list[str]:
    """slurmstepd's last words; `why` is "" for scancel, else " DUE TO JOB REQUEUE" and so on."""
    return [
        f"slurmstepd: error: *** {entity} ON {node} CANCELLED AT {slurm_time(at)}{why} ***"
        for entity in (f"STEP {job_id}.0", f"JOB {job_id}")
    ]


def task_exit(job_id: str, node: str, rank: int, how: str) -> list[str]:
    """srun's report on the task that ended first; `how` is "Exited with exit code 1", "Segmentation fault", …"""
    return [
        f"srun: error: {node}: task {rank}: {how}",
        f"srun: Terminating StepId={job_id}.0",
        f"slurmstepd: error: *** STEP {job_id}.0 ON {node} FAILED (non-zero exit code or other failure mode) ***",
    ]


def pid_of(job_id: str, rank: int) -> int:
    """A process id that looks like one and stays the same for one job and rank."""
    return 40_000 + int(noise("pid", job_id)[0] * 900_000) + rank


def glog_time(at: float) -> str:
    """`1129 20:14:03.512000000`, as PyTorch's C++ half stamps its lines."""
    return datetime.fromtimestamp(at, UTC).strftime("%m%d %H:%M:%S.%f") + "000"


def rank_on_host(rank: int, node: str, pid: int) -> str:
    return f"[rank{rank}]: host {node} pid {pid}"
