"""Reading a log as bytes gives what reading all its lines gives, one by one, with nobody left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recovery.core import logs
from recovery.core.diagnose import catalogue
from recovery.core.logs import LogParser
from recovery.core.logs.cut import LogBytes, lines_of
from recovery.core.logs.formats import FORMATS
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.own_pattern import own_pattern
from recovery.core.logs.sieve import MOST_SILENT, MOST_WORDS, Readers, Sieve
from recovery.core.types import Signal, SignalKind
from recovery.sources.cursor import Cursor
from recovery.sources.job_logs import read_log
from tests.core.logs.corpus import CASES, FOLDER
from tests.core.logs.test_parser import PIECES, REAL_LINES

OWN = own_pattern(r"upd (?P<step>\d+).*L=(?P<loss>\S+)")
CORPUS = {case: (FOLDER / f"{case}.log").read_bytes() for case in CASES}
LINES = sorted({line for data in CORPUS.values() for line in data.split(b"\n")}) + [
    line.encode("utf-8", "surrogatepass") for line in REAL_LINES
]
MORE = [
    b"\xff\xfe\x00", b"\xe2\x96", b"st\xe2\x80\x8bep 5 loss 2", b"st\x1b[0mep 7 loss 2", b"\x1b7step 9 loss 2", b"",
    b"3: n2", b"3:  n1", b"   ", b"7: [default0]:n2", b"n2:1:2 [0] NCCL INFO comm 0x1 rank 9 nranks 16 cudaDev 1",
    b"the quick brown fox", b"Loading: 5%|#| 5/100 [00:01<00:02, 3it/s]", b"upd 7 then L=2.5", b"UPD 8 L=3",
    b"\t\tat the end", b"RuntimeError: CUDA error: an illegal memory access was encountered", b"rank : 3", b"host : n1",
    b"n1:3:4 [1] NCCL INFO comm 0x7f3ab0 rank 2 nranks 16 cudaDev 0", b"step 1 loss 0xe5",
    b"upd 0x3f 7 then L=0xab", b"upd 0x30 7 then L=0.5", b"step 0x1f loss 2", b"step 0x10 loss 2",
    b"n2:3:4 [1] NCCL INFO comm 0x7f3000 rank 3 nranks 16 cudaDev 0",
    b"x" * 600 + b" iteration 5", b"loss is nan", b"NCCL", b"  rank      : 12 (local_rank: 1)", b"\x9b0mstep 3 loss 1",
]  # fmt: skip
PIECE = st.one_of(
    st.sampled_from([*LINES, *MORE]),
    st.lists(st.sampled_from(PIECES), max_size=8).map(lambda pieces: "".join(pieces).encode("utf-8", "surrogatepass")),
    st.sampled_from(sorted(catalogue.LOG_LITERALS)).map(lambda text: f"x {text} y".encode()),
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")),
)
LOGS = st.lists(st.tuples(PIECE, st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r", b""])), max_size=30).map(
    lambda pieces: b"".join(piece + end for piece, end in pieces)
)


class Everybody(Sieve):
    """A sieve that lets everything through, and remembers nothing."""

    def __init__(self) -> None:
        super().__init__(FORMATS, own=OWN.word)
        self.everyone = Readers(
            formats=tuple(FORMATS), literals=catalogue.LOG_LITERALS, own=True, place=True, growth=True, silent=False,
            bar=None,
        )  # fmt: skip

    def recall(self, raw: str) -> Readers | None:
        return None

    def readers(self, raw: str, cleaned: CleanLine) -> Readers:
        bar = self.everyone if cleaned.before else None
        everyone = self.everyone
        return Readers(
            formats=everyone.formats, literals=everyone.literals, own=True, place=True, growth=True, silent=False,
            bar=bar,
        )  # fmt: skip


EVERYBODY = Everybody()


def slowly(data: bytes, *, own: bool) -> list[Signal]:
    parser = LogParser(nodes=("n1", "n2"), own=OWN if own else None)
    parser._sieve = EVERYBODY
    return [signal for line in lines_of(LogBytes(data=data, file="a")) for signal in parser.feed(line)]


def fast(data: bytes, *, own: bool) -> list[Signal]:
    return LogParser(nodes=("n1", "n2"), own=OWN if own else None).feed_bytes(LogBytes(data=data, file="a"))


@pytest.mark.parametrize("case", CASES)
def test_every_log_of_the_corpus_says_the_same_as_bytes(case: str) -> None:
    for _ in range(2):  # the second time all shapes are known
        assert fast(CORPUS[case], own=False) == slowly(CORPUS[case], own=False)


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("none/")])
def test_a_report_of_several_lines_may_be_cut_by_the_end_of_a_look(case: str) -> None:
    whole, lines = fast(CORPUS[case], own=False), CORPUS[case].split(b"\n")
    for count in range(1, len(lines)):
        before, behind = b"\n".join(lines[:count]) + b"\n", b"\n".join(lines[count:])
        first = LogParser(nodes=("n1", "n2"))
        signals = first.feed_bytes(LogBytes(data=before, file="a"))
        second = LogParser(nodes=("n1", "n2"), memory=json.loads(json.dumps(first.memory)))
        assert signals + second.feed_bytes(LogBytes(data=behind, file="a", offset=len(before), line=count)) == whole


@settings(max_examples=80, deadline=None)
@given(LOGS, st.booleans())
def test_no_mixture_of_lines_says_less_or_more_as_bytes(data: bytes, own: bool) -> None:
    assert fast(data, own=own) == slowly(data, own=own)


@settings(max_examples=25, deadline=None)
@given(st.permutations(LINES), st.integers(10, 60), st.sampled_from([100, 1000, 128 * 1024]))
def test_whole_logs_say_the_same_whatever_is_known_of_their_shapes(lines: list[bytes], count: int, block: int) -> None:
    data = b"\n".join(lines[:count])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "_BLOCK", block)
        assert fast(data, own=True) == slowly(data, own=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=LOGS, cuts=st.lists(st.integers(0, 2000), max_size=4))
def test_it_does_not_matter_at_which_bytes_a_look_ended(data: bytes, cuts: list[int], tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    signals: list[Signal] = []
    memory: dict[str, object] = {}
    cursor = Cursor()
    for cut in [*sorted(cuts), len(data)]:
        path.write_bytes(data[:cut])
        got = read_log(str(path), cursor, roots=[str(tmp_path)], most_lines=None, final=cut >= len(data))
        parser = LogParser(nodes=("n1", "n2"), own=OWN, memory=json.loads(json.dumps(memory)))
        signals += parser.feed_bytes(got.read)
        memory, cursor = parser.memory, replace(got.cursor, line=parser.line)
    progress = [(s.kind, s.line, s.step) for s in signals if s.kind is SignalKind.PROGRESS]
    whole = [(s.kind, s.line, s.step) for s in slowly(data, own=True) if s.kind is SignalKind.PROGRESS]
    if b"\r" not in data:  # of a bar every state counts that was the last when we looked
        assert progress == whole


def test_what_is_remembered_is_bounded() -> None:
    sieve = Sieve(FORMATS)
    words = [f"w{number:x}".translate(str.maketrans("0123456789", "ghijklmnop")).encode() for number in range(60_000)]
    for start in range(0, len(words), 1000):
        sieve.sift(words[start : start + 1000])
        assert len(sieve.passed_over(growing=True)) <= MOST_SILENT + 1
        assert len(sieve._words._known) <= MOST_WORDS
