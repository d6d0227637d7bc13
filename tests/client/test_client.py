"""The single-file client against servers of every mood: the training never waits and never fails."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery.client import recovery_desk_client as module
from recovery.client.recovery_desk_client import HuggingFaceCallback, RecoveryDesk, lightning_callback
from recovery.core.diagnose import catalogue
from recovery.core.pushed import read_row
from tests.client.desk_server import Desk, failing, running_desk

SOURCE = Path(module.__file__).read_text(encoding="utf-8")


@pytest.fixture
def desk() -> Iterator[Desk]:
    with running_desk() as found:
        yield found


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("RECOVERY_DESK_", "SLURM_", "OMPI_", "PMI_")) or name == "RANK":
            monkeypatch.delenv(name)
    monkeypatch.setattr(module, "FIRST_DELAY_S", 0.02)


def client_of(desk: Desk, **options: Any) -> RecoveryDesk:
    return RecoveryDesk(desk.url, "rdp_x_y", job="4711", **{"flush_s": 0.05, "timeout_s": 2.0, **options})


# --- what it sends ---------------------------------------------------------------------------------------------------


def test_rows_arrive_in_order_with_job_and_token(desk: Desk) -> None:
    client = client_of(desk, restart=2)
    for step in range(3):
        client.progress(step, loss=2.5 - step, step_time_s=1.0)
    client.save_durable(2, "/ckpt")
    assert client.flush(10)
    assert [row["kind"] for row in desk.rows] == ["progress"] * 3 + ["save_durable"]
    assert desk.rows[1]["loss"] == 1.5
    assert abs(desk.rows[0]["at"] - time.time()) < 60
    assert (desk.batches[0]["job"], desk.batches[0]["restart"]) == ("4711", 2)
    assert desk.headers[0]["Authorization"] == "Bearer rdp_x_y"
    assert client.sent == 4


def test_job_restart_and_rank_come_from_slurm(desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("rdp_from_file\n")
    for name, value in {
        "RECOVERY_DESK_URL": desk.url, "RECOVERY_DESK_TOKEN_FILE": str(tmp_path / "token"),
        "RECOVERY_DESK_RANKS": "all", "SLURM_JOB_ID": "99", "SLURM_ARRAY_JOB_ID": "90", "SLURM_ARRAY_TASK_ID": "7",
        "SLURM_RESTART_COUNT": "3", "SLURM_PROCID": "5",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    client = RecoveryDesk(flush_s=0.05)
    client.progress(1)
    assert client.flush(10)
    assert (desk.batches[0]["job"], desk.batches[0]["restart"], desk.rows[0]["rank"]) == ("90_7", 3, 5)
    assert desk.headers[0]["Authorization"] == "Bearer rdp_from_file"


def test_only_rank_zero_sends_unless_all_are_asked(desk: Desk) -> None:
    assert not client_of(desk, rank=1).enabled
    assert client_of(desk, rank=0).enabled
    assert client_of(desk, rank=1, ranks="all").enabled


@pytest.mark.parametrize("name", ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"])
def test_what_a_launcher_says_of_the_rank_counts_before_the_batch_scripts(
    name: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv(name, "3")
    assert not client_of(desk).enabled


def test_without_address_or_token_it_does_nothing() -> None:
    before = threading.active_count()
    client = RecoveryDesk()
    client.progress(1)
    client.failure(ValueError("x"))
    client.close()
    assert (client.enabled, client.sent, threading.active_count()) == (False, 0, before)


def test_a_tensor_is_detached_at_once_and_read_in_the_background(desk: Desk) -> None:
    readers: list[str] = []

    class Tensor:
        def __init__(self, graph: bool) -> None:
            self.graph = graph

        def detach(self) -> Tensor:
            return Tensor(False)

        def __float__(self) -> float:
            readers.append(threading.current_thread().name)
            assert not self.graph
            return 1.25

    client = client_of(desk)
    client.progress(1, loss=Tensor(True))
    assert client.flush(10)
    assert desk.rows[0]["loss"] == 1.25
    assert readers == ["recovery-desk"]


def test_what_json_cannot_say_is_said_in_words(desk: Desk) -> None:
    client = client_of(desk)
    client.progress(1, loss=float("nan"))
    assert client.flush(10)
    assert desk.rows[0]["loss"] == "nan"


def test_an_exception_is_told_and_goes_on_its_way(desk: Desk) -> None:
    with pytest.raises(ZeroDivisionError), client_of(desk):
        print(1 / 0)
    assert "ZeroDivisionError: division by zero" in desk.rows[0]["text"]
    assert desk.rows[0]["text"].startswith("Traceback")


def test_it_says_that_it_lives_when_there_is_nothing_to_tell(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.2)
    client = client_of(desk)
    client.progress(1)
    assert desk.wait_for(lambda: any(not batch["rows"] for batch in desk.batches))
    client.close()


# --- bad days --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        failing(500), failing(503), failing(429, **{"Retry-After": "0.1"}), failing(404, "unknown_job"), failing(401),
        (200, {}, b"<html>log in</html>"), (200, {}, b'{"accepted": "many"}'), (200, {}, b"\xff\x00"), (302, {}, b""),
    ],
)  # fmt: skip
def test_what_was_not_taken_is_sent_again_as_it_was(desk: Desk, answer: Any) -> None:
    desk.answers = [answer]
    client = client_of(desk)
    client.progress(7)
    assert desk.wait_for(lambda: len(desk.batches) >= 2)
    assert client.flush(10)
    assert desk.batches[0]["batch"] == desk.batches[1]["batch"]
    assert desk.batches[0]["rows"] == desk.batches[1]["rows"]
    assert client.sent == 1


def test_retry_after_is_honoured(desk: Desk) -> None:
    desk.answers = [failing(429, **{"Retry-After": "0.6"})]
    client = client_of(desk)
    client.progress(1)
    assert desk.wait_for(lambda: len(desk.batches) == 1)
    asked = time.monotonic()
    assert desk.wait_for(lambda: len(desk.batches) == 2)
    assert time.monotonic() - asked > 0.5
    client.close()


def test_a_dead_server_costs_the_training_nothing_and_the_oldest_rows_go() -> None:
    with socket.socket() as probe:  # nobody listens here
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    client = RecoveryDesk(url, "rdp_x_y", job="1", queue_rows=100, flush_s=30.0)
    client._gate.acquire()  # no thread: all that happens is the queue
    for step in range(250):
        client.progress(step)
    assert client.dropped == 150
    assert [row["step"] for row in client._rows] == list(range(150, 250))


def test_a_slow_server_holds_up_neither_the_loop_nor_the_end(desk: Desk) -> None:
    release = threading.Event()

    def slow(batch: dict[str, Any]) -> Any:
        release.wait(20)
        return failing(500)

    desk.answers = [slow] * 20
    client = client_of(desk, timeout_s=0.3)
    began = time.monotonic()
    for step in range(1000):
        client.progress(step)
    looped = time.monotonic() - began
    client.close(timeout_s=0.5)
    ended = time.monotonic() - began
    release.set()
    assert looped < 1.0
    assert ended < 5.0


def test_rows_that_can_never_be_taken_are_counted_and_let_go(desk: Desk) -> None:
    desk.answers = [failing(400)]
    client = client_of(desk)
    client.progress(1)
    assert client.flush(10)
    assert (client.refused, client.sent, len(desk.batches)) == (1, 0, 1)


def test_a_batch_that_is_too_large_is_halved(desk: Desk) -> None:
    desk.answers = [failing(413)]
    client = client_of(desk)
    client._gate.acquire()
    for step in range(10):
        client.progress(step)
    client._gate.release()
    client.progress(10)
    assert client.flush(10)
    assert [len(batch["rows"]) for batch in desk.batches] == [11, 5, 6]
    assert [row["step"] for row in desk.rows[11:]] == list(range(11))


def test_when_the_attempt_is_over_it_stops(desk: Desk) -> None:
    desk.answers = [failing(409, "attempt_over")]
    client = client_of(desk)
    client.progress(1)
    thread = client._thread
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()
    client.progress(2)
    assert (len(desk.batches), client.refused) == (1, 1)


def test_its_own_words_in_the_jobs_log_are_no_failure(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.answers = [failing(500), failing(503), (200, {}, b"")]
    client = client_of(desk)
    client.progress(1)
    assert client.flush(10)
    assert len(caplog.messages) >= 2
    assert not [message for message in caplog.messages if catalogue.match(message)]


def test_no_call_raises_whatever_it_is_given(desk: Desk) -> None:
    client = client_of(desk)

    class Rude:
        def detach(self) -> Any:
            raise RuntimeError("no")

        def __str__(self) -> str:
            raise RuntimeError("no")

    client.progress(Rude(), loss=Rude())  # type: ignore[arg-type]
    client.failure(Rude())
    client.phase(None)  # type: ignore[arg-type]
    client.save_started("x" * 10)  # type: ignore[arg-type]
    client.close(1)


class Counted:
    """A number as NumPy's integers and one-element tensors are: none of Python's own kinds."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return float(self.value)


def test_a_whole_number_arrives_whole_however_the_loop_counts(desk: Desk, tmp_path: Path) -> None:
    client = client_of(desk)
    client.progress(Counted(5), loss=Counted(2.5), tokens=Counted(2**40))  # type: ignore[arg-type]
    client.progress(6.0)  # type: ignore[arg-type]
    client.save_durable(Counted(7), tmp_path)  # type: ignore[arg-type]
    assert client.flush(10)
    taken = [read_row(row, index=0, received_at=timezone.now()) for row in desk.rows]
    assert [row["step"] for row in taken if isinstance(row, dict)] == [5, 6, 7]
    assert (desk.rows[0]["loss"], desk.rows[0]["tokens"]) == (2.5, 2**40)
    assert (desk.rows[2]["path"], client.refused) == (str(tmp_path), 0)


def test_a_number_that_json_cannot_say_costs_its_own_row_and_no_other(desk: Desk) -> None:
    client = client_of(desk)
    client.progress(10**5000)  # more digits than Python writes
    client.progress(2)
    assert client.flush(10)
    assert [row["step"] for row in desk.rows] == [2]
    assert (client.sent, client.refused) == (1, 1)


def test_what_the_desk_refuses_is_told_once_with_its_reason(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    def refusing(batch: dict[str, Any]) -> Any:
        wrong = [{"index": 0, "field": "loss", "message": "Give a number,\n or null."}]
        return 200, {}, json.dumps({"accepted": 0, "again": False, "refused": wrong}).encode()

    unknown = {"error": {"code": "denied", "message": "This token is not known."}}
    desk.answers = [(401, {}, json.dumps(unknown).encode()), refusing, refusing]
    client = client_of(desk)
    for _ in range(2):
        client.progress(1, loss="much")
        assert client.flush(10)
    assert [message.split(": ", 1)[1] for message in caplog.messages] == [
        "the desk answered with status 401: This token is not known.; rows are kept and sent later, the training goes "
        "on.",
        "the desk did not take some rows: loss: Give a number, or null.; the others were taken.",
    ]
    assert client.refused == 2


def test_where_no_thread_can_be_started_a_later_row_starts_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(desk)

    def full(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", full)
        client.progress(1)
    client.progress(2)
    assert client.flush(10)
    assert [row["step"] for row in desk.rows] == [1, 2]


def test_after_a_fork_the_child_sends_its_own_rows_and_no_others(desk: Desk) -> None:
    script = """
import os, sys
from recovery_desk_client import RecoveryDesk
desk = RecoveryDesk(sys.argv[1], "rdp_x_y", job="1", flush_s=30.0)
desk.progress(1)
if os.fork() == 0:
    desk.progress(2)
    desk.close(5)
    os._exit(0)
os.wait()
"""
    run_script(script, desk)
    assert sorted(row["step"] for row in desk.rows) == [1, 2]


def test_the_end_of_the_program_sends_what_is_left(desk: Desk) -> None:
    script = """
import sys
from recovery_desk_client import RecoveryDesk
desk = RecoveryDesk(sys.argv[1], "rdp_x_y", job="1", flush_s=30.0)
for step in range(1200):
    desk.progress(step)
"""
    run_script(script, desk)
    assert [row["step"] for row in desk.rows] == list(range(1200))
    assert max(len(batch["rows"]) for batch in desk.batches) <= module.BATCH_ROWS


def run_script(script: str, desk: Desk) -> None:
    folder = Path(module.__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", script, desk.url],
        env=environment,
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- callbacks -------------------------------------------------------------------------------------------------------


def test_the_trainer_of_hugging_face_tells_what_it_does(desk: Desk) -> None:
    client = client_of(desk)
    callback = HuggingFaceCallback(client)
    arguments, control = SimpleNamespace(output_dir="/out"), SimpleNamespace(should_save=False, should_evaluate=False)
    state = SimpleNamespace(global_step=500)
    callback.on_init_end(arguments, state, control)
    callback.on_train_begin(arguments, state, control, model=None)
    callback.on_log(arguments, state, control, logs={"loss": 1.5, "epoch": 1.0})
    callback.on_log(arguments, state, control, logs={"eval_loss": 1.4})
    control.should_save = True
    callback.on_step_end(arguments, state, control)
    callback.on_save(arguments, state, control)
    control.should_evaluate = True
    callback.on_step_end(arguments, state, control)
    callback.on_evaluate(arguments, state, control, metrics={})
    callback.on_event_of_a_later_release(arguments, state, control)
    callback.on_train_end(arguments, state, control)
    callback.on_log(None, None, None, logs={"loss": 1})  # nonsense is no end of the training either
    assert client.flush(10)
    assert [(row["kind"], row.get("step") or row.get("phase")) for row in desk.rows] == [
        ("loaded", 500), ("progress", 500), ("save_started", 500), ("save_durable", 500), ("phase", "evaluating"),
        ("phase", "training"), ("save_started", 500), ("finished", None),
    ]  # fmt: skip
    assert desk.rows[2]["path"] == "/out"


def test_a_pause_is_told_after_the_report_of_its_step(desk: Desk) -> None:
    """The trainer asks for both in the same hook, and reports first."""
    client = client_of(desk)
    callback = HuggingFaceCallback(client)
    arguments, state = SimpleNamespace(output_dir="/out"), SimpleNamespace(global_step=0)
    control = SimpleNamespace(should_log=True, should_save=True, should_evaluate=True)
    callback.on_train_begin(arguments, state, control)
    state.global_step = 8
    callback.on_step_end(arguments, state, control)
    callback.on_log(arguments, state, control, logs={"loss": 1.5})
    callback.on_evaluate(arguments, state, control, metrics={})
    callback.on_save(arguments, state, control)
    control = SimpleNamespace(should_log=False, should_save=True, should_evaluate=False)
    callback.on_epoch_end(arguments, state, control)
    assert client.flush(10)
    assert [(row["kind"], row.get("step") or row.get("phase")) for row in desk.rows] == [
        ("fresh_start", None), ("progress", 8), ("phase", "evaluating"), ("phase", "training"), ("save_started", 8),
        ("save_durable", 8), ("save_started", 8),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_tells_what_it_does(name: str, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    lightning = ModuleType(name)
    lightning.Callback = type("Callback", (), {"setup": lambda *_: None})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, lightning)
    client = client_of(desk)
    callback = lightning_callback(client, every_n_steps=2)
    assert isinstance(callback, lightning.Callback)
    checkpoints = SimpleNamespace(dirpath="/ckpt")
    trainer = SimpleNamespace(global_step=0, sanity_checking=True, checkpoint_callback=checkpoints)
    callback.setup(trainer, None, "fit")
    callback.on_validation_start(trainer, None)
    callback.on_train_start(trainer, None)
    for step in (1, 2, 3, 4):
        trainer.global_step = step
        callback.on_train_batch_end(trainer, None, {"loss": 0.5}, None, step)
    trainer.sanity_checking = False
    callback.on_validation_start(trainer, None)
    callback.on_validation_end(trainer, None)
    callback.on_save_checkpoint(trainer, None, {})
    callback.on_save_checkpoint(trainer, None, {})  # the second file of the same save: last.ckpt
    callback.on_exception(trainer, None, RuntimeError("NCCL error"))
    callback.on_train_end(trainer, None)
    assert client.flush(10)
    assert [(row["kind"], row.get("step") or row.get("phase")) for row in desk.rows] == [
        ("fresh_start", None), ("progress", 2), ("progress", 4), ("phase", "evaluating"), ("phase", "training"),
        ("save_started", 4), ("failure", None), ("finished", None),
    ]  # fmt: skip


# --- one file for Python 3.8 -----------------------------------------------------------------------------------------


def test_its_syntax_is_that_of_python_3_8() -> None:
    ast.parse(SOURCE, feature_version=(3, 8))


def test_it_needs_nothing_but_the_standard_library_of_3_8() -> None:
    tree = ast.parse(SOURCE)
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)
    assert "from __future__ import annotations" in SOURCE  # X | None and dict[str, Any] stand in annotations alone
    # What came after 3.8 to what is used here: none of these words.
    late = {"removeprefix", "removesuffix", "zip_longest", "pairwise", "batched", "UTC", "is_relative_to", "TaskGroup"}
    assert not late & {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):  # no "X | Y" outside of annotations, no subscript of a builtin
        if isinstance(node, ast.Call):
            for inner in node.args:
                assert not (isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.BitOr))
