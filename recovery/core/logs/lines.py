"""One raw log line made readable: what is noise, what is a prefix that others put before it, and what is left.

Everything here is linear in the length of the line, and a line is cut before anything is matched against it: a job's
output is hostile input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

MAX_CHARS = 4096  # of a line that are looked at; the longest progress lines known have fewer than 1000
SHOWN_CHARS = 500  # of a line that are kept as evidence
_BAR_CHARS = 4 * MAX_CHARS  # at the end of a line in which the last state of a progress bar is looked for
_BAR = "%|"  # in every state of tqdm's bars
MAX_STEP = 2**31 - 1  # steps are stored as 32-bit integers; a greater number is not a step
MAX_RANK = 10**7 - 1
LARGEST = 1e100  # beyond it, either way, a number is none: a database can't square it, as it does for a mean

# Escape sequences (ECMA-48): CSI (colours, cursor), OSC (titles, links) up to BEL or ST, and the short ones.
_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
)

# A prefix at the start of what is left. The order of nesting differs, so whichever comes is taken off.
_PREFIX = re.compile(
    r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6,9}(?:Z|[+-][0-9]{2}:[0-9]{2}))"
    r" (?:std(?:out|err) [FP] )?"  # of a container
    r"| {0,7}(?P<task>[0-9]{1,7}):(?: |$)"  # srun -l: the task number, padded, then ": "
    r"|\[rank(?P<rank>[0-9]{1,7})\]:\s?"  # [rank3]: put there by torch.distributed
    r"|\[[A-Za-z_]{1,40}(?P<local>[0-9]{1,7})\]:\s?"  # torchrun's [default0]: role and *local* rank
    r"|\[[0-9]{1,7},(?P<mpi>[0-9]{1,7})\]<std(?:out|err)>:\s?"  # mpirun --tag-output: job and rank
    r"|\([A-Za-z_][\w.]{0,60} pid=[0-9]{1,10}(?:, ip=[0-9a-fA-F.:]{1,45})?\) "  # a worker of Ray
)
_MOST_PREFIXES = 4

_STAMP = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T _][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?)"
    r"(?: ?(Z|[+-][0-9]{2}:?[0-9]{2})(?![0-9]))?"
)
_TIME_FIRST = re.compile(r"\s{0,8}(?:\[titan\] |\[NeMo [A-Z] |\[)?" + _STAMP)
_TIME_NAMED = re.compile(r"(?:\bAT|\bdatetime:|\btime\s{0,8}:)\s{0,4}" + _STAMP)
OLDEST_YEAR, NEWEST_YEAR = "1990", "2199"  # no log of a training was written at another time, whatever stands in it
_TIME_WITHIN = 400  # characters in which a named time may begin


class _Stamp(NamedTuple):
    """Where a time stands, and its zone, where it has one."""

    local: slice
    zone: slice | None

    def read(self, text: str, *, utc_offset: timedelta) -> datetime | None:
        local, zone = text[self.local], None if self.zone is None else text[self.zone]
        if not OLDEST_YEAR <= local[:4] <= NEWEST_YEAR:
            return None
        try:
            if zone is None and not utc_offset:
                return datetime.fromisoformat(local + "+00:00")
            return datetime.fromisoformat(local).replace(tzinfo=_zone(zone, utc_offset)).astimezone(UTC)
        except (ValueError, OverflowError):  # 2026-13-45
            return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where the prefixes of a line end and what they tell stands, by characters of the printable line.

    It is the same for all lines that differ in nothing but their digits: no pattern tells one digit from another.
    """

    start: int
    rank: slice | None = None
    local: slice | None = None
    task: slice | None = None
    stamps: tuple[_Stamp, ...] = ()

    def rank_in(self, shown: str) -> int | None:
        """The rank that is meant, None where the prefixes don't tell.

        A local rank is the global one where nothing says that there are several nodes; beside a task number it is not.
        """
        place = self.rank
        if place is None:
            place = self.task if self.local is None else self.local if self.task is None else None
        return None if place is None else int(shown[place])

    def time_in(self, shown: str, *, utc_offset: timedelta) -> datetime | None:
        """The line's own time, in UTC, else that of a prefix."""
        for stamp in self.stamps:
            if at := stamp.read(shown, utc_offset=utc_offset):
                return at
        return None


class CleanLine(NamedTuple):
    """A log line without what is not its own.

    `rank` is the global rank where a prefix gives it. `task` is srun's label: it is the rank where a task is a rank,
    and the node's number where torchrun starts the ranks of a node. `shown` is for people: prefixes kept.
    `before` is what a carriage return overwrote last: where a line is printed upon a progress bar, the bar.
    `layout` is that of the whole printable line.
    """

    text: str
    shown: str
    layout: Layout
    rank: int | None = None
    task: int | None = None
    at: datetime | None = None
    before: str = ""


def clean(raw: str, *, utc_offset: timedelta = timedelta(0), layout: Layout | None = None) -> CleanLine:
    """Take colours, control characters, progress-bar history and the prefixes of launchers off a raw line.

    `utc_offset` is that of the cluster's local time: the time stamps of most trainers carry no zone. `layout`: where it
    is known from another line of the same shape.
    """
    before, last = _segments(raw) if "\r" in raw else ("", raw[:MAX_CHARS])
    shown = printable(last).rstrip()
    layout = layout or layout_of(shown)
    return CleanLine(
        text=shown[layout.start :],
        shown=shown[:SHOWN_CHARS],
        layout=layout,
        rank=layout.rank_in(shown),
        task=None if layout.task is None else int(shown[layout.task]),
        at=layout.time_in(shown, utc_offset=utc_offset),
        before=before,
    )


def layout_of(shown: str) -> Layout:
    """Where everything stands in a printable line."""
    start, places = 0, dict[str, slice]()
    stamps: list[_Stamp] = []
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(shown, start)
        if found is None or (found["task"] and "task" in places):
            break
        if found["time"]:
            stamps += _stamps(shown, start)
        elif found.lastgroup:  # a worker of Ray's tells nothing
            places.setdefault(
                "rank" if found.lastgroup == "mpi" else found.lastgroup, slice(*found.span(found.lastgroup))
            )
        start = found.end()
    return Layout(start=start, stamps=(*_stamps(shown, start), *stamps), **places)


def _segments(raw: str) -> tuple[str, str]:
    """What a terminal would show of a progress bar: its last state with anything in it, of the last few.

    Where that is no bar but was printed upon one, the bar comes first, else "".
    """
    parts = (part for part in reversed(raw[-_BAR_CHARS:].split("\r")) if part.strip())
    last = next(parts, "")
    before = "" if _BAR in last else next(parts, "")
    return printable(before[:MAX_CHARS]) if _BAR in before else "", last[:MAX_CHARS]


def printable(text: str) -> str:
    """`text` without escape sequences and characters that a page or a database should never see.

    Those are control characters, zero-width and direction-changing ones (they let a line look like another), and lone
    halves of pairs. Every kind of space becomes a plain one.
    """
    if text.isprintable():
        return text
    text = _ANSI.sub("", text)
    return "".join(char if char.isprintable() else " " if char.isspace() else "" for char in text)


def time_of(text: str, *, utc_offset: timedelta) -> datetime | None:
    """The time that a line carries at its start, or after a word that announces one; in UTC."""
    return next((stamp.read(text, utc_offset=utc_offset) for stamp in _stamps(text, 0)), None)


def _stamps(text: str, start: int) -> list[_Stamp]:
    """Where the time stands that the line carries from `start` on; none or one.

    Sources: Megatron's bracket, Python's logging (comma), ISO 8601 of containers and Slurm (`CANCELLED AT …`),
    torchelastic's `time : 2026-02-03_04:05:06`.
    """
    found = _TIME_FIRST.match(text, start)
    if found is None and (text.find("AT", start) >= 0 or text.find("time", start) >= 0):
        found = _TIME_NAMED.search(text, start, start + _TIME_WITHIN)
    if found is None:
        return []
    return [_Stamp(slice(*found.span(1)), None if found[2] is None else slice(*found.span(2)))]


def _zone(written: str | None, utc_offset: timedelta) -> timezone:
    if written is None:
        return timezone(utc_offset)
    if written == "Z":
        return UTC
    minutes = int(written[1:3]) * 60 + int(written[-2:])
    return timezone(timedelta(minutes=minutes if written[0] == "+" else -minutes))
