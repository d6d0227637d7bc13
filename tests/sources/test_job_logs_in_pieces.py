"""The lines of a log depend on its bytes alone, not on when and in which pieces they were written and read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.logs import cut
from recovery.core.logs.cut import LogBytes, lines_of
from recovery.core.types import LogLine
from recovery.sources.job_logs import given_out

LIMIT = 8  # short, so that small inputs reach it


@pytest.fixture(autouse=True, scope="module")
def _short_lines() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "LINE_LIMIT", LIMIT)
        yield


def split(data: bytes, ends: list[int], *, window: int = 10_000) -> list[LogLine]:
    """The lines when the file has grown to each of `ends` and is looked at, `window` bytes at a time."""
    lines: list[LogLine] = []
    offset = line = 0
    for end in [*sorted(ends), len(data)]:
        while True:
            upto = min(end, offset + max(window, LIMIT + 2))
            before = data[offset - 1 : offset]
            read = given_out(data[offset:upto], "f", offset=offset, line=line, before=before, final=False)
            lines += lines_of(read)
            offset, line = offset + len(read.data), line + read.data.count(b"\n")
            if upto == end:
                break
    return lines


def last_of_each(lines: list[LogLine]) -> dict[int, LogLine]:
    """A line's last state: of a progress bar the states in between depend on when one looks."""
    return {line.number: line for line in lines}


BYTES = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"\0", b"a", b"bc", b"\xff", b"long enough to be cut", b"\xc3\xa9"]),
    max_size=40,
).map(b"".join)
CUTS = st.lists(st.integers(0, 400), max_size=10)


@given(BYTES.map(lambda data: data.replace(b"\r", b"")), CUTS, st.integers(1, 40))
def test_without_carriage_returns_the_lines_are_the_same_in_any_pieces(
    data: bytes, cuts: list[int], window: int
) -> None:
    assert split(data, [c for c in cuts if c <= len(data)], window=window) == split(data, [])


@given(BYTES, CUTS, st.integers(1, 40))
def test_with_progress_bars_the_last_state_of_each_line_is_the_same(data: bytes, cuts: list[int], window: int) -> None:
    data += b"\n"
    in_pieces = split(data, [c for c in cuts if c <= len(data)], window=window)
    assert last_of_each(in_pieces) == last_of_each(split(data, []))


@given(BYTES, CUTS)
def test_no_line_comes_twice_from_the_same_place(data: bytes, cuts: list[int]) -> None:
    offsets = [line.offset for line in split(data, [c for c in cuts if c <= len(data)])]
    assert len(offsets) == len(set(offsets))
    assert offsets == sorted(offsets)


@given(st.binary(max_size=300))
def test_a_line_is_what_stands_at_its_place(data: bytes) -> None:
    for line in split(data, []):
        raw = data[line.offset : line.offset + LIMIT].split(b"\n")[0].split(b"\r")[0]
        assert line.text.rpartition("\r")[2] == raw.decode("utf-8", "replace")  # a bar may stand before it
        assert line.number == data[: line.offset].count(b"\n") + 1


class Counting(bytes):
    """Bytes that count how many of them are looked at."""

    looked_at = 0

    def find(self, *args: Any) -> int:
        found = super().find(*args)
        end = args[2] if len(args) > 2 else len(self)
        Counting.looked_at += (end if found < 0 else found) - args[1] + 1
        return found

    def rfind(self, *args: Any) -> int:
        found = super().rfind(*args)
        Counting.looked_at += args[2] - max(found, args[1]) + 1
        return found

    def __getitem__(self, key: Any) -> Any:
        piece = super().__getitem__(key)
        Counting.looked_at += len(piece)
        return piece


@pytest.mark.parametrize(
    "piece",
    [
        b"x",
        b"\n",
        b"\r",
        b"x\r",
        b"x\n",
        b"\r\n",
        b" \r",
        b"\0",
        b"x" * 100 + b"\n",
        b"x" * 100 + b"\r",
        b" " * 50 + b"\r",
    ],
)
def test_the_work_is_in_proportion_to_the_bytes(piece: bytes) -> None:
    def work(size: int) -> int:
        Counting.looked_at = 0
        data = Counting(piece * (size // len(piece)))
        assert list(lines_of(LogBytes(data=data, file="f"))) is not None
        return Counting.looked_at

    small, large = work(20_000), work(40_000)
    assert large <= 2.1 * small + 1000
    assert large <= 5 * 40_000
