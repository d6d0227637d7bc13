"""No line makes the parser work more than in proportion to its length.

Not measured by the clock but by structure: lines are cut to a fixed length before anything is matched, and no pattern
can backtrack without bound. A repeat of open end must be the last thing in its pattern, or be followed by something
that none of its characters can begin; no repeat may stand inside another.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from recovery.core import comment, logs
from recovery.core.logs import formats
from recovery.core.logs.fields import Says
from recovery.sources.checkpoints import layouts

_parser: Any = importlib.import_module("re._parser")
_OPEN = _parser.MAXREPEAT
_REPEATS = {_parser.MAX_REPEAT, _parser.MIN_REPEAT}
LONGEST_BOUNDED = 400  # more than any name, number or bar that a pattern looks for
SAMPLE = [chr(code) for code in range(0x250)]


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for package in (logs, formats, layouts):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            yield from _patterns_of(importlib.import_module(module.name))
    yield from _patterns_of(comment)


def _patterns_of(module: Any) -> Iterator[tuple[str, re.Pattern[str]]]:
    for name, value in vars(module).items():
        if isinstance(value, re.Pattern):
            yield f"{module.__name__}.{name}", value
        for row in value if isinstance(value, tuple) else ():
            if isinstance(row, Says) and row.pattern is not None:
                yield f"{module.__name__}.{name} {row.rule} {row.literal}", row.pattern


def flaws(pattern: re.Pattern[str]) -> list[str]:
    return list(_flaws(_parser.parse(pattern.pattern, pattern.flags), inside=False, last=True))


def _flaws(items: Any, *, inside: bool, last: bool) -> Iterator[str]:
    for index, (op, value) in enumerate(items):
        is_last = last and index == len(items) - 1
        if op in _REPEATS:
            low, high, body = value
            if high not in (0, 1) and low != high:
                if inside:
                    yield "a repeat inside a repeat"
                if high == _OPEN and not is_last and _can_begin(body, items[index + 1 :], at_end=last):
                    yield "an open repeat that what follows could end in many places"
                if high != _OPEN and high > LONGEST_BOUNDED:
                    yield f"a repeat of up to {high}"
            yield from _flaws(body, inside=inside or high > 1, last=is_last)
        for part in _parts(op, value):
            yield from _flaws(part, inside=inside, last=is_last)


def _parts(op: Any, value: Any) -> Sequence[Any]:
    if op is _parser.BRANCH:
        return list(value[1])
    if op is _parser.SUBPATTERN:
        return [value[3]]
    return []


def _can_begin(body: Any, rest: Sequence[Any], *, at_end: bool) -> bool:
    """Whether a character of the repeated set can also begin what follows it; True where that can't be told."""
    if not rest:
        return not at_end
    (op, value), behind = rest[0], list(rest[1:])
    if op in _REPEATS:
        low, _, inner = value
        return _can_begin(body, [*inner, *behind], at_end=at_end) or (
            low == 0 and _can_begin(body, behind, at_end=at_end)
        )
    if op is _parser.SUBPATTERN:
        return _can_begin(body, [*value[3], *behind], at_end=at_end)
    if op is _parser.BRANCH:
        return any(_can_begin(body, [*branch, *behind], at_end=at_end) for branch in value[1])
    if op in (_parser.AT, _parser.ASSERT, _parser.ASSERT_NOT):
        return _can_begin(body, behind, at_end=at_end)
    return bool(_characters(body) & _characters([(op, value)]))


def _characters(items: Any) -> set[str]:
    """Of a sample, the characters that `items` match by themselves."""
    sources = [_source(op, value) for op, value in items]
    return {char for char in SAMPLE if re.fullmatch("".join(sources), char)}


def _source(op: Any, value: Any) -> str:
    """A pattern again, from what the parser made of it."""
    if op is _parser.LITERAL:
        return re.escape(chr(value))
    if op is _parser.NOT_LITERAL:
        return f"[^{re.escape(chr(value))}]"
    if op is _parser.SUBPATTERN:
        return "".join(_source(*item) for item in value[3])
    if op in _REPEATS:
        return "".join(_source(*item) for item in value[2])
    if op is _parser.IN:
        return "[" + "".join(_set_source(*part) for part in value) + "]"
    assert op is _parser.ANY, f"not known here: {op}"
    return "."


def _set_source(op: Any, value: Any) -> str:
    if op is _parser.NEGATE:
        return "^"
    if op is _parser.LITERAL:
        return re.escape(chr(value))
    if op is _parser.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    names = {"CATEGORY_SPACE": r"\s", "CATEGORY_NOT_SPACE": r"\S", "CATEGORY_WORD": r"\w", "CATEGORY_DIGIT": r"\d"}
    return names[str(value)]


ALL = dict(patterns())


@pytest.mark.parametrize("name", sorted(ALL))
def test_no_pattern_can_backtrack_without_bound(name: str) -> None:
    assert flaws(ALL[name]) == []


@pytest.mark.parametrize(
    "bad", [r"(a+)+b", r"\s*\s*x", r"a.*b", r"(?:x{1,9}y){2,9}", r"[0-9]{1,5000}x", r"\w+\d", r"[^|]*\s*\|"]
)
def test_the_check_itself_finds_what_it_should(bad: str) -> None:
    assert flaws(re.compile(bad)) != []


def test_patterns_were_found_at_all() -> None:
    assert len(ALL) > 120
