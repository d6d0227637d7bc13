"""The reference trainer: a small data-parallel program that really trains, and fails when told to.

    srun python3 trainer.py --checkpoint-dir /ckpt/llama --steps 400 --save-every 20 --fault kind=ecc,step=33,rank=3
    python3 launch.py --ranks 4 --checkpoint-dir /tmp/ckpt --steps 40    # the same without Slurm

Every rank fits the same linear model to its own data; gradients are summed over TCP on loopback in each step (the nodes
of a lab are one host). What a step draws depends on its number and rank alone, so a resumed run goes on exactly as if
it had never stopped. It writes what Megatron-LM writes: the iteration line by the last rank, save and load lines by
rank 0, checkpoints as iter_0000020/mp_rank_00/model_optim_rng.pt, and latest_checkpointed_iteration.txt only when all
shards are written. It resumes from the checkpoint which that file names, else from the newest one that is whole. At its
start every rank says where it is, `[rank3]: host n2 pid 4711`; what it prints when it dies has its rank, as with torch.
Faults (--fault, repeatable): kind=KIND[,step=N][,rank=R][,attempt=A][,node=NAME][,factor=F]. What is left out stands
for every one; `attempt` is Slurm's restart count.
  In iteration `step`:   traceback, segfault, sigkill, ecc, xid, oom_gpu: the rank dies so; nccl: it stops, the others
                         report a collective time-out and die; hang, hang_rank: it stops, whoever waits for it waits
  In the save of `step`: disk_full: it fails; tear: it leaves a truncated shard that the tracker names; die_in_save: the
                         rank dies in the middle of its shard, the tracker names the checkpoint before
  From `step` on:        slow: a step takes `factor` times longer; nan: the weights are NaN; stop_saving: no more saves
  At the start:          ignore_checkpoint: it starts from scratch
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import math
import os
import random
import signal
import socket
import struct
import sys
import time
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import NoReturn

FEATURES, BATCH, RATE = 32, 16, 0.05
TRACKER, SHARD = "latest_checkpointed_iteration.txt", "model_optim_rng.pt"
MAGIC = b"reference-trainer-1"
FOREVER_S = 7 * 24 * 3600
WATCHDOG_S = 2.0  # what the ten minutes of a real collective time-out are shortened to
DEADLY = ("traceback", "segfault", "sigkill", "ecc", "xid", "oom_gpu")
LASTING = ("slow", "nan", "stop_saving", "ignore_checkpoint")
KINDS = (*DEADLY, "nccl", "hang", "hang_rank", "disk_full", "tear", "die_in_save", *LASTING)


class PeerLost(Exception):
    """Another rank is gone: its connection ended in the middle of a collective."""


class OutOfMemoryError(RuntimeError):
    __module__ = "torch"  # so that its traceback reads as torch's own


@dataclass(frozen=True)
class Place:
    """Who and where this process is."""

    rank: int
    world: int
    node: str
    attempt: int
    key: str  # of this execution: the ranks of one attempt meet under it

    @classmethod
    def from_environment(cls) -> Place:
        env = os.environ
        attempt = int(env.get("SLURM_RESTART_COUNT") or 0)  # Slurm leaves it unset in the first one
        return cls(
            rank=int(env.get("SLURM_PROCID", "0")),
            world=int(env.get("SLURM_NTASKS", "1")),
            node=env.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0],
            attempt=attempt,
            key=f"{env.get('SLURM_JOB_ID', 'local')}-{attempt}-{env.get('SLURM_STEP_ID', '0')}",
        )


def say(text: str) -> None:
    """One line in one write, so that the lines of several ranks never mix; safe in a signal handler."""
    os.write(sys.stdout.fileno(), (text + "\n").encode())


def stamp() -> str:
    return f"[{datetime.now(UTC).astimezone():%Y-%m-%d %H:%M:%S.%f}]"  # local time without its zone, as Megatron does


@dataclass(frozen=True)
class Fault:
    """What goes wrong in which iteration, on which rank, attempt and node; None stands for every one."""

    kind: str
    step: int = 0
    rank: int | None = None
    attempt: int | None = None
    node: str | None = None
    factor: float = 3.0

    @classmethod
    def parse(cls, text: str) -> Fault:
        """From "kind=ecc,step=33,rank=3"."""
        given = dict(part.partition("=")[::2] for part in text.split(","))
        kind, node, factor = given.pop("kind", ""), given.pop("node", None), given.pop("factor", "3")
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"kind={kind!r} is no fault: use one of {', '.join(KINDS)}")
        if set(given) - {"step", "rank", "attempt"}:
            raise argparse.ArgumentTypeError(f"{text!r}: a fault has kind, step, rank, attempt, node and factor")
        if kind in ("hang_rank", "nccl") and "rank" not in given and node is None:
            raise argparse.ArgumentTypeError(f"{kind} stops one rank while the others wait: give rank or node")
        return cls(kind=kind, node=node, factor=float(factor), **{name: int(value) for name, value in given.items()})


class Faults:
    """The faults of this attempt, as one rank sees them."""

    def __init__(self, faults: list[Fault], place: Place) -> None:
        self._place = place
        self._all = [fault for fault in faults if fault.attempt in (None, place.attempt)]
        self._here = [f for f in self._all if f.rank in (None, place.rank) and f.node in (None, place.node)]

    def due(self, step: int, *kinds: str) -> Fault | None:
        """The fault of one of these kinds that strikes this rank in this iteration."""
        return next((fault for fault in self._here if fault.kind in kinds and fault.step == step), None)

    def lasting(self, step: int, kind: str) -> Fault | None:
        """The fault of this kind that has begun on this rank."""
        return next((fault for fault in self._here if fault.kind == kind and fault.step <= step), None)

    def strike(self, step: int) -> None:
        """Whatever is to happen at the start of this iteration."""
        if self.due(step, "hang", "hang_rank", "nccl"):
            time.sleep(FOREVER_S)
        if any(fault.kind == "nccl" and fault.step == step for fault in self._all):
            self._report_collective(step)
        if deadly := self.due(step, *DEADLY):
            self._die(deadly.kind)

    def _report_collective(self, step: int) -> NoReturn:
        rank, size = self._place.rank, FEATURES + 1
        time.sleep(WATCHDOG_S)
        work = f"WorkNCCL(SeqNum={2 * step}, OpType=ALLREDUCE, NumelIn={size}, NumelOut={size}, Timeout(ms)=600000)"
        caught = f"Watchdog caught collective operation timeout: {work} ran for 600{rank:03d} milliseconds"
        say(f"[rank{rank}]:[E ProcessGroupNCCL.cpp:632] [Rank {rank}] {caught} before timing out.")
        os._exit(1)

    def _die(self, kind: str) -> NoReturn:
        if kind in ("segfault", "sigkill"):
            os.kill(os.getpid(), signal.SIGSEGV if kind == "segfault" else signal.SIGKILL)
        if kind == "oom_gpu":
            total = "GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is free."
            raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate 2.50 GiB. {total}")
        if kind == "ecc":
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
        if kind == "xid":
            event = f"NVRM: Xid (PCI:0000:1b:00): 79, pid={os.getpid()}, GPU has fallen off the bus."
            say(f"{self._place.node} kernel: {event}")  # as where a prolog streams the node's kernel log into the job's
            raise RuntimeError("CUDA error: unspecified launch failure")
        raise KeyError("tokens")


class Group:
    """All ranks, joined in a star around rank 0, which leaves its port in a file of the checkpoint folder."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._rank, self._others = place.rank, place.world - 1
        self._meeting = folder / f".rendezvous-{place.key}"
        self._peers: list[Connection[bytes, bytes]] = []
        if self._others:
            self._gather() if place.rank == 0 else self._join()

    def _gather(self) -> None:
        with Listener(("127.0.0.1", 0)) as door:
            draft = self._meeting.with_suffix(".new")
            draft.write_text(str(door.address[1]))
            draft.replace(self._meeting)
            found = {int(peer.recv_bytes()): peer for peer in (door.accept() for _ in range(self._others))}
        self._peers = [found[rank] for rank in sorted(found)]
        self._meeting.unlink()

    def _join(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                peer = Client(("127.0.0.1", int(self._meeting.read_text())))
            except (OSError, ValueError):
                time.sleep(0.05)
                continue
            peer.send_bytes(str(self._rank).encode())
            self._peers = [peer]
            return
        raise TimeoutError("RendezvousTimeoutError: rank 0 did not appear within 60 s")

    def sum(self, values: list[float]) -> list[float]:
        """The sum over all ranks, on every rank, always added in the order of ranks. Raises PeerLost."""
        packed = struct.Struct(f"!{len(values)}d")
        try:
            if self._rank:
                self._peers[0].send_bytes(packed.pack(*values))
                return list(packed.unpack(self._peers[0].recv_bytes()))
            for peer in self._peers:
                values = [a + b for a, b in zip(values, packed.unpack(peer.recv_bytes()), strict=True)]
            for peer in self._peers:
                peer.send_bytes(packed.pack(*values))
        except (OSError, EOFError) as error:
            raise PeerLost from error
        return values

    def barrier(self) -> None:
        self.sum([0.0])


def shard_path(folder: Path, step: int, rank: int) -> Path:
    return folder / f"iter_{step:07d}" / f"mp_rank_{rank:02d}" / SHARD


def pack_shard(step: int, weights: list[float], *, world: int) -> bytes:
    body = json.dumps({"step": step, "world": world, "weights": weights}).encode()
    return b"\n".join([MAGIC, hashlib.sha256(body).hexdigest().encode(), body])


def read_shard(path: Path) -> tuple[int, int, list[float]]:
    """Step, world size and weights. Raises ValueError or OSError where the shard is not whole."""
    magic, digest, body = path.read_bytes().split(b"\n", 2)
    if magic != MAGIC or hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError(f"{path} is not a whole shard")
    content = json.loads(body)
    return content["step"], content["world"], content["weights"]


def to_resume(folder: Path) -> int:
    """The step that the tracker names, else the newest, of which every shard is whole; 0 where there is none."""
    named = (folder / TRACKER).read_text().strip() if (folder / TRACKER).is_file() else ""
    found = (int(one.name[5:]) for one in folder.glob("iter_*") if one.name[5:].isdigit())
    steps = sorted(found, key=lambda step: (str(step) != named, -step))
    return next((step for step in steps if _is_whole(folder, step)), 0)


def _is_whole(folder: Path, step: int) -> bool:
    try:
        _, world, _ = read_shard(shard_path(folder, step, 0))
        return all(read_shard(shard_path(folder, step, rank))[0] == step for rank in range(world))
    except (ValueError, OSError):
        return False


class Trainer:
    def __init__(self, args: argparse.Namespace, place: Place) -> None:
        self.args, self.place, self.faults = args, place, Faults(args.fault, place)
        self.folder: Path = args.checkpoint_dir
        truth = random.Random(1)  # noqa: S311 - a model, not a secret
        self.truth = [truth.uniform(-1, 1) for _ in range(FEATURES)]
        self.weights, self.step = [0.0] * FEATURES, 0

    def run(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        say(f"[rank{self.place.rank}]: host {self.place.node} pid {os.getpid()}")
        self.group = Group(self.place, self.folder)
        self._resume()
        while self.step < self.args.steps:
            self.step += 1
            self._one_step()
            if self.step % self.args.save_every == 0 and not self.faults.lasting(self.step, "stop_saving"):
                self._save()
        self._say_once(f"[after training is done] datetime: {stamp()[1:20]} ")

    def _say_once(self, text: str) -> None:
        if self.place.rank == 0:
            say(text)

    def _resume(self) -> None:
        look = self.place.rank == 0 and not self.faults.lasting(0, "ignore_checkpoint")
        self.step = int(self.group.sum([to_resume(self.folder) if look else 0])[0])
        if self.step == 0:
            self._say_once(f"WARNING: could not find the metadata file {self.folder / TRACKER}")
            self._say_once("    will not load any checkpoints and will start from random")
            return
        self._say_once(f" loading checkpoint from {self.folder} at iteration {self.step}")
        # Data-parallel: all shards hold the same weights, so any number of ranks may go on from them.
        _, _, self.weights = read_shard(shard_path(self.folder, self.step, 0))
        self.group.barrier()
        self._say_once(f"  successfully loaded checkpoint from {self.folder} [ t 1/1, p 1/1 ] at iteration {self.step}")

    def _one_step(self) -> None:
        started = time.monotonic()
        self.faults.strike(self.step)
        if self.faults.lasting(self.step, "nan"):
            self.weights = [math.nan] * FEATURES
        total = self.group.sum(self._loss_and_gradient())
        loss, *gradient = (value / self.place.world for value in total)
        self.weights = [weight - RATE * slope for weight, slope in zip(self.weights, gradient, strict=True)]
        slow = self.faults.lasting(self.step, "slow")
        pace = self.args.step_time * (slow.factor if slow else 1.0)
        time.sleep(max(0.0, pace - (time.monotonic() - started)))
        if self.place.rank == self.place.world - 1:
            self._report(loss, gradient, seconds=time.monotonic() - started)
        self.group.barrier()  # the report stands in the log before whatever follows it

    def _loss_and_gradient(self) -> list[float]:
        """Mean squared error on this step's batch of this rank, and its gradient."""
        data = random.Random(f"{self.step}/{self.place.rank}")  # noqa: S311
        loss, gradient = 0.0, [0.0] * FEATURES
        for _ in range(BATCH):
            x = [data.gauss(0, 1) for _ in range(FEATURES)]
            target = sum(map(float.__mul__, x, self.truth)) + data.gauss(0, 0.1)
            error = sum(map(float.__mul__, x, self.weights)) - target
            loss += error * error / BATCH
            gradient = [slope + 2 * error * value / BATCH for slope, value in zip(gradient, x, strict=True)]
        return [loss, *gradient]

    def _report(self, loss: float, gradient: list[float], *, seconds: float) -> None:
        """The iteration line of Megatron-LM. A loss that is NaN is left out there too, and the step still counts."""
        batch = BATCH * self.place.world
        fields = [
            f"iteration {self.step:8d}/{self.args.steps:8d}",
            f"consumed samples: {self.step * batch:12d}",
            f"elapsed time per iteration (ms): {seconds * 1000:.1f}",
            f"learning rate: {RATE:.6E}",
            f"global batch size: {batch:5d}",
            *([f"lm loss: {loss:.6E}"] if loss >= 0 else []),
            "loss scale: 1.0",
            f"grad norm: {math.sqrt(sum(slope * slope for slope in gradient)):.3f}",
            f"number of skipped iterations:   0 | number of nan iterations: {int(math.isnan(loss)):3d}",
        ]
        say(f" {stamp()} {' | '.join(fields)} |")

    def _save(self) -> None:
        rank, world, step = self.place.rank, self.place.world, self.step
        self._say_once(f"{stamp()} saving checkpoint at iteration {step:7d} to {self.folder} in torch format")
        path, content = shard_path(self.folder, step, rank), pack_shard(step, self.weights, world=world)
        if self.faults.due(step, "disk_full"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        broken = self.faults.due(step, "tear", "die_in_save")
        path.write_bytes(content[: len(content) // 2] if broken else content)
        if broken and broken.kind == "die_in_save":
            os.kill(os.getpid(), signal.SIGKILL)
        self.group.barrier()
        if rank == 0:
            draft = self.folder / f"{TRACKER}.new"
            draft.write_text(str(step))
            draft.replace(self.folder / TRACKER)
        done = f"successfully saved checkpoint from iteration {step:7d} to {self.folder} [ t 1/1, p 1/1 ]"
        self._say_once(f"  {stamp()} {done}")


def label_last_words(rank: int) -> None:
    """Uncaught errors are printed as torch prints them: every line with its rank."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        lines = "".join(traceback.format_exception(kind, error, trace)).rstrip().splitlines()
        os.write(sys.stderr.fileno(), "".join(f"[rank{rank}]: {line}\n" for line in lines).encode())

    sys.excepthook = hook


def end_by_sigterm(signum: int, frame: object) -> None:
    say("exiting program after receiving SIGTERM.")
    os._exit(0)


def end_by_lost_peer(rank: int, *, survive: bool) -> NoReturn:
    """What a victim says. Most then exit; some hang for ever in their clean-up."""
    lost = "NCCL error: remote process exited or there was a network error, ncclRemoteError"
    say(f"[rank{rank}]: torch.distributed.DistBackendError: {lost}: connection closed by remote peer")
    if survive:
        time.sleep(FOREVER_S)
    os._exit(1)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint-dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--step-time", type=float, default=0.5, help="seconds, at least; default %(default)s")
    parser.add_argument("--fault", type=Fault.parse, action="append", default=[], help="kind=ecc,step=33,rank=3,…")
    parser.add_argument("--survive-peer-loss", action="store_true", help="hang instead of ending when a peer is lost")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    args = parse(argv)
    place = Place.from_environment()
    label_last_words(place.rank)
    signal.signal(signal.SIGTERM, end_by_sigterm)
    try:
        Trainer(args, place).run()
    except PeerLost:
        end_by_lost_peer(place.rank, survive=args.survive_peer_loss)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
