"""One raw log line made readable: what is noise, what is a prefix that others put before it, and what is left.

Everything here is linear in the length of the line, and a line is cut before anything is matched against it: a job's
output is hostile input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

MAX_CHARS = 4096  # of a line that are looked at; the longest progress lines known have fewer than 1000
SHOWN_CHARS = 500  # of a line that are kept as evidence
_BAR_CHARS = 4 * MAX_CHARS  # at the end of a line in which the last state of a progress bar is looked for
_BAR = "%|"  # in every state of tqdm's bars
MAX_STEP = 2**31 - 1  # steps are stored as 32-bit integers; a greater number is not a step
MAX_RANK = 10**7 - 1

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
_TIME_WITHIN = 400  # characters in which a named time may begin


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanLine:
    """A log line without what is not its own.

    `rank` is the global rank where a prefix gives it. `task` is srun's label: it is the rank where a task is a rank,
    and the node's number where torchrun starts the ranks of a node. `shown` is for people: prefixes kept.
    `before` is what a carriage return overwrote last: where a line is printed upon a progress bar, the bar.
    """

    text: str
    shown: str
    rank: int | None = None
    task: int | None = None
    at: datetime | None = None
    before: str = ""


def clean(raw: str, *, utc_offset: timedelta = timedelta(0)) -> CleanLine:
    """Take colours, control characters, progress-bar history and the prefixes of launchers off a raw line.

    `utc_offset` is that of the cluster's local time: the time stamps of most trainers carry no zone.
    """
    before, last = _segments(raw) if "\r" in raw else ("", raw[:MAX_CHARS])
    shown = printable(last).rstrip()
    text, rank, local_rank, task, at = shown, None, None, None, None
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(text)
        if found is None or (found["task"] and task is not None):
            break
        if found["time"]:
            at = at or time_of(found["time"], utc_offset=utc_offset)
        elif told := found["rank"] or found["mpi"]:
            rank = int(told) if rank is None else rank
        elif found["local"]:
            local_rank = int(found["local"]) if local_rank is None else local_rank
        elif found["task"]:
            task = int(found["task"])
        text = text[found.end() :]
    return CleanLine(
        text=text,
        shown=shown[:SHOWN_CHARS],
        rank=_global_rank(rank, local_rank, task),
        task=task,
        at=time_of(text, utc_offset=utc_offset) or at,
        before=before,
    )


def _global_rank(rank: int | None, local_rank: int | None, task: int | None) -> int | None:
    """The rank that is meant, None where the prefixes don't tell.

    A local rank is the global one where nothing says that there are several nodes; beside a task number it is not.
    """
    if rank is not None:
        return rank
    if local_rank is not None:
        return local_rank if task is None else None
    return task


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
    """The time that a line carries at its start, or after a word that announces one; in UTC.

    Sources: Megatron's bracket, Python's logging (comma), ISO 8601 of containers and Slurm (`CANCELLED AT …`),
    torchelastic's `time : 2026-02-03_04:05:06`.
    """
    found = _TIME_FIRST.match(text)
    if found is None:
        if "AT" not in text and "time" not in text:
            return None
        found = _TIME_NAMED.search(text, 0, _TIME_WITHIN)
        if found is None:
            return None
    try:
        local = datetime.fromisoformat(found[1])
        if found[2] is None and not utc_offset:
            return local.replace(tzinfo=UTC)
        return local.replace(tzinfo=_zone(found[2], utc_offset)).astimezone(UTC)
    except (ValueError, OverflowError):  # 2026-13-45, or a year that no clock can hold
        return None


def _zone(written: str | None, utc_offset: timedelta) -> timezone:
    if written is None:
        return timezone(utc_offset)
    if written == "Z":
        return UTC
    minutes = int(written[1:3]) * 60 + int(written[-2:])
    return timezone(timedelta(minutes=minutes if written[0] == "+" else -minutes))
