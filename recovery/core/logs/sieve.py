"""Who has to look at a line: decided once for all lines of one shape, so that a healthy log costs next to nothing.

A line's shape is the line with every digit as 0. Everything that is looked for holds a fixed piece of text, so what
such a piece can't be found in need not be looked at; with the digits of both sides as 0 that is true of all lines of a
shape. Logs repeat few shapes, so the answers are remembered. The memory is bounded, and only speed depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recovery.core.diagnose import catalogue
from recovery.core.logs import generic, ranks
from recovery.core.logs.marks import Format

MOST_SHAPES = 4096
LONGEST = 512  # bytes of a line whose shape is remembered
_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Readers:
    """Who has to look at a line. `silent`: nobody, apart from the fallback if it is asked at all (`growth`)."""

    formats: tuple[Format, ...]
    literals: tuple[str, ...]  # of the failure catalogue, that may stand in the line
    place: bool
    growth: bool
    silent: bool


def shape_of(text: str) -> bytes:
    """Bytes, as they are translated twenty times as fast as texts."""
    return text.encode("utf-8", "surrogatepass").translate(_AS_ZERO)


def _readable(text: str) -> str:
    """The shape as a text, a character per byte."""
    return shape_of(text).decode("latin-1")


class Sieve:
    """Remembers the readers of each shape. Shared by all parsers of a process."""

    def __init__(self, formats: Sequence[Format]) -> None:
        self._formats = list(formats)
        self._literals = list(catalogue.LOG_LITERALS)
        pieces: dict[str, tuple[set[int], set[int]]] = {}  # piece → places in the two lists above
        for index, each in enumerate(self._formats):
            for word in each.words:
                pieces.setdefault(_readable(word), (set(), set()))[0].add(index)
        for index, literal in enumerate(self._literals):
            pieces.setdefault(_readable(literal), (set(), set()))[1].add(index)
        self._gates = [(gate, [(p, *pieces[p]) for p in held]) for gate, held in catalogue.gates_for(pieces).items()]
        self._known: dict[bytes, Readers] = {}

    def recall(self, raw: str) -> Readers | None:
        """The readers of a raw line whose shape was seen before."""
        return self._known.get(shape_of(raw)) if len(raw) <= LONGEST else None

    def readers(self, raw: str, text: str) -> Readers:
        """The readers of the raw line `raw`, of which `text` is what is left when it is cleaned."""
        found = self.recall(raw)
        if found is not None:
            return found
        found = self._find(text)
        if len(raw) <= LONGEST:
            if len(self._known) >= MOST_SHAPES:
                self._known.clear()
            self._known[shape_of(raw)] = found
        return found

    def _find(self, text: str) -> Readers:
        shape = _readable(text)
        formats: set[int] = set()
        literals: set[int] = set()
        for held in [held for gate, held in self._gates if gate in shape]:
            for piece, of_formats, of_literals in held:
                if piece in shape:
                    formats |= of_formats
                    literals |= of_literals
        place = ranks.may_tell(text)
        return Readers(
            formats=tuple(self._formats[index] for index in sorted(formats)),
            literals=tuple(self._literals[index] for index in sorted(literals)),
            place=place,
            growth=generic.may_count(text),
            silent=not (formats or literals or place),
        )
