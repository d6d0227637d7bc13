"""Who has to look at a line: decided once for all lines of one shape, so that a healthy log costs next to nothing.

A line's shape is the line with every digit as 0, and the letters of addresses (0x7f3a…) too. Everything that is looked
for holds a fixed piece of text, so what such a piece can't be found in need not be looked at; with the digits of both
sides as 0 that is true of all lines of a shape. Logs repeat few shapes, so the answers are remembered. The memory is
bounded, and only speed depends on it.

Prose has a new shape in every line, but few words: of each text that is looked for, the longest piece without spaces
must be part of one of the line's words. So words are remembered as well (`Words`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from recovery.core.diagnose import catalogue
from recovery.core.logs import generic, ranks
from recovery.core.logs.columns import InColumns, Recipe
from recovery.core.logs.lines import CleanLine, Layout
from recovery.core.logs.marks import Format

MOST_SHAPES = 4096
MOST_SILENT = 20_000
MOST_WORDS = 50_000
LONGEST = 512  # bytes of a line whose shape is remembered
_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_PRINTED = bytes(range(32, 127)) + b"\t"  # of other characters some are taken out before a line is matched
_ADDRESS = re.compile(rb"\b0x[0-9a-fA-F]+\b")
_LIKE_ADDRESS = re.compile(r"[0-9]x|0\Z")  # 8xA is one as well, with its digits as 0
_END_OF_ADDRESS = re.compile(r"[0-9a-fA-Fx]{1,80}(?![0-9A-Za-z_])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Readers:
    """Who has to look at a line. `silent`: nobody, apart from the fallback if it is asked at all (`growth`)."""

    formats: tuple[Format, ...]
    literals: tuple[str, ...]  # of the failure catalogue, that may stand in the line
    own: bool  # the site's own pattern
    place: bool  # what it says must be given its place by `RankMap.read`
    growth: bool
    silent: bool
    bar: Readers | None  # of the bar upon which the line was printed
    layout: Layout | None = None
    recipe: Recipe | None = None


def shape_of(text: str) -> bytes:
    """Bytes, as they are translated twenty times as fast as texts."""
    return without_addresses(text.encode("utf-8", "surrogatepass").translate(_AS_ZERO))


def shapes_of(data: bytes) -> list[bytes]:
    """Of all lines in `data`, but for `without_addresses`; each is as long as its line."""
    return data.translate(_AS_ZERO).split(b"\n")


def without_addresses(shape: bytes) -> bytes:
    """As long as it was. For all lines it would take longer than it saves: most have none."""
    return _ADDRESS.sub(lambda found: b"0x".ljust(len(found[0]), b"0"), shape) if b"0x" in shape else shape


def _readable(text: str) -> str:
    """The shape as a text, a character per byte."""
    return shape_of(text).decode("latin-1")


class Sieve:
    """Remembers the readers of each shape. Shared by all parsers of a process that look for the same.

    own: a text that stands in each line that a site's own pattern matches; None where there is no such pattern.
    """

    def __init__(self, formats: Sequence[Format], *, own: str | None = None) -> None:
        self._formats = list(formats)
        self._literals = list(catalogue.LOG_LITERALS)
        if own and (_LIKE_ADDRESS.search(own) or _END_OF_ADDRESS.match(own)):
            own = ""  # it may begin or end within an address, where it would not be found: each line may hold it
        self._own = None if own is None else _readable(own)
        pieces: dict[str, tuple[set[int], set[int]]] = {}  # piece → places in the two lists above
        for index, each in enumerate(self._formats):
            for word in each.words:
                pieces.setdefault(_readable(word), (set(), set()))[0].add(index)
        for index, literal in enumerate(self._literals):
            pieces.setdefault(_readable(literal), (set(), set()))[1].add(index)
        self._gates = [(gate, [(p, *pieces[p]) for p in held]) for gate, held in catalogue.gates_for(pieces).items()]
        self._known: dict[bytes, Readers] = {}
        self._mute: set[bytes] = {b""}
        self._silent: set[bytes] = {b""}
        looked_for = [piece.encode("latin-1") for piece in pieces]
        looked_for += [shape_of(text) for text in (*ranks.TELLING, *([] if own is None else [own]))]
        self._words = Words(looked_for, [shape_of(text) for text in generic.COUNTING])

    def passed_over(self, *, growing: bool) -> Collection[bytes]:
        """Shapes of whole lines that need not be cut out and looked at; fewer where the fallback is asked as well."""
        return self._mute if growing else self._silent

    def pass_over(self, shape: bytes, readers: Readers | None) -> None:
        """Keep in mind that nobody has to look at lines of this shape. None: there is nothing in them."""
        if len(shape) <= LONGEST and (readers is None or readers.silent):
            self._keep([shape], growth=readers is not None and readers.growth)

    def _keep(self, shapes: Sequence[bytes], *, growth: bool) -> None:
        shapes = shapes[:MOST_SILENT]
        for kept in (self._silent,) if growth else (self._silent, self._mute):
            if len(kept) + len(shapes) > MOST_SILENT:
                kept.clear()
                kept.add(b"")
            kept.update(shapes)

    def sift(self, shapes: Iterable[bytes]) -> None:
        """Pass over those of the shapes whose words already tell that nobody has to look at them."""
        known, silent, mute = self._known, self._silent, self._words.mute
        found: list[bytes] = []
        growing: list[bytes] = []
        unsure: list[tuple[bytes, list[bytes]]] = []
        for shape in set(shapes):
            if len(shape) > LONGEST or shape in known or shape in silent or shape.translate(None, _PRINTED):
                continue
            words = shape.split()
            if len(words) > 1 and words[-2].endswith(b":"):
                continue  # one word behind a label of srun's may be a node
            if mute.issuperset(words):
                found.append(shape)
            else:
                unsure.append((shape, words))
        self._words.learn([words for _, words in unsure])
        for shape, words in unsure:
            if mute.issuperset(words):
                found.append(shape)
            elif self._words.harmless.issuperset(words):
                growing.append(shape)
        self._keep(found, growth=False)
        self._keep(growing, growth=True)

    def recall(self, raw: str) -> Readers | None:
        """The readers of a raw line whose shape was seen before."""
        return self.recall_shape(shape_of(raw)) if len(raw) <= LONGEST else None

    def recall_shape(self, shape: bytes) -> Readers | None:
        return self._known.get(shape)

    def readers(self, raw: str, cleaned: CleanLine) -> Readers:
        """The readers of the raw line `raw`, of which `cleaned` is what is left when it is cleaned."""
        found = self.recall(raw)
        if found is not None:
            return found
        bar = self._find(cleaned.before, task=None, bar=None) if cleaned.before else None
        found = self._find(cleaned.text, task=cleaned.task, bar=bar)
        plain = raw.isascii() and "\r" not in raw and "0x" not in raw
        found = replace(found, layout=cleaned.layout, recipe=_recipe(found, cleaned) if plain else None)
        if len(raw) <= LONGEST:
            if len(self._known) >= MOST_SHAPES:
                self._known.clear()
            self._known[shape_of(raw)] = found
        return found

    def _find(self, text: str, *, task: int | None, bar: Readers | None) -> Readers:
        shape = _readable(text)
        formats: set[int] = set()
        literals: set[int] = set()
        for held in [held for gate, held in self._gates if gate in shape]:
            for piece, of_formats, of_literals in held:
                if piece in shape:
                    formats |= of_formats
                    literals |= of_literals
        wanting = tuple(each for each in map(self._formats.__getitem__, sorted(formats)) if each.wants(text))
        own = self._own is not None and self._own in shape
        tells = ranks.may_tell(text, labelled=task is not None)
        return Readers(
            formats=wanting,
            literals=tuple(self._literals[index] for index in sorted(literals)),
            own=own,
            place=tells or ranks.has_place(text),
            growth=generic.may_count(text) or (bar is not None and bar.growth),
            silent=not (wanting or literals or own or tells) and (bar is None or bar.silent),
            bar=bar,
        )


def _recipe(readers: Readers, line: CleanLine) -> Recipe | None:
    """None where anybody but the first of the formats may have something to say."""
    first = readers.formats[0] if readers.formats else None
    if not isinstance(first, InColumns) or readers.own or readers.place or readers.bar:
        return None
    columns = first.columns(line.text)
    return Recipe(first, columns, line.layout, catalogue.patterns(readers.literals)) if columns else None


class Words:
    """Remembers which words can't be part of anything that is looked for. Bounded.

    `harmless`: not for the formats and the failure catalogue; `mute`: not for the fallback either. An empty text that
    is looked for makes every word harmful.
    """

    def __init__(self, looked_for: Iterable[bytes], counting: Iterable[bytes]) -> None:
        self._looked_for = {max(text.split(), key=len, default=b"") for text in looked_for}
        self._counting = set(counting)
        self._known: set[bytes] = set()
        self.harmless: set[bytes] = set()
        self.mute: set[bytes] = set()

    def learn(self, lines: Iterable[Sequence[bytes]]) -> None:
        """Look at the words that are new. Those of a line are apart by spaces."""
        fresh = set().union(*lines) - self._known
        if not fresh:
            return
        if len(self._known) + len(fresh) > MOST_WORDS:
            for words in (self._known, self.harmless, self.mute):
                words.clear()
            fresh = set().union(*lines)
        harmless = fresh - _holding(fresh, self._looked_for)
        self.harmless |= harmless
        counting = _holding({word.lower() for word in harmless}, self._counting)
        self.mute |= {word for word in harmless if word.lower() not in counting}
        self._known |= fresh


def _holding(words: set[bytes], pieces: set[bytes]) -> set[bytes]:
    """Those of the words that hold one of the pieces; the empty piece is in all of them."""
    if b"" in pieces:
        return set(words)
    text = b" " + b" ".join(words) + b" "
    found: set[bytes] = set()
    for piece in pieces:
        at = text.find(piece)
        while at >= 0:
            end = text.find(b" ", at)
            found.add(text[text.rfind(b" ", 0, at) + 1 : end])
            at = text.find(piece, end)
    return found
