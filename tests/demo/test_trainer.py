"""The reference trainer, started without Slurm: it trains, saves and resumes, and each fault does what it says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.logs import LogParser
from recovery.core.types import CheckpointState, FailureClass, LogLine, Signal, SignalKind
from recovery.demo import launch
from recovery.demo.processes import wait_until
from recovery.demo.trainer import Fault, read_shard, shard_path, to_resume
from recovery.sources.checkpoints import scan_checkpoints

LAUNCH = launch.__file__
LOSS = re.compile(r"iteration +(\d+)/.*lm loss: ([0-9.E+-]+)")


@dataclass
class Run:
    """One attempt in a folder that others may share."""

    folder: Path
    code: int = 0

    @property
    def text(self) -> str:
        return self.log.read_text()

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def steps(self) -> list[int]:
        return [int(number) for number in re.findall(r"iteration +(\d+)/", self.text)]

    @property
    def losses(self) -> dict[int, str]:
        return {int(step): loss for step, loss in LOSS.findall(self.text)}

    @property
    def signals(self) -> list[Signal]:
        """What the product reads in the log."""
        parser, offset, found = LogParser(), 0, []
        for number, line in enumerate(self.text.splitlines(keepends=True), 1):
            found += parser.feed(LogLine(text=line.rstrip("\n"), file="log", number=number, offset=offset))
            offset += len(line.encode())
        return found

    def kinds(self) -> list[SignalKind]:
        return [signal.kind for signal in self.signals if signal.kind is not SignalKind.PROGRESS]

    @property
    def failure_classes(self) -> set[FailureClass]:
        return {RULES_BY_ID[s.rule].failure_class for s in self.signals if s.kind is SignalKind.FAILURE}

    def checkpoints(self) -> dict[int, CheckpointState]:
        scan = scan_checkpoints(str(self.folder / "ckpt"), roots=[str(self.folder)])
        return {look.step: look.state for look in scan.looks}

    def tracker(self) -> str:
        return (self.folder / "ckpt" / "latest_checkpointed_iteration.txt").read_text()


def command(folder: Path, faults: tuple[str, ...], *, steps: int, ranks: int, nodes: int) -> list[str]:
    words = [sys.executable, LAUNCH, "--ranks", str(ranks), "--nodes", str(nodes), "--steps", str(steps)]
    words += ["--checkpoint-dir", str(folder / "ckpt"), "--save-every", "4", "--step-time", "0.01"]
    return words + [word for fault in faults for word in ("--fault", fault)]


@contextmanager
def started(
    folder: Path,
    *faults: str,
    steps: int = 10,
    ranks: int = 2,
    nodes: int = 1,
    attempt: int = 0,
    options: tuple[str, ...] = (),
) -> Iterator[tuple[Run, subprocess.Popen[bytes]]]:
    """A running attempt, in a process group of its own that ends with the block."""
    run = Run(folder)
    env = os.environ | ({"SLURM_RESTART_COUNT": str(attempt)} if attempt else {})
    words = [*command(folder, faults, steps=steps, ranks=ranks, nodes=nodes), *options]
    with (
        run.log.open("wb") as log,
        subprocess.Popen(words, stdout=log, stderr=log, env=env, start_new_session=True) as process,
    ):
        try:
            yield run, process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def train(folder: Path, *faults: str, steps: int = 10, ranks: int = 2, nodes: int = 1, attempt: int = 0) -> Run:
    """One attempt to its end."""
    with started(folder, *faults, steps=steps, ranks=ranks, nodes=nodes, attempt=attempt) as (run, process):
        run.code = process.wait(timeout=60)
    return run


# --- health ----------------------------------------------------------------------------------------------------------


def test_it_trains_saves_and_says_so_as_megatron_does(tmp_path: Path) -> None:
    run = train(tmp_path, steps=10, ranks=3)
    assert run.code == 0
    assert run.steps[-1] == 10
    saves = [SignalKind.SAVE_STARTED, SignalKind.SAVE_DURABLE]
    assert run.kinds() == [SignalKind.FRESH_START, *saves, *saves, SignalKind.FINISHED]
    progress = [signal for signal in run.signals if signal.kind is SignalKind.PROGRESS]
    assert [signal.step for signal in progress] == list(range(1, 11))
    assert all(signal.loss is not None and signal.step_time_s and signal.at for signal in progress)
    assert run.checkpoints() == {4: CheckpointState.COMPLETE, 8: CheckpointState.COMPLETE}
    assert run.tracker() == "8"


def test_it_really_learns(tmp_path: Path) -> None:
    losses = train(tmp_path, steps=60).losses
    assert float(losses[60]) < float(losses[1]) / 20


def test_every_rank_says_where_it_is(tmp_path: Path) -> None:
    text = train(tmp_path, steps=1, ranks=4, nodes=2).text
    places = dict(re.findall(r"\[rank(\d)\]: host (n\d) pid \d+", text))
    assert places == {"0": "n1", "1": "n1", "2": "n2", "3": "n2"}


def test_it_goes_on_from_its_checkpoint_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    uninterrupted = train(whole, steps=12)
    train(parts, steps=10)
    resumed = train(parts, steps=12, attempt=1)
    assert (resumed.steps, resumed.code) == ([9, 10, 11, 12], 0)
    (loaded,) = [signal for signal in resumed.signals if signal.kind is SignalKind.LOADED]
    assert loaded.step == 8
    assert {step: uninterrupted.losses[step] for step in resumed.losses} == resumed.losses


def test_another_number_of_ranks_may_go_on(tmp_path: Path) -> None:
    train(tmp_path, steps=4, ranks=3)
    resumed = train(tmp_path, steps=6, ranks=2, attempt=1)
    assert resumed.steps == [5, 6]


def test_shards_hold_the_weights_of_every_rank(tmp_path: Path) -> None:
    train(tmp_path, steps=4, ranks=3)
    shards = [read_shard(shard_path(tmp_path / "ckpt", 4, rank)) for rank in range(3)]
    assert {(step, world) for step, world, _ in shards} == {(4, 3)}
    assert any(weight for _, _, weights in shards for weight in weights)


def test_it_ends_on_sigterm_with_a_word(tmp_path: Path) -> None:
    with started(tmp_path, steps=10_000) as (run, process):
        assert wait_until(lambda: "iteration" in run.text, timeout_s=20)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=20)
        # the ranks end by themselves, perhaps after the launcher
        assert wait_until(lambda: "exiting program after receiving SIGTERM." in run.text, timeout_s=20)


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "words", "failure_class"),
    [
        ("traceback", "[rank1]: KeyError: 'tokens'", FailureClass.USER_CODE),
        ("ecc", "[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered", FailureClass.GPU_HARDWARE),
        ("xid", "n2 kernel: NVRM: Xid (PCI:0000:1b:00): 79", FailureClass.GPU_HARDWARE),
        ("oom_gpu", "[rank1]: torch.OutOfMemoryError: CUDA out of memory.", FailureClass.GPU_OOM),
        ("disk_full", "[rank1]: OSError: [Errno 28] No space left on device", FailureClass.STORAGE_FULL),
    ],
)
def test_a_rank_dies_with_the_words_of_its_fault_and_takes_the_others_with_it(
    tmp_path: Path, kind: str, words: str, failure_class: FailureClass
) -> None:
    run = train(tmp_path, f"kind={kind},step=8,rank=1", ranks=2, nodes=2)
    assert run.code == 1
    assert words in run.text
    assert failure_class in run.failure_classes
    assert "[rank0]: torch.distributed.DistBackendError: NCCL error: remote process exited" in run.text
    assert max(run.steps) <= 8
    assert to_resume(tmp_path / "ckpt") == 4


@pytest.mark.parametrize(("kind", "number"), [("segfault", signal.SIGSEGV), ("sigkill", signal.SIGKILL)])
def test_a_rank_that_a_signal_ends_says_nothing_itself(tmp_path: Path, kind: str, number: int) -> None:
    run = train(tmp_path, f"kind={kind},step=6,rank=0", ranks=2)
    assert run.code == 256 - number  # what a shell shows of a negative exit
    assert run.steps == [1, 2, 3, 4, 5]
    assert "[rank0]: Traceback" not in run.text
    assert "[rank1]: torch.distributed.DistBackendError" in run.text


def test_who_waits_in_a_collective_reports_the_time_out_and_the_culprit_is_silent(tmp_path: Path) -> None:
    run = train(tmp_path, "kind=nccl,step=6,rank=2", ranks=3)
    assert run.code == 1
    reports = re.findall(r"\[Rank (\d)\] Watchdog caught collective operation timeout", run.text)
    assert sorted(reports) == ["0", "1"]
    assert max(run.steps) == 5


def test_a_collective_lost_on_one_node_is_reported_from_the_other(tmp_path: Path) -> None:
    run = train(tmp_path, "kind=nccl,step=3,node=n2", ranks=2, nodes=2)
    assert re.findall(r"\[Rank (\d)\] Watchdog caught", run.text) == ["0"]


@pytest.mark.parametrize("fault", ["kind=hang,step=6", "kind=hang_rank,step=6,rank=1"])
def test_a_hang_is_silent_and_stays(tmp_path: Path, fault: str) -> None:
    with started(tmp_path, fault) as (run, process):
        assert wait_until(lambda: 5 in run.steps, timeout_s=20)
        assert not wait_until(lambda: process.poll() is not None or 6 in run.steps, timeout_s=0.7)
    assert not run.failure_classes


def test_a_victim_may_hang_instead_of_ending(tmp_path: Path) -> None:
    with started(tmp_path, "kind=sigkill,step=3,rank=1", options=("--survive-peer-loss",)) as (run, process):
        assert wait_until(lambda: "remote process exited" in run.text, timeout_s=20)
        assert not wait_until(lambda: process.poll() is not None, timeout_s=0.7)


def test_a_slow_step_takes_longer_from_its_step_on(tmp_path: Path) -> None:
    run = train(tmp_path, "kind=slow,step=6,rank=1,factor=20", steps=8)
    times = {signal.step: signal.step_time_s or 0 for signal in run.signals if signal.kind is SignalKind.PROGRESS}
    assert min(times[step] for step in (6, 7, 8)) >= 0.2
    assert min(times[step] for step in range(1, 6)) < 0.2


def test_nan_takes_the_loss_off_the_line_while_steps_go_on(tmp_path: Path) -> None:
    run = train(tmp_path, "kind=nan,step=6", steps=8)
    assert run.steps == list(range(1, 9))
    assert max(run.losses) == 5
    assert "grad norm: nan" in run.text
    assert "number of nan iterations:   1 |" in run.text


def test_a_torn_checkpoint_is_named_by_the_tracker_and_not_resumed_from(tmp_path: Path) -> None:
    run = train(tmp_path, "kind=tear,step=8,rank=1,attempt=0")
    assert (run.code, run.tracker()) == (0, "8")
    assert "successfully saved checkpoint from iteration       8" in run.text
    again = train(tmp_path, "kind=tear,step=8,rank=1,attempt=0", attempt=1)
    assert again.steps[0] == 5
    assert to_resume(tmp_path / "ckpt") == 8  # saved whole this time


def test_a_death_in_the_middle_of_a_save_leaves_the_tracker_behind(tmp_path: Path) -> None:
    run = train(tmp_path, "kind=die_in_save,step=8,rank=1")
    assert run.code != 0
    assert run.tracker() == "4"
    assert "successfully saved checkpoint from iteration       8" not in run.text
    assert run.checkpoints()[4] is CheckpointState.COMPLETE
    assert run.checkpoints().get(8) is not CheckpointState.COMPLETE
    assert to_resume(tmp_path / "ckpt") == 4


def test_an_ignored_checkpoint_is_a_fresh_start_that_says_so(tmp_path: Path) -> None:
    train(tmp_path, steps=8)
    run = train(tmp_path, "kind=ignore_checkpoint,attempt=1", steps=3, attempt=1)
    assert run.steps == [1, 2, 3]
    assert SignalKind.FRESH_START in run.kinds()
    assert SignalKind.LOADED not in run.kinds()


def test_saving_stops_and_steps_go_on(tmp_path: Path) -> None:
    run = train(tmp_path, "kind=stop_saving,step=5", steps=10)
    assert (run.steps[-1], run.tracker()) == (10, "4")


@pytest.mark.parametrize("where", ["attempt=1", "node=n9", "rank=7", "step=99"])
def test_a_fault_strikes_only_where_it_was_meant_to(tmp_path: Path, where: str) -> None:
    fault = f"kind=sigkill,{where}" if where.startswith("step") else f"kind=sigkill,step=3,{where}"
    assert train(tmp_path, fault, steps=5).code == 0


# --- arguments -------------------------------------------------------------------------------------------------------


def test_a_fault_is_read_from_words() -> None:
    fault = Fault.parse("kind=slow,step=30,rank=3,attempt=0,node=n2,factor=4.5")
    assert fault == Fault(kind="slow", step=30, rank=3, attempt=0, node="n2", factor=4.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind=boom", "use one of traceback"),
        ("step=3", "use one of traceback"),
        ("kind=ecc,when=3", "a fault has kind, step"),
        ("kind=hang_rank,step=3", "give rank or node"),
        ("kind=ecc,step=x", "invalid"),
    ],
)
def test_a_wrong_fault_is_refused_with_a_remedy(tmp_path: Path, text: str, words: str) -> None:
    trainer = str(launch.TRAINER)
    done = subprocess.run(
        [sys.executable, trainer, "--checkpoint-dir", str(tmp_path), "--fault", text], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert words in done.stderr.decode()


def test_a_shard_that_is_not_whole_is_told(tmp_path: Path) -> None:
    train(tmp_path, steps=4)
    path = shard_path(tmp_path / "ckpt", 4, 0)
    body = json.loads(path.read_bytes().split(b"\n", 2)[2])
    assert body["step"] == 4
    path.write_bytes(path.read_bytes().replace(b'"step": 4', b'"step": 5'))
    with pytest.raises(ValueError, match="not a whole shard"):
        read_shard(path)
    assert to_resume(tmp_path / "ckpt") == 0
