"""Who gets each moment: compared with asking for every single one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.ledger.entries import Category
from recovery.core.ledger.spans import Claim, flatten, to_datetime, to_us
from tests.core.ledger.stories import at

END = 30
TIMES = st.integers(-5, END + 5)
CLAIMS = st.lists(
    st.builds(Claim, TIMES, TIMES, st.integers(0, 3), st.sampled_from(list(Category)[:4]), st.integers(0, 8)),
    max_size=10,
)


@settings(max_examples=60, deadline=None)
@given(CLAIMS)
def test_every_moment_goes_to_the_claim_of_least_rank(claims: list[Claim[Category]]) -> None:
    pieces = flatten(claims, 0, END)
    told = {moment: (p.label, p.gpus) for p in pieces for moment in range(p.start, p.end)}
    for moment in range(END):
        holding = [c for c in claims if c.start <= moment < c.end]
        if not holding:
            assert moment not in told
            continue
        winner = min(holding, key=lambda claim: (claim.rank, claim.label))
        assert told[moment] == (winner.label, sum(c.gpus for c in holding))


@settings(max_examples=60, deadline=None)
@given(CLAIMS)
def test_pieces_are_in_order_and_none_repeats_its_neighbour(claims: list[Claim[Category]]) -> None:
    pieces = flatten(claims, 0, END)
    assert all(piece.start < piece.end for piece in pieces)
    for before, after in pairwise(pieces):
        assert before.end <= after.start
        assert before.end < after.start or (before.label, before.gpus) != (after.label, after.gpus)


@settings(max_examples=60, deadline=None)
@given(st.integers(-(10**15), 10**16))
def test_a_moment_survives_the_way_to_microseconds_and_back(us: int) -> None:
    assert to_us(to_datetime(us)) == us


def test_a_minute_is_sixty_million_microseconds() -> None:
    assert to_us(at(1)) - to_us(at(0)) == 60_000_000
