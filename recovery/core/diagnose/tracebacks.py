"""Errors that a Python traceback shows beside the one that ended the process.

Of a chain (`During handling of the above exception, another exception occurred`) the first error may have been handled
all right, and the second is what went wrong; but where the first says something definite (a GPU's memory error) the
second is only its clean-up. An error of a thread or of a destructor ends nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.core.diagnose.clues import Clue

ONE_TRACEBACK = 300  # lines within which a heading and its error belong together


def without_bystanders(causes: Sequence[Clue], confirmations: Sequence[Clue]) -> list[Clue]:
    """`causes` without those errors that need not have ended the process, where another cause is there.

    Only errors that no exact rule knows (fallback rules) are left out.
    """
    headings = [c for c in confirmations if c.rule.id in ("python.chained", "python.aside")]
    if not headings:
        return list(causes)
    bystanders = set(_bystanders(causes, headings))
    return [c for c in causes if c not in bystanders] or list(causes)


def _bystanders(causes: Sequence[Clue], headings: Sequence[Clue]) -> Iterator[Clue]:
    for heading in headings:
        near = [c for c in causes if c.rule.fallback and _same_stream(c, heading)]
        if heading.rule.id == "python.aside":
            yield from [c for c in near if 0 < _lines(heading, c) <= ONE_TRACEBACK][:1]
        elif any(0 < _lines(heading, c) <= ONE_TRACEBACK and _same_stream(c, heading) for c in causes):
            yield from [c for c in near if 0 < _lines(c, heading) <= ONE_TRACEBACK][-1:]


def _same_stream(one: Clue, other: Clue) -> bool:
    return one.source == other.source and one.evidence.rank == other.evidence.rank


def _lines(first: Clue, then: Clue) -> int:
    """How many lines `then` stands after `first`; negative where it stands before."""
    return (then.evidence.line or 0) - (first.evidence.line or 0)
