"""Claims on time, and who gets each moment.

Times are integer microseconds since 1970, so that nothing is ever rounded: a datetime holds no more than that.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Label = TypeVar("Label", bound=StrEnum)


def to_us(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND


def to_datetime(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


class Claim(NamedTuple, Generic[Label]):
    """Something holds from `start` up to `end`; of several claims at one moment that of the least rank wins."""

    start: int
    end: int
    rank: int
    label: Label
    gpus: int = 0


class Piece(NamedTuple, Generic[Label]):
    """What won from `start` up to `end`, with the GPUs of all claims that held then."""

    start: int
    end: int
    label: Label
    gpus: int


def flatten(claims: Iterable[Claim[Label]], begin: int, end: int) -> list[Piece[Label]]:
    """The winners between `begin` and `end`, in order, none overlapping, neighbours that say the same joined.

    Moments that nothing claims are left out. Equal ranks are settled by label, so that the order of `claims` never
    matters. Costs n log n.
    """
    held = [(max(c.start, begin), min(c.end, end), c) for c in claims if max(c.start, begin) < min(c.end, end)]
    held.sort(key=lambda item: item[0])
    change: dict[int, int] = defaultdict(int)  # of the number of GPUs
    for since, until, claim in held:
        change[since] += claim.gpus
        change[until] -= claim.gpus
    pieces: list[Piece[Label]] = []
    waiting: list[tuple[int, Label, int, int]] = []
    position = gpus = 0
    for edge, following in pairwise(sorted(change)):
        gpus += change[edge]
        while position < len(held) and held[position][0] == edge:
            _, until, claim = held[position]
            heapq.heappush(waiting, (claim.rank, claim.label, position, until))
            position += 1
        while waiting and waiting[0][3] <= edge:
            heapq.heappop(waiting)
        if waiting:
            _add(pieces, Piece(edge, following, waiting[0][1], gpus))
    return pieces


def _add(pieces: list[Piece[Label]], piece: Piece[Label]) -> None:
    last = pieces[-1] if pieces else None
    if last is not None and (last.end, last.label, last.gpus) == (piece.start, piece.label, piece.gpus):
        pieces[-1] = last._replace(end=piece.end)
    else:
        pieces.append(piece)
