"""The reference trainer: a small data-parallel program that really trains, and fails when told to.

    srun python3 trainer.py --checkpoint-dir /ckpt/llama --steps 400 --save-every 20 --fault kind=ecc,step=33,rank=3
    python3 trainer.py --local 4 --checkpoint-dir /tmp/ckpt --steps 40    # without Slurm: four processes here

Every rank fits the same linear model on its own data; gradients are summed over TCP on loopback each step (all nodes of
the lab are one host). It writes what Megatron-LM writes: the iteration line by the last rank, save and load lines by
rank 0, checkpoints as iter_0000020/mp_rank_00/model_optim_rng.pt with latest_checkpointed_iteration.txt written last.
It resumes from the newest checkpoint whose shards are all whole. At its start each rank says where it is:
`[rank3]: host n2 pid 4711`. Standard library only: it runs in whatever Python the node has.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import NoReturn

FEATURES, BATCH, RATE = 32, 16, 0.05
TRACKER = "latest_checkpointed_iteration.txt"
SHARD = "model_optim_rng.pt"
MAGIC = b"reference-trainer-1\n"
FOREVER_S = 7 * 24 * 3600
WATCHDOG_S = 2.0  # what a real collective time-out of ten minutes is shortened to
KINDS = (
    "traceback", "segfault", "sigkill", "ecc", "xid", "nccl", "oom_gpu", "disk_full", "hang", "hang_rank", "slow",
    "nan", "tear", "ignore_checkpoint", "stop_saving",
)  # fmt: skip


class PeerLost(Exception):
    """Another rank is gone: its connection ended in the middle of a collective."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong in which iteration, on which rank, attempt and node; None stands for every one."""

    kind: str
    step: int = 0
    rank: int | None = None
    attempt: int | None = None
    node: str | None = None
    factor: float = 3.0  # slow: how many times longer a step takes

    @classmethod
    def parse(cls, text: str) -> Fault:
        """From "kind=ecc,step=33,rank=3". Raises ValueError that names the field."""
        given = dict(part.partition("=")[::2] for part in text.split(","))
        kind = given.pop("kind", "")
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r} is no fault: use one of {', '.join(KINDS)}")
        unknown = set(given) - {"step", "rank", "attempt", "node", "factor"}
        if unknown:
            raise ValueError(
                f"{', '.join(sorted(unknown))} is no field of a fault: use step, rank, attempt, node, factor"
            )
        numbers = {name: int(given[name]) for name in ("step", "rank", "attempt") if name in given}
        return cls(kind=kind, node=given.get("node"), factor=float(given.get("factor", 3.0)), **numbers)


@dataclass(frozen=True)
class Place:
    """Who and where this process is."""

    rank: int
    world: int
    node: str
    attempt: int
    key: str  # of this execution: ranks of one attempt meet under it

    @classmethod
    def from_environment(cls) -> Place:
        env = os.environ
        attempt = int(env.get("SLURM_RESTART_COUNT") or 0)
        return cls(
            rank=int(env.get("SLURM_PROCID", 0)),
            world=int(env.get("SLURM_NTASKS", 1)),
            node=env.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0],
            attempt=attempt,
            key=f"{env.get('SLURM_JOB_ID', 'local')}-{attempt}-{env.get('SLURM_STEP_ID', '0')}",
        )


def say(text: str) -> None:
    """One line in one write, so that the lines of several ranks never mix."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def stamp() -> str:
    return datetime.now(timezone.utc).strftime("[%Y-%m-%d %H:%M:%S.%f]")  # noqa: UP017 - runs on Python before 3.11


# --- collectives ------------------------------------------------------------------------------------------------------


class Group:
    """All ranks, joined in a star around rank 0."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._meeting = folder / f".rendezvous-{place.key}"
        self._peers: list[socket.socket] = []
        if place.world > 1:
            self._gather() if place.rank == 0 else self._join()

    def _gather(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            draft = self._meeting.with_suffix(".new")
            draft.write_text(str(server.getsockname()[1]))
            draft.replace(self._meeting)
            server.settimeout(60)
            found: dict[int, socket.socket] = {}
            while len(found) < self._place.world - 1:
                peer, _ = server.accept()
                found[struct.unpack("!i", _receive(peer, 4))[0]] = peer
        self._peers = [found[rank] for rank in sorted(found)]
        self._meeting.unlink()

    def _join(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                peer = socket.create_connection(("127.0.0.1", int(self._meeting.read_text())), timeout=5)
            except (OSError, ValueError):
                time.sleep(0.05)
                continue
            peer.settimeout(None)
            peer.sendall(struct.pack("!i", self._place.rank))
            self._peers = [peer]
            return
        raise TimeoutError("RendezvousTimeoutError: rank 0 did not appear within 60 s")

    def sum(self, values: list[float]) -> list[float]:
        """The sum over all ranks, on every rank. Raises PeerLost."""
        packed = struct.Struct(f"!{len(values)}d")
        try:
            if self._place.rank:
                self._peers[0].sendall(packed.pack(*values))
                return list(packed.unpack(_receive(self._peers[0], packed.size)))
            for peer in self._peers:
                values = [a + b for a, b in zip(values, packed.unpack(_receive(peer, packed.size)))]  # noqa: B905
            for peer in self._peers:
                peer.sendall(packed.pack(*values))
        except OSError as error:
            raise PeerLost(str(error)) from error
        return values

    def barrier(self) -> None:
        self.sum([0.0])


def _receive(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("connection closed by remote peer")
        data += piece
    return data


# --- checkpoints ------------------------------------------------------------------------------------------------------


def shard_path(folder: Path, step: int, rank: int) -> Path:
    return folder / f"iter_{step:07d}" / f"mp_rank_{rank:02d}" / SHARD


def write_shard(path: Path, step: int, weights: list[float], *, world: int) -> None:
    body = json.dumps({"step": step, "world": world, "weights": weights}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        file.flush()
        os.fsync(file.fileno())


def read_shard(path: Path) -> tuple[int, int, list[float]]:
    """Step, world size and weights. Raises ValueError or OSError where the shard is not whole."""
    magic, digest, body = path.read_bytes().split(b"\n", 2)
    if magic + b"\n" != MAGIC or hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError(f"{path} is not a whole shard")
    content = json.loads(body)
    return content["step"], content["world"], content["weights"]


def newest_whole(folder: Path) -> int:
    """The newest step of which every shard is whole; 0 where there is none."""
    steps = sorted((int(found.name[5:]) for found in folder.glob("iter_*") if found.name[5:].isdigit()), reverse=True)
    return next((step for step in steps if _is_whole(folder, step)), 0)


def _is_whole(folder: Path, step: int) -> bool:
    try:
        _, world, _ = read_shard(shard_path(folder, step, 0))
        return all(read_shard(shard_path(folder, step, rank))[0] == step for rank in range(world))
    except (ValueError, OSError):
        return False


# --- training ---------------------------------------------------------------------------------------------------------


class Trainer:
    def __init__(self, args: argparse.Namespace, place: Place) -> None:
        self.args, self.place = args, place
        self.folder: Path = args.checkpoint_dir
        self.faults: list[Fault] = [fault for fault in args.fault if self._concerns_us(fault)]
        self.data = random.Random(1000 + place.rank)  # noqa: S311 - a model, not a secret
        truth = random.Random(1)  # noqa: S311
        self.truth = [truth.uniform(-1, 1) for _ in range(FEATURES)]
        self.weights = [0.0] * FEATURES
        self.step = 0

    def _concerns_us(self, fault: Fault) -> bool:
        place = self.place
        return fault.attempt in (None, place.attempt) and fault.node in (None, place.node)

    def _due(self, *kinds: str, here: bool = True) -> Fault | None:
        """The fault of one of these kinds that strikes in this iteration (`here`: on this rank)."""
        for fault in self.faults:
            ours = not here or fault.rank is None or fault.rank == self.place.rank
            if ours and fault.kind in kinds and fault.step == self.step:
                return fault
        return None

    def _since(self, kind: str) -> Fault | None:
        """A fault that lasts, once its step has come."""
        return next((fault for fault in self.faults if fault.kind == kind and fault.step <= self.step), None)

    def run(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        say(f"[rank{self.place.rank}]: host {self.place.node} pid {os.getpid()}")
        self.group = Group(self.place, self.folder)
        self._resume()
        while self.step < self.args.steps:
            self.step += 1
            self._one_step()
            if self.step % self.args.save_every == 0 and self._since("stop_saving") is None:
                self._save()
        if self.place.rank == 0:
            say(f"[after training is done] datetime: {datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S}")  # noqa: UP017

    def _resume(self) -> None:
        found = 0
        if self.place.rank == 0 and not any(fault.kind == "ignore_checkpoint" for fault in self.faults):
            found = newest_whole(self.folder)
        self.step = int(self.group.sum([float(found)])[0])
        if self.step == 0:
            if self.place.rank == 0:
                say(f"WARNING: could not find the metadata file {self.folder / TRACKER}")
                say("    will not load any checkpoints and will start from random")
            return
        if self.place.rank == 0:
            say(f" loading checkpoint from {self.folder} at iteration {self.step}")
        _, world, self.weights = read_shard(shard_path(self.folder, self.step, 0))
        self.data.seed(f"{self.place.rank}/{self.step}/{world}")
        self.group.barrier()
        if self.place.rank == 0:
            say(f"  successfully loaded checkpoint from {self.folder} [ t 1/1, p 1/1 ] at iteration {self.step}")

    def _one_step(self) -> None:
        started = time.monotonic()
        self._strike()
        loss, gradient = self._backward()
        total = self.group.sum([loss, *gradient])
        loss, gradient = total[0] / self.place.world, [value / self.place.world for value in total[1:]]
        self.weights = [weight - RATE * slope for weight, slope in zip(self.weights, gradient)]  # noqa: B905
        slow = self._since("slow")
        pace = self.args.step_time * (slow.factor if slow else 1.0)
        time.sleep(max(0.0, pace - (time.monotonic() - started)))
        if self.place.rank == self.place.world - 1:
            self._report(loss, gradient, seconds=time.monotonic() - started)

    def _backward(self) -> tuple[float, list[float]]:
        """Mean squared error and its gradient on a fresh batch."""
        loss, gradient = 0.0, [0.0] * FEATURES
        for _ in range(BATCH):
            x = [self.data.gauss(0, 1) for _ in range(FEATURES)]
            target = sum(a * b for a, b in zip(x, self.truth)) + self.data.gauss(0, 0.1)  # noqa: B905
            error = sum(a * b for a, b in zip(x, self.weights)) - target  # noqa: B905
            loss += error * error / BATCH
            for index, value in enumerate(x):
                gradient[index] += 2 * error * value / BATCH
        return loss, gradient

    def _report(self, loss: float, gradient: list[float], *, seconds: float) -> None:
        """The iteration line of Megatron-LM; with NaN the loss is missing and the step still counts."""
        bad = self._since("nan") is not None
        norm = math.sqrt(sum(value * value for value in gradient))
        tflops = 6e-12 * FEATURES * BATCH * self.place.world / seconds
        fields = [
            f"iteration {self.step:8d}/{self.args.steps:8d}",
            f"consumed samples: {self.step * BATCH * self.place.world:12d}",
            f"elapsed time per iteration (ms): {seconds * 1000:.1f}",
            f"throughput per GPU (TFLOP/s/GPU): {tflops * 1e6:.1f}",
            f"learning rate: {RATE:.6E}",
            f"global batch size: {BATCH * self.place.world:5d}",
            *([] if bad else [f"lm loss: {loss:.6E}"]),
            "loss scale: 1.0",
            f"grad norm: {'nan' if bad else f'{norm:.3f}'}",
            "number of skipped iterations:   0",
            f"number of nan iterations: {int(bad):3d}",
        ]
        say(f" {stamp()} " + " | ".join(fields) + " |")

    def _save(self) -> None:
        rank, world = self.place.rank, self.place.world
        if rank == 0:
            say(f"saving checkpoint at iteration {self.step:7d} to {self.folder} in torch format")
        if self._due("disk_full"):
            raise OSError(28, "No space left on device", str(shard_path(self.folder, self.step, rank)))
        path = shard_path(self.folder, self.step, rank)
        write_shard(path, self.step, self.weights, world=world)
        if self._due("tear"):
            os.truncate(path, 0)  # as after a power loss: the name is there, the content is not
        self.group.barrier()
        if rank == 0:
            draft = self.folder / (TRACKER + ".new")
            draft.write_text(str(self.step))
            draft.replace(self.folder / TRACKER)
            text = f"  {stamp()} successfully saved checkpoint from iteration {self.step:7d} to {self.folder}"
            say(f"{text} [ t 1/1, p 1/1 ]")

    # --- faults -------------------------------------------------------------------------------------------------------

    def _strike(self) -> None:
        for name in ("hang", "hang_rank"):
            if self._due(name):
                time.sleep(FOREVER_S)
        if self._due("nccl", here=False):
            self._lose_a_collective()
        fault = self._due("traceback", "segfault", "sigkill", "ecc", "xid", "oom_gpu")
        if fault is not None:
            self._die(fault.kind)

    def _lose_a_collective(self) -> None:
        """One rank stops without a word; all others report the time-out of the collective they wait in."""
        if self._due("nccl"):
            time.sleep(FOREVER_S)
        time.sleep(WATCHDOG_S)
        say(
            f"[rank{self.place.rank}]:[E ProcessGroupNCCL.cpp:632] [Rank {self.place.rank}] Watchdog caught collective "
            f"operation timeout: WorkNCCL(SeqNum={self.step * 2}, OpType=ALLREDUCE, NumelIn={FEATURES}, "
            f"NumelOut={FEATURES}, Timeout(ms)=600000) ran for 600{self.place.rank:03d} milliseconds before timing out."
        )
        os._exit(1)

    def _die(self, kind: str) -> None:
        if kind in ("segfault", "sigkill"):
            os.kill(os.getpid(), signal.SIGSEGV if kind == "segfault" else signal.SIGKILL)
        if kind == "traceback":
            raise KeyError("tokens")
        if kind == "oom_gpu":
            raise RuntimeError(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of "
                "79.11 GiB of which 1.02 GiB is free."
            )
        if kind == "xid":
            gone = f"NVRM: Xid (PCI:0000:1b:00): 79, pid={os.getpid()}, GPU has fallen off the bus."
            say(f"{self.place.node} kernel: {gone}")
            raise RuntimeError("CUDA error: unspecified launch failure")
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")


def last_words(rank: int) -> None:
    """Uncaught errors are printed as torch prints them: every line with its rank."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = "".join(traceback.format_exception(kind, error, trace))
        sys.stderr.write("".join(f"[rank{rank}]: {line}\n" for line in text.rstrip().splitlines()))
        sys.stderr.flush()

    sys.excepthook = hook


def lose_peer(place: Place, *, survive: bool) -> NoReturn:
    """What a victim prints. Real ones exit; some hang for ever in their clean-up."""
    say(
        f"[rank{place.rank}]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a "
        "network error, ncclRemoteError: connection closed by remote peer"
    )
    if survive:
        time.sleep(FOREVER_S)
    os._exit(1)


def on_sigterm(signum: int, frame: object) -> None:
    say("exiting program after receiving SIGTERM.")
    os._exit(0)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A small trainer that fails when told to.")
    parser.add_argument("--checkpoint-dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--step-time", type=float, default=0.5, help="seconds, at least; default %(default)s")
    parser.add_argument("--fault", type=Fault.parse, action="append", default=[], help="kind=ecc,step=33,rank=3,…")
    parser.add_argument("--survive-peer-loss", action="store_true", help="hang instead of ending when a peer is lost")
    parser.add_argument("--local", type=int, default=0, metavar="RANKS", help="start so many ranks here, without Slurm")
    return parser.parse_args(argv)


def run_locally(args: argparse.Namespace, argv: list[str]) -> int:
    """Start the ranks as processes of this machine; the first bad end ends all, as `srun --kill-on-bad-exit` does."""
    env = {**os.environ, "SLURM_NTASKS": str(args.local), "SLURM_JOB_ID": f"local{os.getpid()}"}
    command = [sys.executable, __file__, *argv, "--local", "0"]
    ranks = [subprocess.Popen(command, env={**env, "SLURM_PROCID": str(r)}) for r in range(args.local)]
    try:
        while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
            time.sleep(0.05)
        if any(rank.poll() for rank in ranks):
            time.sleep(0.5)  # the others notice by themselves, most often
    finally:
        for rank in ranks:
            rank.kill()
    codes = [rank.wait() for rank in ranks]
    return next((code for code in codes if code), 0)


def main(argv: list[str]) -> int:
    args = parse(argv)
    if args.local:
        return run_locally(args, argv)
    place = Place.from_environment()
    last_words(place.rank)
    signal.signal(signal.SIGTERM, on_sigterm)
    try:
        Trainer(args, place).run()
    except PeerLost:
        lose_peer(place, survive=args.survive_peer_loss)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
