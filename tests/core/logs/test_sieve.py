"""The sieve only saves work: whoever is not shown a line would have had nothing to say about it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.diagnose import catalogue
from recovery.core.logs import generic
from recovery.core.logs.formats import FORMATS
from recovery.core.logs.lines import clean
from recovery.core.logs.ranks import Place, RankMap
from recovery.core.logs.sieve import LONGEST, MOST_SHAPES, Readers, Sieve
from tests.core.logs.corpus import CASES, lines_of
from tests.core.logs.test_parser import PIECES, REAL_LINES

LITERALS = sorted(catalogue.LOG_LITERALS)
CORPUS = sorted({line.text for case in CASES for line in lines_of(case)}) + REAL_LINES
TEXTS = st.one_of(
    st.sampled_from(CORPUS),
    st.lists(st.sampled_from([*PIECES, *LITERALS]), max_size=8).map("".join),
    st.text(max_size=60),
)
SIEVE = Sieve(FORMATS)
SETTINGS = settings(max_examples=120)


def check(text: str, readers: Readers) -> None:
    line = clean(text)
    for each in FORMATS:
        memory: dict[str, object] = {}
        if each not in readers.formats:
            assert list(each.read(line, memory)) == []
            assert not any(memory.values())
    assert _spans(catalogue.match(line.text, readers.literals)) == _spans(catalogue.match(line.text))
    if not readers.growth:
        assert generic.read(line.text) is None
    if not readers.place:
        ranks: dict[str, object] = {"map": {}, "block": {"host": "n2", "rank": "5"}}
        place = RankMap(ranks, nodes=("n1", "n2")).read(line)
        assert (place, ranks) == (Place(rank=line.rank), {"map": {}, "block": {}})


def _spans(found: list[tuple[catalogue.Rule, re.Match[str]]]) -> list[tuple[str, tuple[int, int]]]:
    return [(rule.id, hit.span()) for rule, hit in found]


@SETTINGS
@given(TEXTS)
def test_who_is_left_out_would_have_had_nothing_to_say(text: str) -> None:
    check(text, SIEVE.readers(text, clean(text)))


@SETTINGS
@given(TEXTS, st.integers(1, 9))
def test_what_is_remembered_of_a_shape_holds_for_other_digits(text: str, digit: int) -> None:
    SIEVE.readers(text, clean(text))
    other = re.sub("[0-9]", str(digit), text)
    readers = SIEVE.recall(other)
    assert readers is not None
    check(other, readers)


ADDRESSES = st.text("0123456789abcdefABCDEF", min_size=1, max_size=16)


@SETTINGS
@given(
    TEXTS,
    st.sampled_from(["{} 0x{}", "0x{1} {0}", "comm 0x{1} rank 3 nranks 4 {0}", "step 0x{1} {0}"]),
    ADDRESSES,
    ADDRESSES,
)
def test_what_is_remembered_of_a_shape_holds_for_other_addresses(text: str, form: str, one: str, other: str) -> None:
    size = min(len(one), len(other))
    first, second = form.format(text, one[:size]), form.format(text, other[:size])
    SIEVE.readers(first, clean(first))
    if len(second) <= LONGEST:
        readers = SIEVE.recall(second)
        assert readers is not None
        check(second, readers)


@pytest.mark.parametrize("own", ["beef at step", "at 0x", "0xdead", "peer 0", "fa"])
def test_a_sites_pattern_is_asked_although_its_text_may_be_part_of_an_address(own: str) -> None:
    text = f"peer 0xdead{own}"
    assert Sieve(FORMATS, own=own).readers(text, clean(text)).own


def test_a_sites_pattern_is_asked_although_its_text_looks_like_an_address() -> None:
    text = "node of 8xAdaG: step 4"
    assert Sieve(FORMATS, own="of 8xAda").readers(text, clean(text)).own


def test_the_memory_of_shapes_is_bounded() -> None:
    sieve = Sieve(FORMATS)
    for number in range(MOST_SHAPES + 10):
        text = "".join("abcdefgh"[int(digit)] for digit in oct(number)[2:])
        sieve.readers(text, clean(text))
    assert sieve.recall("a") is None
    assert sieve.recall(text) is not None
    assert sieve.recall("a" * 10_000) is None
