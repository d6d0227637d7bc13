"""The parser as a whole: several formats in one log, reading on later, and hostile input."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recovery.core.logs import LogParser
from recovery.core.logs.cut import LogBytes
from recovery.core.logs.lines import MAX_RANK, MAX_STEP, SHOWN_CHARS
from recovery.core.types import LogLine, Signal, SignalKind
from tests.core.logs.lines import log_line, megatron, numbered, signals_of

REAL_LINES = [
    *(megatron(n) for n in (1, 2, 3)),
    megatron(4, loss=""),
    "[rank3]: host n2 pid 4711",
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory.",
    "WARNING: could not find the metadata file /ckpt/run/latest_checkpointed_iteration.txt",
    "    will not load any checkpoints and will start from random",
    "saving checkpoint at iteration 4 to /ckpt/run",
    "  host      : n2",
    "  rank      : 5 (local_rank: 1)",
    "  exitcode  : -9 (pid: 1233)",
    *(f"step {n} loss 2.5" for n in (10, 20, 30, 10, 20)),
    *(f"step {n}" for n in (1, 2, 3, 4)),
    *(f" 5%|▌ | {n}/1000 [03:10<1:00:12, 3.80s/it]" for n in (1, 2, 3)),
    "Traceback (most recent call last):",
    "Killed",
]


def test_the_real_lines_of_a_job_with_several_formats_are_all_seen() -> None:
    kinds = {signal.kind for signal in signals_of(*REAL_LINES)}
    assert kinds == {SignalKind.PROGRESS, SignalKind.FAILURE, SignalKind.FRESH_START, SignalKind.SAVE_STARTED}


def test_a_signal_tells_where_its_line_stands() -> None:
    line = LogLine(text=megatron(5), file="/logs/a.out", number=77, offset=12345)
    (signal,) = LogParser().feed(line)
    assert (signal.file, signal.line, signal.offset) == ("/logs/a.out", 77, 12345)


def test_a_progress_line_can_report_a_failure_as_well() -> None:
    kinds = [s.kind for s in signals_of(megatron(5, nans=1))]
    assert kinds == [SignalKind.PROGRESS, SignalKind.FAILURE]


def test_a_failure_that_names_its_rank_and_node_is_taken_at_its_word() -> None:
    text = "srun: error: n2: task 5: Exited with exit code 1"
    (signal,) = [s for s in signals_of(text) if s.kind is SignalKind.FAILURE][:1]
    assert signal.node == "n2"


def test_what_a_failure_names_is_still_checked_against_the_attempts_nodes() -> None:
    text = "srun: error: n9: task 5: Exited with exit code 1"
    signals = signals_of(text, parser=LogParser(nodes=("n1", "n2")))
    assert {s.node for s in signals} <= {""}


def _on(lines: list[LogLine], cut: int) -> list[Signal]:
    """Feed up to `cut`, store the memory as JSON, and go on in a new parser."""
    first = LogParser()
    signals = [s for line in lines[:cut] for s in first.feed(line)]
    second = LogParser(memory=json.loads(json.dumps(first.memory)))
    return signals + [s for line in lines[cut:] for s in second.feed(line)]


@pytest.mark.parametrize("cut", range(len(REAL_LINES) + 1))
def test_reading_can_stop_after_any_line_and_go_on_in_another_process(cut: int) -> None:
    lines = numbered(REAL_LINES)
    assert _on(lines, cut) == _on(lines, len(lines))


@given(st.lists(st.sampled_from(REAL_LINES), max_size=40), st.integers(0, 40))
def test_no_mixture_of_lines_depends_on_where_reading_stopped(texts: list[str], cut: int) -> None:
    lines = numbered(texts)
    assert _on(lines, cut) == _on(lines, len(lines))


PIECES = [
    "step ", "iteration ", "1", "9" * 30, "/", "|", ":", "=", " ", "loss", "nan", "inf", "[", "]", "rank", "host ",
    "n2", " pid ", "\x1b[", "\x1b]", "\r", "\0", "%|", "it/s", "s/it", "consumed samples:", "elapsed time per",
    "successfully loaded checkpoint from ", " at iteration ", "successfully saved checkpoint from iteration ", " to ",
    "saving checkpoint at iteration ", "exiting program after ", "2026-02-30 25:61:61", "[default0]:", "[rank3]:",
    "12: ", "  rank : 9", "  host : x", "NCCL INFO", ":1:2 [0] NCCL ", "e999", "-", ".", "\u202e", "\ud800", "é", "١",
    "step=", ", skipped=0, lr=[", "/global_step=", "num_updates=", "train_inner | epoch 1: ", "[batch=", "]:",
    "  Train loss/train/total: ", "Train time/batch: ", "[step=", ",epoch=1,eta=2d]", "    train/CE loss=", "[token=",
    "Epoch 1: 5%|█| ", " [00:01<00:02, 3it/s, v_num=1]", "1|2|Loss: ", "{'loss': ", ", 'epoch': 1}", "iter ",
    "Total optimization steps = ", "samples/sec: 1 | iteration ", "completed step: ", ", seconds: ", "global_step: ",
    "reduced_train_loss: ", ": loss 3, time 1ms", "Loading the checkpoint from /c/step-",
    "Finished loading the checkpoint in ",
]  # fmt: skip


@given(
    st.lists(st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES), max_size=14).map("".join)), max_size=12)
)
@example([" iteration 99999999999/1 | consumed samples: 1 |", "step ١٢ loss 2", "step ١٣ loss 2"])
def test_whatever_a_job_prints_the_parser_answers_with_sound_values(texts: list[str]) -> None:
    for signal in signals_of(*texts):
        assert signal.step is None or 0 <= signal.step <= MAX_STEP
        assert signal.rank is None or 0 <= signal.rank <= MAX_RANK
        assert len(signal.text) <= SHOWN_CHARS
        assert signal.text.isprintable()
        assert signal.path.isprintable()
        assert signal.node.isprintable()
        for number in (signal.loss, signal.throughput, signal.step_time_s):
            assert number is None or math.isfinite(number)
        if signal.kind is SignalKind.PROGRESS:
            assert signal.step is not None


@given(st.binary(max_size=400))
def test_binary_garbage_is_no_signal_and_no_error(garbage: bytes) -> None:
    LogParser().feed(log_line(garbage.decode("utf-8", "replace")))


def test_memory_stays_small_whatever_is_printed() -> None:
    parser = LogParser()
    for n in range(6000):
        parser.feed(log_line(f"{n % 997}: step {n}/{n + 100} loss 2 {'x' * 500}"))
        parser.feed(log_line(f"[rank{n}]: host {'h' * 70}{n} pid 1"))
    assert len(json.dumps(parser.memory)) < 500_000


def test_the_place_of_a_rank_can_be_asked_for() -> None:
    parser = LogParser(nodes=("n1", "n2"))
    signals_of("[rank3]: host n2 pid 4711", parser=parser)
    assert (parser.node_of(3), parser.node_of(4), parser.node_of(None)) == ("n2", "", "")


def test_a_failure_that_names_its_rank_stands_on_that_ranks_node() -> None:
    said = "[rank3]: host n2 pid 4711"
    boom = "0: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran for 600"
    failures = [s for s in signals_of(said, boom) if s.kind is SignalKind.FAILURE]
    assert {(s.rank, s.node) for s in failures} == {(3, "n2")}


MEGATRON = " iteration 20/ 100 | consumed samples: 320 | elapsed time per iteration (ms): 250.0 | lm loss: 2.5E+00 |"
TITAN = "[titan] 2026-01-11 14:20:03,000 - root - INFO - step:  7  loss:  2.5000  memory:  1.00GiB(1.00%)  tps: 1,000"


def steps_of(parser: LogParser, texts: list[str]) -> list[int | None]:
    data = "".join(text + "\n" for text in texts * 3).encode()
    by_bytes = parser.feed_bytes(LogBytes(data=data, file="x.out"))
    return sorted({signal.step for signal in by_bytes if signal.kind is SignalKind.PROGRESS}, key=str)


@pytest.mark.parametrize(
    ("only", "steps"), [("", [20, 7]), ("megatron", [20]), ("torchtitan", [7]), ("nemo", []), ("own", [])]
)
def test_progress_is_believed_of_the_one_format_that_the_job_names(only: str, steps: list[int]) -> None:
    assert steps_of(LogParser(only=only), [MEGATRON, TITAN]) == steps


def test_a_failure_is_read_whatever_format_the_job_names() -> None:
    line = log_line("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert [signal.kind for signal in LogParser(only="nemo").feed(line)] == [SignalKind.FAILURE]
