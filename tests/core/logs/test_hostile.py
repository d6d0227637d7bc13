"""Logs that were written to deceive or to break: they affect at most what is said of their own job."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.logs import LogParser
from recovery.core.logs.cut import LINE_LIMIT, LogBytes, lines_of
from recovery.core.logs.lines import SHOWN_CHARS
from recovery.core.types import Signal, SignalKind
from tests.core.logs.lines import megatron

BLOCK = 4_000_000  # bytes that are read at once


def read(data: bytes) -> list[Signal]:
    return LogParser().feed_bytes(LogBytes(data=data, file="/logs/job.out"))


def failures(text: str) -> list[str]:
    return [signal.rule for signal in read(text.encode()) if signal.kind is SignalKind.FAILURE]


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[2J\x1b[H iteration        5/      10 | consumed samples: 5 | \x1b]0;owned\x07",
        "\x1b]8;;http://evil/\x1b\\RuntimeError: CUDA error: an illegal memory access was encountered\x1b]8;;\x1b\\",
        "<script>alert(1)</script> torch.OutOfMemoryError: CUDA out of memory. <img src=x onerror=alert(1)>",
        "\u202eRuntimeError\u202c: CUDA error: device-side assert triggered",
        "RuntimeError\u200b: CUDA error: device-side assert triggered\x00\x00",
        "step 5 loss 2.5 \x9b31m {{ 7*7 }} ${jndi:ldap://x} '; DROP TABLE jobs; --",
    ],
)
def test_what_is_shown_of_a_line_can_not_act_on_a_terminal_or_hide_its_letters(line: str) -> None:
    for signal in read(f"{line}\n".encode()) + read(f"{megatron(1)} {line}\n".encode()):
        assert signal.text.isprintable()
        assert len(signal.text) <= SHOWN_CHARS
        assert "\x1b" not in signal.text


QUOTED = [
    "print('torch.OutOfMemoryError: CUDA out of memory.')",
    "sample 12: the user wrote: RuntimeError: CUDA error: an illegal memory access was encountered",
    '{"prompt": "Traceback (most recent call last):", "answer": "ValueError: no"}',
    "INFO: retrying after ConnectionResetError: [Errno 104] Connection reset by peer",
    "# slurmstepd: error: *** JOB 4711 ON gpu-01 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***",
    "the docs say: srun: error: gpu-01: task 3: Exited with exit code 1",
    "epoch 3 | example: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.",
]


@pytest.mark.parametrize("line", QUOTED)
def test_a_failure_that_a_job_only_quotes_is_not_the_cause_of_anything(line: str) -> None:
    assert failures(f"{line}\n") == []


def test_a_job_that_imitates_progress_of_another_format_still_reports_only_its_own_steps() -> None:
    signals = read((megatron(5) + "\n" + "note: iteration 99999999999/ 3 | consumed samples: 1 |\n").encode())
    assert [signal.step for signal in signals if signal.kind is SignalKind.PROGRESS] == [5]


def endless() -> Iterator[tuple[str, bytes]]:
    yield "one line without an end", b"x" * BLOCK
    yield "one bar without an end", b"  5%|#| 50/1000 [00:01<00:20, 3.80s/it]\r" * (BLOCK // 40)
    yield "carriage returns", b"\r" * BLOCK
    yield "line ends", b"\n" * 50_000
    yield "blanks and line ends", b" \n" * 50_000
    yield "NULs", b"\0" * BLOCK
    yield "NULs in lines", (b"\0" * 100 + b"\n") * (BLOCK // 101)
    yield "escapes", b"\x1b[0m" * (BLOCK // 4)
    yield "escapes without an end", b"\x1b]" * (BLOCK // 2)
    yield "a CSI without an end", b"\x1b[" + b"0;" * (BLOCK // 2)
    yield "no UTF-8", b"\xff\xfe" * (BLOCK // 2)
    yield "a step without an end", b"step " + b"9" * BLOCK
    yield "prefixes", b"[rank3]: " * (BLOCK // 9)
    yield "labels", b"3: " * (BLOCK // 3)
    yield "percents", b"%|" * (BLOCK // 2)
    yield "braces", b"{'loss': " * (BLOCK // 9)
    yield "half a progress line", b" iteration " * (BLOCK // 11)
    yield "colons and blanks", b"loss :        " * (BLOCK // 14)


@pytest.mark.parametrize(("name", "data"), [pytest.param(*each, id=each[0]) for each in endless()])
def test_no_block_takes_more_memory_than_a_few_of_its_size_or_leaves_much_behind(name: str, data: bytes) -> None:
    parser = LogParser()
    tracemalloc.start()
    try:
        signals = parser.feed_bytes(LogBytes(data=data, file=name))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(data) + 20_000_000
    assert len(signals) <= data.count(b"\n") + 2
    assert len(json.dumps(parser.memory)) < 100_000


def test_a_line_of_a_hundred_megabytes_is_cut_once_and_the_next_is_whole() -> None:
    data = b"y" * 100_000_000 + b"\n" + megatron(7).encode() + b"\n"
    lines = list(lines_of(LogBytes(data=data, file="a")))
    assert [len(line.text) <= LINE_LIMIT for line in lines] == [True, True]
    assert [signal.step for signal in read(data)] == [7]


def test_a_flood_of_new_words_forgets_and_goes_on() -> None:
    parser = LogParser()
    letters = str.maketrans("0123456789", "abcdefghij")
    for start in range(0, 60_000, 20_000):
        words = "\n".join(f"q{number}z some prose".translate(letters) for number in range(start, start + 20_000))
        assert parser.feed_bytes(LogBytes(data=words.encode(), file="a")) == []
    found = parser.feed_bytes(LogBytes(data=megatron(5).encode(), file="a"))
    assert [signal.step for signal in found] == [5]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=20), st.booleans())
def test_no_bytes_at_all_raise(pieces: list[bytes], cut: bool) -> None:
    data = b"\n".join(pieces)
    for signal in LogParser().feed_bytes(LogBytes(data=data, file="a", cut=cut)):
        assert signal.text.isprintable()
        assert 0 <= signal.offset <= len(data)
        assert 1 <= signal.line <= data.count(b"\n") + 1
