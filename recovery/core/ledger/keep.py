"""Keeping the ledger of one run (DESIGN, invariant 11: it balances).

The moments of a run are told in three layers, the first that speaks holds: its running attempts (of several the one
that does best, see the order of `Category`); what is queued, and what the cases on it are about; idle.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from recovery.core.ledger.attempts import Seen, by_attempt, queue_pieces, run_pieces
from recovery.core.ledger.cases import Case, cases_of, over_since
from recovery.core.ledger.entries import Category, Entry, Ledger, Tail
from recovery.core.ledger.history import History
from recovery.core.ledger.known import known_by
from recovery.core.ledger.lives import Life, lives_of
from recovery.core.ledger.progress import worked
from recovery.core.ledger.spans import Claim, Piece, flatten, to_datetime, to_us

ORDER = {category: index for index, category in enumerate(Category)}
RUNNING, WAITING, IDLE = 0, 100, 200  # ranks of the three layers

# What is being done for the run comes before its queue: our own requeue waits in it, held, until it is released.
WAITING_ORDER = {Category.ACTING: 0, Category.QUEUE_WAIT: 1, Category.STALLED: 2, Category.DECIDING: 3}


def keep_ledger(history: History, *, now: datetime) -> Ledger:
    """The ledger of a run from its first submission to its end, or to `now` where it isn't over.

    Whatever `history` holds, the entries leave no gap and don't overlap.
    """
    moment = to_us(now)
    history = known_by(history, now)
    lives = lives_of(history.attempts)
    if not lives:
        return Ledger()
    cases = cases_of(history.cases, history.steps, moment)
    over = over_since(lives, cases)
    work = worked(history, lives, now=moment, over=over is not None)
    seen = by_attempt(history, work, cases)
    begin = min(life.submitted for life in lives)
    claims = [claim for life in lives for claim in _life_claims(life, seen.get(life.attempt, Seen()), moment)]
    claims += [claim for case in cases for claim in _case_claims(case)]
    claims.append(Claim(begin, moment + 1, IDLE, Category.IDLE))
    end = moment if over is None else min(over, moment)
    pieces = flatten(claims, begin, moment + 1)
    starts = [life.started for life in lives if life.started is not None]
    return Ledger(
        entries=tuple(_entry(piece, end) for piece in pieces if piece.start < end),
        tail=Tail(category=pieces[-1].label, gpus=pieces[-1].gpus, since=now) if over is None else None,
        first_start=to_datetime(min(starts)) if starts else None,
    )


def extend_ledger(ledger: Ledger, *, now: datetime) -> Ledger:
    """The same ledger later, where nothing happened in between: only the last moments are added."""
    tail = ledger.tail
    if tail is None or now <= tail.since:
        return ledger
    added = Entry(category=tail.category, start=tail.since, end=now, gpus=tail.gpus)
    entries = ledger.entries
    if entries and (entries[-1].category, entries[-1].gpus) == (added.category, added.gpus):
        entries, added = entries[:-1], replace(added, start=entries[-1].start)
    return replace(ledger, entries=(*entries, added), tail=replace(tail, since=now))


def _life_claims(life: Life, seen: Seen, now: int) -> list[Claim[Category]]:
    running = [Claim(p.start, p.end, RUNNING + ORDER[p.label], p.label, life.gpus) for p in run_pieces(life, seen, now)]
    queued = [Claim(p.start, p.end, WAITING + 1, p.label) for p in queue_pieces(life, seen, now)]
    return running + queued


def _case_claims(case: Case) -> list[Claim[Category]]:
    return [
        Claim(since, until, WAITING + WAITING_ORDER[what], what)
        for since, until, what in case.spells
        if what in WAITING_ORDER
    ]


def _entry(piece: Piece[Category], end: int) -> Entry:
    return Entry(
        category=piece.label,
        start=to_datetime(piece.start),
        end=to_datetime(min(piece.end, end)),
        gpus=piece.gpus,
    )
