"""Whether a pattern can be slow on some line. A job may print anything, so a line would be found that makes it so.

Two checks. By its shape: no repeat without a bound. Then by trial: on lines that lead it on as long as they can, longer
and longer; a pattern whose bounded repeats stand within one another shows itself before it would hold a worker up.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

BUDGET_S = 0.05  # for one line; a good pattern needs well below a millisecond
TRIES = 3  # a machine may be busy just then
FILLERS = (" ", "a", "1", "a.", "a ", "1,", ": ", "(", "-", "x: ", "[E0111 ", "ERROR ", "=", "/a")

_ESCAPED_OR_SET = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_UNBOUNDED = re.compile(r"[*+]|\{\d*,\}")
_BACK = re.compile(r"\\[1-9]|\(\?P=")
_FIXED = re.compile(r"\^?((?:\\[^\w\s]|[\w :/=,;@#%&'\"<>~!-])*)")


def slowness(pattern: str, literals: Sequence[str], *, longest: int) -> str:
    """Why `pattern` may be slow on a line of up to `longest` characters, and the remedy; "" where it is not."""
    if _BACK.search(pattern):
        return "the pattern refers back to a group, which takes time without a bound: write out what must stand there."
    shape = _ESCAPED_OR_SET.sub("", pattern)
    if found := _UNBOUNDED.search(shape):
        return f"the pattern repeats without a bound ({found[0]}): write how often at most, as {{1,80}}."
    compiled = re.compile(pattern)
    for line in _leading_on(pattern, literals, longest):
        if _is_slow(compiled, line):
            return "the pattern takes too long on some lines: its repeats stand within or behind one another."
    return ""


def _leading_on(pattern: str, literals: Sequence[str], longest: int) -> Iterator[str]:
    """Lines that begin as the pattern does and go on with what its repeats may take; shorter ones first."""
    fixed = re.sub(r"\\(.)", r"\1", _FIXED.match(pattern)[1])  # type: ignore[index]  # it may be empty, but matches
    starts = dict.fromkeys(["", fixed, *literals, *(f"{fixed}{literal}" for literal in literals)])
    fillers = dict.fromkeys([*FILLERS, *(char for char in pattern if char.isalnum())])
    length = 8
    while length < longest:
        for start in starts:
            for filler in fillers:
                text = (filler * (length // len(filler) + 1))[:length]
                yield f"{start}{text}\x00"
                yield from (f"{start}{text}{literal}" for literal in literals)
        length += max(2, length // 4)


def _is_slow(pattern: re.Pattern[str], line: str) -> bool:
    return all(_takes(pattern, line) > BUDGET_S for _ in range(TRIES))


def _takes(pattern: re.Pattern[str], line: str) -> float:
    begun = time.perf_counter()
    pattern.search(line)
    return time.perf_counter() - begun
