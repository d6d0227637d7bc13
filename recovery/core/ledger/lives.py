"""The attempts of a history, put right: what contradicts itself is settled here, once, by fixed rules.

- Nothing starts before it is submitted, or ends before it starts: the submission moves back, the end forward.
- Of several words on one attempt the earliest submission and start, the latest end and the most GPUs hold.
- An attempt has ended when the next attempt of its job starts, whatever else is said of its end; one that never
  started, when the next is submitted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from recovery.core.ledger.history import AttemptSpan
from recovery.core.ledger.spans import to_us
from recovery.core.types import JobState

# A run whose last attempt ended so is over, whatever case is still open on it.
ENDED_WELL = frozenset({JobState.COMPLETED, JobState.CANCELLED, JobState.REVOKED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """One attempt in microseconds; `ended` None: it queues or runs at the ledger's moment."""

    attempt: int
    job: int
    number: int
    submitted: int
    started: int | None
    ended: int | None
    gpus: int
    state: JobState


def lives_of(attempts: tuple[AttemptSpan, ...]) -> list[Life]:
    """By job and number."""
    words: dict[int, list[AttemptSpan]] = defaultdict(list)
    for span in attempts:
        words[span.attempt].append(span)
    lives = [_life(spans) for spans in words.values()]
    lives.sort(key=lambda life: (life.job, life.number, life.attempt), reverse=True)
    starts: dict[int, int] = {}  # by job: when the first of the attempts after this one started
    settled: list[Life] = []
    for life in lives:
        later = settled[-1] if settled and settled[-1].job == life.job else None
        settled.append(_ended_by(life, later, starts.get(life.job)))
        if life.started is not None:
            starts[life.job] = min(life.started, starts.get(life.job, life.started))
    return settled[::-1]


def _life(words: list[AttemptSpan]) -> Life:
    last = max(words, key=lambda span: (span.ended_at is not None, span.ended_at or span.submitted_at, span.state))
    starts = [to_us(span.started_at) for span in words if span.started_at is not None]
    ends = [to_us(span.ended_at) for span in words if span.ended_at is not None]
    started = min(starts, default=None)
    submitted = min([*(to_us(span.submitted_at) for span in words), *starts])
    return Life(
        attempt=last.attempt,
        job=min(span.job for span in words),
        number=min(span.number for span in words),
        submitted=submitted,
        started=started,
        ended=max([submitted if started is None else started, *ends]) if ends else None,
        gpus=max(0, *(span.gpus for span in words)),
        state=last.state,
    )


def _ended_by(life: Life, later: Life | None, next_start: int | None) -> Life:
    if life.started is not None:
        limit = None if next_start is None else max(next_start, life.started)
    else:
        limit = None if later is None else max(later.submitted, life.submitted)
    if limit is None or (life.ended is not None and life.ended <= limit):
        return life
    return replace(life, ended=limit)
