"""A site's own pattern for progress lines: checked when it is saved, and linear in the line whatever the line says.

It looks like a regular expression, but only this is allowed:

- fixed text, `\\d \\s \\S \\w`, a set like `[0-9.]`, and `\\` before a character that would mean something else;
- `+ * ? {m,n}` behind one of these, where what follows can't be part of it: it takes all it can and gives nothing back;
- `.*` for anything up to the *first* place where the fixed text behind it stands;
- the named groups of GROUPS, each once, without a group or `.*` inside; `step` has to be there;
- `^` in the first and `$` in the last place.

No alternatives, no other groups, nothing that looks ahead or back. The pattern begins with fixed text (after `^` or
`.*`): only where that stands is it tried, at most MOST_TRIES times in a line. What is left is compiled so that it never
goes back (possessive repeats and atomic groups, Python 3.11), which makes each try linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from recovery.core.logs.fields import number
from recovery.core.logs.marks import Mark, step_of
from recovery.core.types import SignalKind

RULE = "own.progress"
GROUPS = ("step", "loss", "throughput", "step_time_s", "step_time_ms", "tokens")
LONGEST = 500  # characters of a pattern
MOST_TRIES = 8
LOOKED_AT = 1000  # characters of a line
SHORTEST_TEXT = 2  # characters with which a pattern begins

_GROUP = re.compile(r"\(\?P<([A-Za-z0-9_]{1,40})>")
_REPEAT = re.compile(r"[+*?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\}")
_SET = re.compile(r"\[\^?(?:[^\]\[\\]|\\.){1,200}\]")
_DOUBLED = re.compile(r"--|&&|~~|\|\|")  # Python keeps these for sets of its own kind
_GAP = re.compile(r"\.[*+]\??")
_SPECIAL = ".^$*+?{}[]\\|()"
_CLASSES = "dsSwDW"
_SAMPLE = [chr(code) for code in range(32, 127)] + ["\t", "é"]


class PatternError(ValueError):
    """The pattern can't be used; the message says where and why, for the person who wrote it."""


class _Piece(NamedTuple):
    """One thing after another: a set of characters with its repeat, the begin or the end of a group, or a gap."""

    kind: str  # "text" (one fixed character), "set", "open", "close", "gap"
    source: str
    repeat: str
    at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnPattern:
    """A pattern that passed the check. `begins_with` is None where it begins with the line.

    `word`: the longest fixed text in it; it stands in every line that matches.
    """

    text: str
    compiled: re.Pattern[str]
    begins_with: str | None
    word: str

    def read(self, line: str) -> Mark | None:
        """What the line says; None where it doesn't match or its step is no number."""
        line = line[:LOOKED_AT]
        found = self.compiled.match(line) if self.begins_with is None else self._search(line, self.begins_with)
        return None if found is None else _mark(found.groupdict())

    def _search(self, line: str, begins_with: str) -> re.Match[str] | None:
        start = line.find(begins_with)
        for _ in range(MOST_TRIES):
            if start < 0:
                return None
            if found := self.compiled.match(line, start):
                return found
            start = line.find(begins_with, start + 1)
        return None


def _mark(groups: dict[str, str | None]) -> Mark | None:
    digits = (groups["step"] or "").replace(",", "")
    step = step_of(digits) if digits.isascii() and digits.isdigit() else None
    if step is None:
        return None
    values = {name: number(groups.get(name)) for name in GROUPS}
    seconds, ms = values["step_time_s"], values["step_time_ms"]
    return Mark(
        kind=SignalKind.PROGRESS, rule=RULE, step=step, loss=values["loss"], throughput=values["throughput"],
        step_time_s=ms / 1000 if seconds is None and ms is not None else seconds, tokens=values["tokens"],
    )  # fmt: skip


def own_pattern(text: str) -> OwnPattern:
    """The pattern in `text`. Raises PatternError."""
    if len(text) > LONGEST:
        raise PatternError(f"It is longer than {LONGEST} characters.")
    anchored = text.startswith("^")
    pieces = _pieces(text, 1 if anchored else 0)
    while pieces and pieces[0].kind == "gap" and not anchored:
        del pieces[0]
    _check_groups(pieces)
    _check_repeats(pieces)
    begins_with = "".join(piece.source for piece in _fixed(pieces, 0))
    if not anchored and len(begins_with) < SHORTEST_TEXT:
        raise PatternError(f"It must begin with at least {SHORTEST_TEXT} characters of fixed text, or with ^.")
    end = r"\Z" if pieces and pieces[-1].source == "$" else ""
    compiled = _compiled(pieces[:-1] if end else pieces, end)
    fixed = ["".join(piece.source for piece in _fixed(pieces, start)) for start in range(len(pieces))]
    word = max(fixed, key=len, default="")
    return OwnPattern(text=text, compiled=compiled, begins_with=None if anchored else begins_with, word=word)


def _pieces(text: str, start: int) -> list[_Piece]:
    pieces: list[_Piece] = []
    at = start
    while at < len(text):
        piece, at = _piece(text, at)
        pieces.append(piece)
    return pieces


def _piece(text: str, at: int) -> tuple[_Piece, int]:
    """The piece that begins at `at`, and where the next one does."""
    char = text[at]
    if gap := _GAP.match(text, at):
        return _Piece("gap", gap[0][:2] + "?", "", at), gap.end()
    if group := _GROUP.match(text, at):
        return _Piece("open", group[1], "", at), group.end()
    if char == ")":
        return _Piece("close", ")", "", at), at + 1
    if char == "$" and at == len(text) - 1:
        return _Piece("end", "$", "", at), at + 1
    kind, source, end = _one(text, at)
    repeat = _REPEAT.match(text, end)
    if repeat is None:
        return _Piece(kind, source, "", at), end
    if text[repeat.end() : repeat.end() + 1] in ("?", "+"):
        raise PatternError(f"{_place(repeat.end())}: a repeat takes all it can; {text[repeat.end()]} can't follow it.")
    return _Piece("set", re.escape(source) if kind == "text" else source, repeat[0], at), repeat.end()


def _one(text: str, at: int) -> tuple[str, str, int]:
    """Kind, source and end of what stands for one character."""
    char = text[at]
    if char == "[" and (found := _SET.match(text, at)):
        _check_set(found[0], at)
        return "set", found[0], found.end()
    if char == "\\" and at + 1 < len(text):
        escaped = text[at + 1]
        if escaped in _CLASSES:
            return "set", char + escaped, at + 2
        if not escaped.isalnum():
            return "text", escaped, at + 2
        raise PatternError(f"{_place(at)}: \\{escaped} is not among what is allowed.")
    if char in _SPECIAL:
        raise PatternError(f"{_place(at)}: {char} is not allowed here; write \\{char} for the character itself.")
    return "text", char, at + 1


def _check_set(source: str, at: int) -> None:
    doubled = _DOUBLED.search(source)
    if doubled:
        raise PatternError(f"{_place(at)}: {doubled[0]} can't stand in a set; write \\ before each of them.")
    try:
        re.compile(source)
    except re.error as error:
        raise PatternError(f"{_place(at)}: {source} is no set of characters: {error}.") from None


def _check_groups(pieces: Sequence[_Piece]) -> None:
    inside, seen = False, set[str]()
    for piece in pieces:
        if piece.kind == "open":
            if inside or piece.source in seen or piece.source not in GROUPS:
                raise PatternError(
                    f"{_place(piece.at)}: the group {piece.source} can't stand here: known are {', '.join(GROUPS)}, "
                    "each once, none inside another."
                )
            seen.add(piece.source)
            inside = True
        elif piece.kind == "close":
            if not inside:
                raise PatternError(f"{_place(piece.at)}: this ) ends nothing.")
            inside = False
        elif piece.kind == "gap" and inside:
            raise PatternError(f"{_place(piece.at)}: .* can't stand inside a group.")
    if inside:
        raise PatternError("A group is not ended.")
    if "step" not in seen:
        raise PatternError("The group step is missing: (?P<step>\\d+).")


def _check_repeats(pieces: Sequence[_Piece]) -> None:
    """What follows a repeat must not be part of it, and fixed text must follow a gap unless it is the last."""
    for index, piece in enumerate(pieces):
        rest = [each for each in pieces[index + 1 :] if each.kind not in ("open", "close")]
        if piece.kind == "gap" and rest and not _fixed(pieces, index + 1):
            raise PatternError(f"{_place(piece.at)}: fixed text must follow .*")
        if piece.kind == "set" and piece.repeat:
            _check_follower(piece, rest)


def _check_follower(piece: _Piece, rest: Sequence[_Piece]) -> None:
    for follower in rest:
        if follower.kind not in ("text", "set"):
            return
        source = re.escape(follower.source) if follower.kind == "text" else follower.source
        if any(re.fullmatch(piece.source, char) and re.fullmatch(source, char) for char in _SAMPLE):
            raise PatternError(
                f"{_place(follower.at)}: what stands here could be part of {piece.source}{piece.repeat} before it, "
                "which takes all it can."
            )
        if not follower.repeat or follower.repeat[0] not in "*?{":
            return  # it is there for certain, so nothing behind it touches the repeat


def _fixed(pieces: Sequence[_Piece], start: int) -> list[_Piece]:
    """The fixed characters from `start` on."""
    found = []
    for piece in pieces[start:]:
        if piece.kind != "text":
            break
        found.append(piece)
    return found


def _compiled(pieces: Sequence[_Piece], end: str) -> re.Pattern[str]:
    sources: list[str] = []
    index = 0
    while index < len(pieces):
        piece = pieces[index]
        if piece.kind == "gap":
            fixed = _fixed(pieces, index + 1)
            if fixed:  # the last gap needs nothing
                text = re.escape("".join(each.source for each in fixed))
                sources.append(f"(?>{piece.source}{text})")
            index += 1 + len(fixed)
            continue
        sources.append(_source(piece))
        index += 1
    return re.compile("".join(sources) + end, re.ASCII)


def _source(piece: _Piece) -> str:
    if piece.kind == "open":
        return f"(?P<{piece.source}>"
    if piece.kind == "text":
        return re.escape(piece.source)
    return piece.source + (f"{piece.repeat}+" if piece.repeat else "")


def _place(at: int) -> str:
    return f"Character {at + 1}"
