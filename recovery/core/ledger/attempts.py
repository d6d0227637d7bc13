"""The time of one attempt: what it did at each moment that it queued or ran.

Several things may be said of one moment; the first of this list that is said holds:

1. what an open case on the attempt says (stalled, deciding, acting, idle);
2. blind: unknown;
3. a load that the trainer dated: restore;
4. the phase, where it isn't training: start-up, saving, evaluating;
5. training that was lost;
6. slowed;
7. training that is kept, or not yet.

What is left is start-up, or unknown where nothing at all was observed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum

from recovery.core.ledger.cases import Case, Timed
from recovery.core.ledger.entries import Category
from recovery.core.ledger.history import BlindSpan, History, PhaseSpan, Restored, SlowSpan, StepSeen
from recovery.core.ledger.lives import Life
from recovery.core.ledger.progress import Worked
from recovery.core.ledger.spans import Claim, Piece, flatten, to_us
from recovery.core.types import Phase

PHASE_CATEGORY: dict[Phase, Category] = {
    Phase.QUEUED: Category.START_UP,  # it runs, and was not looked at yet
    Phase.STARTING: Category.START_UP,
    Phase.FIRST_STEP: Category.START_UP,
    Phase.SAVING: Category.SAVING,
    Phase.EVALUATING: Category.EVALUATING,
    Phase.FINISHING: Category.SAVING,  # after the farewell comes the last save
    Phase.UNKNOWN: Category.UNKNOWN,
}


class _Rank(IntEnum):
    CASE = 0
    BLIND = 1
    RESTORE = 2
    PHASE = 3
    LOST = 4
    SLOWED = 5
    WORK = 6
    TRAINING = 7
    REST = 8


@dataclass(slots=True)
class Seen:
    """What a history says of one attempt."""

    phases: list[PhaseSpan] = field(default_factory=list)
    blind: list[BlindSpan] = field(default_factory=list)
    slow: list[SlowSpan] = field(default_factory=list)
    steps: list[StepSeen] = field(default_factory=list)
    restores: list[Restored] = field(default_factory=list)
    work: list[Worked] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)


def by_attempt(history: History, work: Iterable[Worked], cases: Iterable[Case]) -> dict[int, Seen]:
    seen: dict[int, Seen] = defaultdict(Seen)
    for phase in history.phases:
        seen[phase.attempt].phases.append(phase)
    for blind in history.blind:
        seen[blind.attempt].blind.append(blind)
    for slow in history.slow:
        seen[slow.attempt].slow.append(slow)
    for step in history.steps:
        seen[step.attempt].steps.append(step)
    for restore in history.restores:
        seen[restore.attempt].restores.append(restore)
    for worked in work:
        seen[worked.attempt].work.append(worked)
    for case in cases:
        seen[case.attempt].cases.append(case)
    return seen


def queue_pieces(life: Life, seen: Seen, now: int) -> list[Piece[Category]]:
    """What the attempt's time in the queue went into: a case on the waiting job itself comes before the queue."""
    end = life.started if life.started is not None else life.ended if life.ended is not None else now + 1
    claims = [Claim(life.submitted, end, _Rank.REST, Category.QUEUE_WAIT), *_case_claims(seen)]
    return flatten(claims, life.submitted, end)


def run_pieces(life: Life, seen: Seen, now: int) -> list[Piece[Category]]:
    """What the attempt did from its start to its end, without a gap; nothing where it never started."""
    if life.started is None:
        return []
    end = life.ended if life.ended is not None else now + 1
    claims = [*_case_claims(seen), *_phase_claims(seen, life.started, end, now), *_restore_claims(seen, life)]
    claims += [Claim(a, b, _Rank.BLIND, Category.UNKNOWN) for a, b in _blind_spells(seen, now)]
    claims += [Claim(*_ends(s.start, s.end, now), _Rank.SLOWED, Category.SLOWED) for s in seen.slow]
    for work in seen.work:
        beyond = (_Rank.LOST, Category.LOST) if work.lost else (_Rank.WORK, Category.NOT_YET_KEPT)
        claims.append(Claim(work.start, work.cut, _Rank.WORK, Category.KEPT))
        claims.append(Claim(work.cut, work.end, *beyond))
    observed = seen.phases or seen.work or seen.restores
    claims.append(Claim(life.started, end, _Rank.REST, Category.START_UP if observed else Category.UNKNOWN))
    return flatten(claims, life.started, end)


def _ends(start: datetime, end: datetime | None, now: int) -> tuple[int, int]:
    """A span in microseconds; one that still lasts reaches just beyond `now`."""
    return to_us(start), to_us(end) if end is not None else now + 1


def _case_claims(seen: Seen) -> list[Claim[Category]]:
    spells: list[Timed] = [spell for case in seen.cases for spell in case.spells]
    return [Claim(since, until, _Rank.CASE, what) for since, until, what in spells]


def _phase_claims(seen: Seen, start: int, end: int, now: int) -> Iterator[Claim[Category]]:
    """Of phases that overlap the one that began last holds."""
    spans = [(*_ends(span.start, span.end, now), span.phase) for span in seen.phases]
    claims = [Claim(since, until, -since, phase) for since, until, phase in spans]
    for piece in flatten(claims, start, end):
        if piece.label is Phase.TRAINING:
            yield Claim(piece.start, piece.end, _Rank.TRAINING, Category.NOT_YET_KEPT)
        else:
            yield Claim(piece.start, piece.end, _Rank.PHASE, PHASE_CATEGORY[piece.label])


def _restore_claims(seen: Seen, life: Life) -> Iterator[Claim[Category]]:
    """From the word that it loads until the word that it has. Without the first: from the attempt's start.

    A load after the first step, without the first word, has no beginning that could be told.
    """
    first_step = min((step.at for step in seen.steps), default=None)
    for restore in seen.restores:
        leads = first_step is None or restore.at <= first_step
        began = life.started if leads else None
        if restore.began_at is not None:
            began = to_us(restore.began_at)
        if began is not None and restore.step > 0:
            yield Claim(began, to_us(restore.at), _Rank.RESTORE, Category.RESTORE)


def _blind_spells(seen: Seen, now: int) -> Iterator[tuple[int, int]]:
    """Without what was explained afterwards: once a log can be read again, its samples tell of the time before."""
    moments = sorted(to_us(step.at) for step in seen.steps)
    for span in seen.blind:
        since, until = _ends(span.start, span.end, now)
        before = bisect_left(moments, until)
        yield max(since, moments[before - 1]) if before else since, until
