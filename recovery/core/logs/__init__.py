"""What a job's log says: lines in, signals out. Pure, linear in the length of the log, never raises on any input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache

from recovery.core.diagnose import catalogue
from recovery.core.logs import blocks, generic, heard
from recovery.core.logs.columns import Recipe
from recovery.core.logs.cut import LogBytes, line_at, told_by
from recovery.core.logs.formats import FORMATS
from recovery.core.logs.lines import MAX_RANK, SHOWN_CHARS, CleanLine, clean, printable
from recovery.core.logs.marks import Mark, Memory
from recovery.core.logs.own_pattern import OwnPattern
from recovery.core.logs.ranks import NOWHERE, Place, RankMap
from recovery.core.logs.sieve import Readers, Sieve, shapes_of, without_addresses
from recovery.core.types import LogLine, Signal, SignalKind

__all__ = ["KNOWN_FORMATS", "LogParser"]

_GENERIC = "generic"
_OWN = "own"
KNOWN_FORMATS = (*(trainer.name for trainer in FORMATS), _OWN, _GENERIC)
_BLOCK = 128 * 1024  # bytes that are gone through at once: what is made of them stays in the processor's cache


@lru_cache(maxsize=2)
def _sieve_for(own: str | None) -> Sieve:
    return Sieve(FORMATS, own=own)


class LogParser:
    """Reads the log files of one attempt, in order; several formats may be mixed in one file.

    utc_offset: of the cluster's local time, as trainers print times without a zone.
    nodes: the attempt's nodes where they are known; no other node name is then believed.
    own: a site's own pattern; it is asked before the formats that are known.
    only: the one of KNOWN_FORMATS whose progress is believed; "": any. Saves, loads and failures count whoever says
        them.
    memory: what `memory` of an earlier parser of the same attempt held (JSON values only, bounded). Without it the
        parser begins anew: the generic fallback has to see growth again and the places of ranks are forgotten.
    """

    def __init__(
        self,
        *,
        utc_offset: timedelta = timedelta(0),
        nodes: Sequence[str] = (),
        own: OwnPattern | None = None,
        only: str = "",
        memory: Memory | None = None,
    ) -> None:
        self.memory: Memory = {} if memory is None else memory
        self._utc_offset = utc_offset
        self._own = own
        self._only = only
        self._sieve = _sieve_for(own.word if own else None)
        # the fallback is asked while no format has reported progress
        self._growing = only in ("", _GENERIC) and self.format in ("", _GENERIC)
        self._open = {trainer.name for trainer in FORMATS if blocks.OPEN in self.memory.get(trainer.name, {})}
        self._ranks = RankMap(self.memory.setdefault("ranks", {}), nodes)
        self._home = NOWHERE
        self.line = 0  # line ends of the file in front of what follows the bytes that were fed last

    @property
    def format(self) -> str:
        """The format that reported progress so far: "megatron", …, "own", "generic"; "" where none did."""
        return str(self.memory.get("format", ""))

    def node_of(self, rank: int | None) -> str:
        """The node on which `rank` said to be, "" where it said nothing so far."""
        return self._ranks.node_of(rank)

    def feed_bytes(self, read: LogBytes) -> list[Signal]:
        """The signals of all lines in `read`: those that `feed` gives line by line, at a tenth of the time.

        Lines whose shape nobody has to look at are not even cut out.
        """
        signals: list[Signal] = []
        self._home = NOWHERE
        if read.rank is not None or read.node:
            self._home = Place(rank=read.rank, node=self._ranks.known(read.node) if read.node else "")
        start, line = 0, read.line
        while start < len(read.data):
            end = read.data.find(b"\n", start + _BLOCK) + 1 or len(read.data)
            block = replace(
                read, data=read.data[start:end], offset=read.offset + start, line=line, cut=read.cut and start == 0
            )
            shapes = shapes_of(block.data)
            signals += self._feed_block(block, shapes)
            start, line = end, line + len(shapes) - 1
        self.line = line
        return signals

    def _feed_block(self, read: LogBytes, shapes: list[bytes]) -> list[Signal]:
        """The signals of whole lines, of which `shapes` has the shapes."""
        signals: list[Signal] = []
        passed_over = self._sieve.passed_over(growing=self._growing)
        wanted = [index for index, shape in enumerate(shapes) if shape not in passed_over]
        for each in wanted:
            if b"0x" in shapes[each]:
                shapes[each] = without_addresses(shapes[each])
        self._sieve.sift(map(shapes.__getitem__, wanted))
        if (read.cut or self._in_report) and wanted[:1] != [0]:
            wanted.insert(0, 0)
        index = start = 0  # of the first line that was not dealt with
        for each in wanted:
            shape = shapes[each]
            if each < index or ((shape in passed_over or told_by(shape) in passed_over) and each):
                continue  # dealt with, or found in the meantime to be of a shape that nobody has to look at
            start += sum(map(len, shapes[index:each])) + each - index
            index = each
            while index < len(shapes):
                signals += self._feed_line(read, start, index, shapes[index])
                start += len(shapes[index]) + 1
                index += 1
                if not self._in_report:
                    break
        return signals

    @property
    def _in_report(self) -> bool:
        """Whether the next line may be part of a report of several lines, whatever it looks like."""
        return bool(self._open) or self._ranks.in_block

    def _feed_line(self, read: LogBytes, start: int, index: int, shape: bytes) -> list[Signal]:
        whole = not (read.cut and index == 0)
        readers, cleaned = self._sieve.recall_shape(shape) if whole else None, None
        if readers and readers.recipe and not self._in_report:
            signal = self._by_recipe(readers.recipe, read, start, index, shape)
            if signal:
                return [signal]
        line = line_at(read, start, start + len(shape), index)
        if line is None:
            if whole:
                self._sieve.pass_over(told_by(shape), None)
            return []
        if readers is None:
            readers, cleaned = self._readers(line)
        if whole and readers.silent:
            self._sieve.pass_over(told_by(shape), readers)
        return self._feed(line, readers, cleaned)

    def _by_recipe(self, recipe: Recipe, read: LogBytes, start: int, index: int, shape: bytes) -> Signal | None:
        """The progress that a line reports; None where it has to be read like any other."""
        trainer, columns, layout, failures = recipe
        if not self._believes(trainer.name):
            return None
        shown = printable(read.data[start : start + len(shape)].decode("ascii")).rstrip()
        text = shown[layout.start :]
        values = columns.values(text)
        if values is None:
            return None
        for pattern in failures:
            if pattern.search(text):
                return None
        step, loss, throughput, step_time_s, tokens = values
        trainer.progressed(self.memory.setdefault(trainer.name, {}), step)
        self._note(trainer.name)
        rank = None
        if not columns.all_ranks:
            rank = layout.rank_in(shown)
            rank = self._home.rank if rank is None else rank
        return Signal(
            kind=SignalKind.PROGRESS,
            file=read.file,
            line=read.line + index + 1,
            offset=read.offset + start,
            text=shown[:SHOWN_CHARS],
            rule=columns.rule,
            at=layout.time_in(shown, utc_offset=self._utc_offset),
            step=step,
            rank=rank,
            loss=loss,
            throughput=throughput,
            step_time_s=step_time_s,
            tokens=tokens,
        )

    def feed(self, line: LogLine) -> list[Signal]:
        """The signals of one line, most often none. Where it stands in a file with a rank's name is not known."""
        self._home = NOWHERE
        return self._feed(line, *self._readers(line))

    def _readers(self, line: LogLine) -> tuple[Readers, CleanLine | None]:
        """Who has to look at `line`, and the line made readable where that was needed to tell."""
        readers = self._sieve.recall(line.text)
        if readers is not None:
            return readers, None
        cleaned = clean(line.text, utc_offset=self._utc_offset)
        return self._sieve.readers(line.text, cleaned), cleaned

    def _feed(self, line: LogLine, readers: Readers, cleaned: CleanLine | None) -> list[Signal]:
        if readers.silent and not self._awake(readers):
            return []
        cleaned = cleaned or clean(line.text, utc_offset=self._utc_offset, layout=readers.layout)
        place = self._placed(self._ranks.read(cleaned) if readers.place else self._ranks.pass_by(cleaned))
        signals = self._progress(line, cleaned, place, readers)
        if readers.bar is not None and all(signal.kind is not SignalKind.PROGRESS for signal in signals):
            signals = self._bar(line, cleaned, place, readers.bar) + signals
        if readers.literals:
            signals += self._failures(line, cleaned, place, readers)
        return signals

    def _placed(self, said: Place) -> Place:
        """What the line says of its place, else what the name of its file does."""
        home = self._home
        if home is NOWHERE:
            return said
        rank = home.rank if said.rank is None else said.rank
        return Place(rank=rank, node=said.node or home.node or self._ranks.node_of(rank))

    def _progress(self, line: LogLine, cleaned: CleanLine, place: Place, readers: Readers) -> list[Signal]:
        signals = self._by_format(line, cleaned, place, readers)
        if not signals and readers.growth and self._growing:
            signals = self._by_growth(line, cleaned, place)
        return signals

    def _bar(self, line: LogLine, cleaned: CleanLine, place: Place, readers: Readers) -> list[Signal]:
        """What the bar says upon which the line was printed: nowhere else was its last state given out."""
        bar = cleaned._replace(text=cleaned.before, shown=cleaned.before[:SHOWN_CHARS], before="")
        return self._progress(line, bar, place, readers)

    def _awake(self, readers: Readers) -> bool:
        """Whether a line that says nothing to the formats may still say something."""
        return self._in_report or (readers.growth and self._growing)

    def _by_format(self, line: LogLine, cleaned: CleanLine, place: Place, readers: Readers) -> list[Signal]:
        """What the first format that knows the line says, after what a report says that the line ends."""
        if self._own is not None and readers.own and self._believes(_OWN) and (mark := self._own.read(cleaned.text)):
            self._note(_OWN)
            return [_signal(mark, line, cleaned, place)]
        signals: list[Signal] = []
        wanted = readers.formats
        if self._open:
            wanted = tuple(each for each in FORMATS if each in readers.formats or each.name in self._open)
        for trainer in wanted:
            memory = self.memory.setdefault(trainer.name, {})
            marks = trainer.read(cleaned, memory)
            if not self._believes(trainer.name):
                marks = [mark for mark in marks if mark.kind is not SignalKind.PROGRESS]
            was_open, is_open = trainer.name in self._open, blocks.OPEN in memory
            if was_open is not is_open:
                self._open ^= {trainer.name}
            if marks:
                signals += [_signal(mark, line, cleaned, place) for mark in marks]
                heard.hear(self.memory, trainer.name)
                if any(mark.kind is SignalKind.PROGRESS for mark in marks):
                    self._note(trainer.name)
            if is_open or (marks and not was_open):
                break
        return signals

    def _believes(self, name: str) -> bool:
        """Whether progress counts that the format `name` reads."""
        return self._only in ("", name)

    def _note(self, name: str) -> None:
        """The format `name` has reported progress."""
        if self.memory.get("format") != name:
            self.memory["format"] = name
            self.memory.pop(_GENERIC, None)  # the fallback has no say any more
            self._growing = False

    def _by_growth(self, line: LogLine, cleaned: CleanLine, place: Place) -> list[Signal]:
        candidate = generic.read(cleaned.text)
        if candidate is None:
            return []
        mark = Mark(
            kind=SignalKind.PROGRESS, rule=candidate.rule, step=candidate.step,
            loss=candidate.loss, throughput=candidate.throughput, step_time_s=candidate.step_time_s,
        )  # fmt: skip
        growth = generic.Growth(self.memory.setdefault(_GENERIC, {}))
        signals = growth.admit(candidate, _signal(mark, line, cleaned, place))
        if signals:
            self.memory["format"] = _GENERIC
        return signals

    def _failures(self, line: LogLine, cleaned: CleanLine, place: Place, readers: Readers) -> list[Signal]:
        signals = []
        for rule, found in catalogue.match(cleaned.text, readers.literals):
            mark = Mark(kind=SignalKind.FAILURE, rule=rule.id)
            signals.append(_signal(mark, line, cleaned, self._named_place(found, place)))
        return signals

    def _named_place(self, found: re.Match[str], place: Place) -> Place:
        """The rank and node that the failure names; what it leaves open is where the line comes from."""
        named = found.groupdict()
        rank = _rank(named.get("rank"))
        if rank is None:
            rank, node = place.rank, place.node
        else:
            node = self._ranks.node_of(rank)
        return Place(rank=rank, node=self._ranks.known(named.get("node") or "") or node)


def _rank(digits: str | None) -> int | None:
    if digits is None or not digits.isascii() or not digits.isdigit() or len(digits) > len(str(MAX_RANK)):
        return None
    return int(digits)


def _signal(mark: Mark, line: LogLine, cleaned: CleanLine, place: Place) -> Signal:
    return Signal(
        kind=mark.kind,
        file=line.file,
        line=line.number,
        offset=line.offset,
        text=cleaned.shown,
        rule=mark.rule,
        at=cleaned.at,
        step=mark.step,
        path=mark.path,
        rank=None if mark.all_ranks else place.rank,
        node=place.node if mark.kind is SignalKind.FAILURE else "",
        loss=mark.loss,
        throughput=mark.throughput,
        step_time_s=mark.step_time_s,
        tokens=mark.tokens,
    )
