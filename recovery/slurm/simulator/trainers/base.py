"""What a trainer's style is made of: what it prints, and which files a checkpoint of it has."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from recovery.slurm.simulator.lines import loss_at


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """One finished iteration. `speed` is nominal over present step time; `chance` are four numbers in [0, 1)."""

    at: float
    step: int
    total: int
    took_s: float
    speed: float
    nans: int
    nan: bool
    chance: tuple[float, ...]
    trained_s: float  # since the attempt began to train

    @property
    def loss(self) -> float:
        return loss_at(self.step, self.chance[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Save:
    at: float
    step: int
    folder: str  # the run's checkpoint folder, absolute
    shards: int
    took_s: float = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """`path` is relative to the run's checkpoint folder."""

    path: str
    data: bytes


class Style(Protocol):
    """Lines come without their newline; [] where the trainer says nothing."""

    def progress(self, now: Progress) -> list[str]: ...

    def save_start(self, save: Save) -> list[str]: ...

    def save_done(self, save: Save) -> list[str]: ...

    def load_start(self, save: Save) -> list[str]: ...

    def load_done(self, save: Save) -> list[str]: ...

    def fresh_start(self, folder: str) -> list[str]:
        """It looked for a checkpoint and goes on without one."""
        ...

    def begin(self, at: float, step: int) -> list[str]:
        """Before the first iteration after `step`."""
        ...

    def end(self, at: float, step: int, trained_s: float) -> list[str]: ...

    def name(self, step: int) -> str:
        """File or folder of one checkpoint, in the run's folder."""
        ...

    def shard_files(self, step: int, shards: int) -> list[File]:
        """In the order in which they are written."""
        ...

    def closing_files(self, step: int, shards: int) -> list[File]:
        """What is written last and makes the checkpoint count."""
        ...

    def marker(self, step: int) -> str:
        """A file that is there while the checkpoint is being written; "" where the trainer has none."""
        ...


class Quiet:
    """Defaults for trainers that say little and mark nothing."""

    def save_start(self, save: Save) -> list[str]:
        return []

    def save_done(self, save: Save) -> list[str]:
        return []

    def load_start(self, save: Save) -> list[str]:
        return []

    def load_done(self, save: Save) -> list[str]:
        return []

    def fresh_start(self, folder: str) -> list[str]:
        return []

    def begin(self, at: float, step: int) -> list[str]:
        return []

    def marker(self, step: int) -> str:
        return ""


def torch_file(step: int) -> bytes:
    """A file that PyTorch's reader would open: an archive with one pickle. The same step gives the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        # protocol-0 pickle of the integer; a fixed date, so that the bytes depend on nothing else
        info = zipfile.ZipInfo("model_optim_rng/data.pkl", date_time=(1980, 1, 1, 0, 0, 0))
        archive.writestr(info, f"I{step}\n.".encode() + b"\0" * 256)
    return out.getvalue()


def metadata_file(shards: int) -> bytes:
    """`.metadata` of PyTorch's distributed checkpoints: a pickle that names every shard."""
    return pickle.dumps([f"__{rank}_0.distcp" for rank in range(shards)], protocol=4)


def safetensors_file(step: int) -> bytes:
    """One tensor of 64 numbers: the length of the header, the header, the data."""
    header = json.dumps({"weight": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<f", float(step)) * 64


def clock_of(seconds: float) -> str:
    """`08:41`, or `1:00:12` from an hour on: as tqdm writes durations."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def bar(done: int, total: int, *, width: int = 10) -> str:
    """tqdm's bar, ` 62%|██████▏   |`: in eighths of a character."""
    part = min(1.0, done / total)
    eighths = int(part * width * 8)
    full, rest = divmod(eighths, 8)
    blocks = "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
    return f"{int(part * 100):3d}%|{blocks:<{width}}|"


def milliseconds(at: float) -> str:
    """`2026-02-03 04:05:06,700`, as Python's logging stamps its lines."""
    stamp = datetime.fromtimestamp(at, UTC)
    return f"{stamp:%Y-%m-%d %H:%M:%S},{stamp.microsecond // 1000:03d}"
