"""Errors that a Python traceback shows beside the one that ended the process.

Of a chain (`During handling of the above exception, another exception occurred`) the first error may have been handled
all right, and the second is what went wrong; but where the first says something definite (a GPU's memory error) the
second is only its clean-up. An error of a thread or of a destructor ends nobody else.

PyTorch marks with its rank what nobody caught. In a file that holds such an error of the code, a traceback without the
mark is one that the job caught and logged before: a read that was tried again, say.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from recovery.core.diagnose.clues import STRONG, Clue

ONE_TRACEBACK = 300  # lines within which a heading and its error belong together


def without_bystanders(causes: Sequence[Clue], confirmations: Sequence[Clue]) -> list[Clue]:
    """`causes` without those errors that need not have ended the process, where another cause is there.

    Of chains and threads only errors that no exact rule knows (fallback rules) are left out.
    """
    headings = [c for c in confirmations if c.rule.id in ("python.chained", "python.aside")]
    tracebacks = [c for c in confirmations if c.rule.id == "python.traceback"]
    bystanders = {*_bystanders(causes, headings), *_caught(causes, tracebacks)}
    return [c for c in causes if c not in bystanders] or list(causes)


def _bystanders(causes: Sequence[Clue], headings: Sequence[Clue]) -> Iterator[Clue]:
    for heading in headings:
        near = [c for c in causes if c.rule.fallback and _same_stream(c, heading)]
        if heading.rule.id == "python.aside":
            yield from [c for c in near if 0 < _lines(heading, c) <= ONE_TRACEBACK][:1]
        elif any(0 < _lines(heading, c) <= ONE_TRACEBACK and _same_stream(c, heading) for c in causes):
            yield from [c for c in near if 0 < _lines(c, heading) <= ONE_TRACEBACK][-1:]


def _caught(causes: Sequence[Clue], tracebacks: Sequence[Clue]) -> Iterator[Clue]:
    """What may pass by itself, without a rank, before an error with one; hardware that is surely broken may not."""
    uncaught = {c.source: _line(c) for c in causes if c.rule.id == "python.user_error" and c.evidence.rank is not None}
    headings: dict[str, list[int]] = {source: [] for source in uncaught}  # by file; lines, in order
    for heading in tracebacks:
        if heading.evidence.rank is None and heading.source in headings:
            headings[heading.source].append(_line(heading))
    for clue in causes:
        if clue.rule.confidence >= STRONG or clue.evidence.rank is not None or clue.source not in uncaught:
            continue
        lines, line = headings[clue.source], _line(clue)
        before = bisect_left(lines, line)
        if line < uncaught[clue.source] and before and line - lines[before - 1] <= ONE_TRACEBACK:
            yield clue


def _line(clue: Clue) -> int:
    return clue.evidence.line or 0


def _same_stream(one: Clue, other: Clue) -> bool:
    return one.source == other.source and one.evidence.rank == other.evidence.rank


def _lines(first: Clue, then: Clue) -> int:
    """How many lines `then` stands after `first`; negative where it stands before."""
    return _line(then) - _line(first)
