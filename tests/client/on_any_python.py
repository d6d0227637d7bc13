"""What a training script does with the client, on whatever Python runs this. on_any_python.py URL WHAT

Written for Python 3.8, as the client is: test_interpreters.py runs it on every Python it finds, warnings as errors.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import types
import warnings
from pathlib import Path
from typing import Any

import recovery_desk_client as module  # type: ignore[import-not-found]  # lies in PYTHONPATH
from recovery_desk_client import HuggingFaceCallback, RecoveryDesk, lightning_callback

URL, WHAT = sys.argv[1], sys.argv[2]
LOOPED_S = 1.0  # for a thousand rows: ten microseconds each, and much room for a busy machine


def client(job: str, **options: Any) -> RecoveryDesk:
    return RecoveryDesk(**{"url": URL, "job": job, "flush_s": 0.02, **options})


# --- while the training runs: each is a job of its own to the desk ---------------------------------------------------


def trains() -> None:
    for behaviour in (told, refused_for_now, slow, gone, hugging_face, lightning, ranks):
        behaviour()


class Tensor:
    """Counts who reads it."""

    readers: list[str] = []

    def detach(self) -> Tensor:
        return self

    def __float__(self) -> float:
        self.readers.append(threading.current_thread().name)
        return 1.25


def told() -> None:
    """Every call once, with all that a loop may hand it."""
    desk = client("told", restart=2)
    desk.fresh_start()
    desk.progress(1, loss=Tensor(), throughput=900, step_time_s=1.5, tokens=2**40, rank=3)
    desk.progress(2, loss=float("nan"))
    desk.save_started(2, Path("/ckpt"))
    desk.save_durable(2, "/ckpt")
    desk.loaded(2, "/ckpt")
    desk.phase("evaluating")
    with desk:
        try:
            raise RuntimeError("CUDA error")
        except RuntimeError as error:
            desk.failure(error)
        desk.finished()
    assert (desk.sent, desk.dropped, desk.refused) == (9, 0, 0)
    assert Tensor.readers == ["recovery-desk"]


def refused_for_now() -> None:
    """The desk's first answer is 429 with a Retry-After."""
    desk = client("refused_for_now")
    desk.progress(1, loss=2.5)
    assert desk.flush(10)
    assert (desk.sent, desk.refused) == (1, 0)


def slow() -> None:
    """The desk answers when the loop is over, which another client tells it."""
    desk = client("slow")
    began = time.monotonic()
    for step in range(1000):
        desk.progress(step, loss=2.5)
    assert time.monotonic() - began < LOOPED_S
    client("looped").fresh_start()
    assert desk.flush(10)
    assert desk.sent == 1000


def gone() -> None:
    """Nobody listens: the loop goes on, the oldest rows go, and the end waits no longer than it was told."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    desk = client("gone", url=address, queue_rows=100)
    began = time.monotonic()
    for step in range(1000):
        desk.progress(step, loss=2.5)
    assert time.monotonic() - began < LOOPED_S
    desk.close(0.1)
    assert time.monotonic() - began < LOOPED_S + 1.0
    assert desk.sent == 0
    assert desk.dropped >= 1000 - 100 - module.BATCH_ROWS


def hugging_face() -> None:
    callback = HuggingFaceCallback(client("hugging_face"))
    arguments = types.SimpleNamespace(output_dir="/out")
    state = types.SimpleNamespace(global_step=0)
    control = types.SimpleNamespace(should_log=True, should_save=True, should_evaluate=True)
    callback.on_init_end(arguments, state, control)
    callback.on_train_begin(arguments, state, control)
    state.global_step = 8
    callback.on_step_end(arguments, state, control)
    callback.on_log(arguments, state, control, logs={"loss": 1.5})
    callback.on_evaluate(arguments, state, control, metrics={})
    callback.on_save(arguments, state, control)
    callback.on_log(None, None, None, logs={"loss": 1.5})
    callback.on_train_end(arguments, state, control)


def lightning() -> None:
    loaded = types.ModuleType("lightning.pytorch")
    loaded.Callback = type("Callback", (), {})  # type: ignore[attr-defined]
    sys.modules["lightning.pytorch"] = loaded
    callback = lightning_callback(client("lightning"), every_n_steps=2)
    assert isinstance(callback, loaded.Callback)
    trainer = types.SimpleNamespace(global_step=4, checkpoint_callback=types.SimpleNamespace(dirpath="/out"))
    callback.on_train_start(trainer, None)
    for step in (5, 6):
        trainer.global_step = step
        callback.on_train_batch_end(trainer, None, {"loss": 0.5}, None, step)
    callback.on_validation_start(trainer, None)
    callback.on_validation_end(trainer, None)
    callback.on_save_checkpoint(trainer, None, {})
    callback.on_exception(trainer, None, RuntimeError("NCCL error"))
    callback.on_train_end(trainer, None)


def ranks() -> None:
    """As torchrun sets them; the batch script's own number is 0 for all."""
    os.environ["SLURM_PROCID"] = "0"
    for rank in ("0", "1"):
        os.environ["RANK"] = rank
        client("rank_zero").progress(10)
        client("every_rank", ranks="all").progress(20)


# --- how it may end: the last row is not sent before -----------------------------------------------------------------


def last_row() -> RecoveryDesk:
    desk = client(WHAT, flush_s=60.0)
    desk.progress(7)
    return desk


def ends() -> None:
    last_row()


def raises() -> None:
    last_row()
    raise RuntimeError("the end of it")


def exits() -> None:
    last_row()
    sys.exit(3)


def terminated() -> None:
    """SIGTERM, by a script that takes it for a wish to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    last_row()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def forks() -> None:
    """The child's rows are the child's, the parent's are the parent's; later Pythons warn of any thread at a fork."""
    desk = last_row()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        desk.progress(8)
        desk.close()
        os._exit(0)
    os.waitpid(child, 0)


globals()[WHAT]()
