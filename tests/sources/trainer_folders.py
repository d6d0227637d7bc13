"""One checkpoint of each trainer, small, as the trainer's own source lays it out."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

SIZE = 1000
Build = Callable[[Path, int], Path]


def archive(size: int = SIZE) -> bytes:
    """What torch.save writes: a zip archive, nothing compressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("archive/data.pkl", b"\2" * size)
    return out.getvalue()


def archive64(size: int = SIZE) -> bytes:
    """The same with the two records for large archives before the last one, which PyTorch always writes."""
    plain = archive(size)
    end = plain[-22:]
    records = b"PK\6\6" + b"\0" * 52 + b"PK\6\7" + b"\0" * 16
    return plain[:-22] + records + end


def tensors(size: int = SIZE) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + b"\3" * size


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def dcp(folder: Path, *, ranks: int = 4) -> None:
    names = [f"__{rank}_0.distcp" for rank in range(ranks)]
    for name in names:
        put(folder / name, archive() + archive())
    put(folder / ".metadata", pickle.dumps({"storage": names}, protocol=4))


def torchtitan(run: Path, step: int) -> Path:
    dcp(run / f"step-{step}")
    return run / f"step-{step}"


def olmo_core(run: Path, step: int) -> Path:
    folder = run / f"step{step}"
    dcp(folder / "model_and_optim")
    for rank in range(4):
        put(folder / "train" / f"rank{rank}.pt", archive())
    put(folder / ".metadata.json", b'{"version": "2.0.0", "ephemeral": false}')
    return folder


def huggingface(run: Path, step: int) -> Path:
    folder = run / f"checkpoint-{step}"
    names = [f"model-{part:05d}-of-00003.safetensors" for part in (1, 2, 3)]
    for name in names:
        put(folder / name, tensors())
    weights = {f"layer.{number}": name for number, name in enumerate(names)}
    put(folder / "model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": weights}).encode())
    for name in ("optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth", "training_args.bin"):
        put(folder / name, archive64())
    put(
        folder / "trainer_state.json",
        json.dumps({"epoch": 1.0, "global_step": step, "log_history": []}, indent=2).encode(),
    )
    return folder


def lightning(run: Path, step: int) -> Path:
    put(run / f"epoch=0-step={step}.ckpt", archive64())
    return run / f"epoch=0-step={step}.ckpt"


def lightning_fsdp(run: Path, step: int) -> Path:
    folder = run / f"epoch=0-step={step}.ckpt"
    dcp(folder)
    put(folder / "meta.pt", archive())
    return folder


def lightning_deepspeed(run: Path, step: int) -> Path:
    folder = run / f"epoch=0-step={step}.ckpt"
    _zero(folder / "checkpoint")
    put(folder / "latest", b"checkpoint")
    return folder


def nemo(run: Path, step: int) -> Path:
    folder = run / f"model--reduced_train_loss=2.10-step={step}-consumed_samples={step * 8}.0"
    dcp(folder / "weights")
    put(folder / "weights" / "common.pt", archive())
    put(folder / "weights" / "metadata.json", b'{"sharded_backend": "torch_dist"}')
    return folder


def nemo_file(run: Path, step: int) -> Path:
    path = run / f"megatron_gpt--val_loss=2.10-step={step}-consumed_samples={step * 8}.0.ckpt"
    put(path, archive64())
    return path


def deepspeed(run: Path, step: int) -> Path:
    folder = run / f"global_step{step}"
    _zero(folder)
    put(run / "latest", f"global_step{step}".encode())
    return folder


def gpt_neox(run: Path, step: int) -> Path:
    """A pipeline: a file for each layer and tensor-parallel rank; two data-parallel ranks."""
    folder = run / f"global_step{step}"
    for part in range(2):
        put(folder / f"mp_rank_{part:02d}_model_states.pt", archive())
        for layer in (0, 2, 3):
            put(folder / f"layer_{layer:02d}-model_{part:02d}-model_states.pt", archive())
        for rank in range(2):
            put(folder / f"zero_pp_rank_{rank}_mp_rank_{part:02d}_optim_states.pt", archive())
    put(run / "latest", f"global_step{step}\n".encode())
    return folder


def _zero(folder: Path) -> None:
    put(folder / "mp_rank_00_model_states.pt", archive64())
    for rank in range(4):
        put(folder / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", archive64())


def composer(run: Path, step: int) -> Path:
    for rank in range(2):
        put(run / f"ep0-ba{step}-rank{rank}.pt", archive())
    return run / f"ep0-ba{step}-rank0.pt"


def composer_sharded(run: Path, step: int) -> Path:
    dcp(run / f"ep0-ba{step}")
    return run / f"ep0-ba{step}"


def ocdbt(begins: str, size: int = 100) -> bytes:
    return bytes.fromhex(begins) + size.to_bytes(8, "little") + b"\5" * (size - 12)


def automodel(run: Path, step: int) -> Path:
    folder = run / f"epoch_0_step_{step}"
    for rank in range(4):
        put(folder / "model" / f"shard-{rank + 1:05d}-model-00001-of-00001.safetensors", tensors())
        put(folder / "rng" / f"rng_dp_rank_{rank}.pt", archive())
    dcp(folder / "optim")
    point(run / "LATEST", folder)
    return folder


def automodel_dcp(run: Path, step: int) -> Path:
    folder = run / f"epoch_1_step_{step}"
    dcp(folder / "model")
    dcp(folder / "optim")
    point(run / "LATEST", folder)
    return folder


def point(link: Path, folder: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)


def orbax(run: Path, step: int) -> Path:
    folder = run / str(step)
    put(folder / "_CHECKPOINT_METADATA", b'{"init_timestamp_nsecs": 5, "commit_timestamp_nsecs": 9}')
    put(folder / "items" / "_METADATA", b'{"tree_metadata": {}}')
    put(folder / "items" / "commit_success.txt", b"Checkpoint commit was successful")
    put(folder / "commit_success.txt", b"Checkpoint commit was successful")
    for below in (folder / "items", folder / "items" / "ocdbt.process_0"):
        put(below / "manifest.ocdbt", ocdbt("0cdb3a2a"))
        put(below / "d" / f"{step:032x}", ocdbt("0cdb20de"))
    put(folder / "items" / "ocdbt.process_0" / "d" / f"{step + 1:032x}", b"\6" * SIZE)
    return folder


def fairseq(run: Path, step: int) -> Path:
    put(run / f"checkpoint_1_{step}.pt", archive64())
    put(run / "checkpoint_last.pt", archive64())
    return run / f"checkpoint_1_{step}.pt"


def torchtune(run: Path, step: int) -> Path:
    dcp(run / f"step_{step}" / "dist_checkpoint")
    return run / f"step_{step}"


TRAINERS: dict[str, Build] = {
    build.__name__: build
    for build in (
        torchtitan, olmo_core, huggingface, lightning, lightning_fsdp, lightning_deepspeed, nemo, nemo_file, automodel,
        automodel_dcp, deepspeed, gpt_neox, composer, composer_sharded, orbax, fairseq, torchtune,
    )
}  # fmt: skip
