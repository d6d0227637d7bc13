"""Whole logs of every format, broken at random: nothing raises, time is that of the length, what is kept is bounded.

Each run takes fresh seeds; a failure names its own. With FUZZ_ROUNDS=5000 in the environment it goes on longer.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from recovery.core import kernel, metrics, pushed
from recovery.core.comment import parse_comment
from recovery.core.diagnose import catalogue
from recovery.core.logs import LogParser
from recovery.core.logs.cut import LogBytes, lines_of
from recovery.core.types import SignalKind
from tests.core.logs.test_bytes import CORPUS

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "40"))
S_PER_MB = 12.0  # of processor time; a busy machine takes 2 for the worst mixtures, what is quadratic takes minutes
MOST_MEMORY = 200_000  # characters of JSON that a parser carries from look to look
EDGES = [
    b"\r", b"\n", b"\r\n", b"\0", b"\x1b[2K", b"\x1b[", b"\xff", b"\xe2\x96\x88", b"%|", b"it/s]", b": ", b"|", b"{",
    b'"', b"nan", b"inf", b"-", b"1e309", b"9" * 50, b" iteration ", b"step", b"[rank", b"rank999999999: ", b"\t", b"}",
    b" " * 300, b"Traceback (most recent call last):\n", b"\xed\xa0\x80", "²".encode(), b"loss: ",
]  # fmt: skip


def broken(dice: random.Random, data: bytes, other: bytes) -> bytes:
    """Up to thirty spans replaced, doubled, left out, or taken from another log."""
    made = bytearray(data)
    for _ in range(dice.randint(1, 30)):
        start = dice.randint(0, len(made))
        end = min(len(made), start + dice.choice((0, 1, 2, 9, 80, 700)))
        there = dice.randint(0, len(other))
        pieces = [dice.choice(EDGES), b"", bytes(made[start:end]) * dice.choice((2, 2, 50))]
        pieces += [dice.randbytes(dice.randint(1, 9)), other[there : there + dice.choice((5, 200))]]
        piece = dice.choice([*pieces, dice.choice(LITERALS).encode()])
        made[start:end] = piece
    return bytes(made[: dice.randint(0, len(made))]) if dice.random() < 0.1 else bytes(made)


LITERALS = sorted(catalogue.LOG_LITERALS)


def rounds() -> list[int]:
    return [secrets.randbits(48) for _ in range(ROUNDS)]


def a_log(seed: int) -> tuple[random.Random, bytes]:
    dice = random.Random(seed)
    names = sorted(CORPUS)
    return dice, broken(dice, CORPUS[dice.choice(names)], CORPUS[dice.choice(names)])


def test_no_broken_log_breaks_the_parser() -> None:
    for seed in rounds():
        dice, data = a_log(seed)
        parser, at, line = LogParser(nodes=("n1", "n2")), 0, 0
        began = time.process_time()
        while at < len(data):
            size = dice.choice((1, 70, 4000, 10**9))
            piece = data[at : at + size]
            for signal in parser.feed_bytes(LogBytes(data=piece, file="a", offset=at, line=line)):
                assert signal.kind in SignalKind, seed
                assert signal.step is None or 0 <= signal.step < 2**63, seed
            at, line = at + size, line + piece.count(b"\n")
            assert parser.line == line, seed
        took = time.process_time() - began
        assert took < S_PER_MB * (len(data) / 1e6 + 0.1), f"seed {seed}: {took:.2f} s for {len(data)} bytes"
        assert len(json.dumps(parser.memory)) < MOST_MEMORY, seed


@pytest.mark.parametrize(
    "many", [b"\r", b"\n", b"a", b"\0", b"%|", b"[rank1]: ", b" iteration 5/ ", b'{"step":', b"\x1b["]
)
def test_one_thing_a_million_times_over_takes_the_time_of_its_length(many: bytes) -> None:
    data = many * (1_000_000 // len(many))
    began = time.process_time()
    parser = LogParser()
    parser.feed_bytes(LogBytes(data=data, file="a"))
    assert time.process_time() - began < S_PER_MB
    assert len(json.dumps(parser.memory)) < MOST_MEMORY


def test_no_broken_line_breaks_the_smaller_parsers() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    for seed in rounds():
        _, data = a_log(seed)
        memory: dict[str, object] = {}
        for line in list(lines_of(LogBytes(data=data, file="a")))[:50]:
            list(metrics.feed(line, memory))
            kernel.read_line(line.text, now=now, zone=ZoneInfo("UTC"))
            parse_comment(line.text)
            pushed.read_row({"step": line.text, "kind": line.text[:9], "at": line.text}, index=0, received_at=now)
