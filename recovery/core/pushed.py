"""What a job pushes: rows as they come over the network, checked, and what they say.

Rows are hostile input, as a log is: every field is bounded here, and a text becomes evidence only where a rule of the
failure catalogue knows it, exactly as if it had stood in the job's log.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from recovery.core.logs import LogParser
from recovery.core.logs.lines import LARGEST, MAX_RANK, MAX_STEP
from recovery.core.types import LogLine, Signal, SignalKind

MOST_TEXT = 20_000  # characters of a failure's text that are kept; the rest is cut off
MOST_LINES = 400  # of a text
MOST_PATH = 1000
LINES_PER_ROW = 1000  # line numbers that one row may take up

K = SignalKind
# A phase that is told by its name is the signal that a log would have given.
PHASES = {"training": K.EVAL_FINISHED, "saving": K.SAVE_STARTED, "evaluating": K.EVAL_STARTED, "finishing": K.FINISHED}
KINDS = (*(kind.value for kind in SignalKind), "phase")
NUMBERS = ("loss", "throughput", "step_time_s", "tokens")
FIELDS = ("kind", "at", "step", "rank", *NUMBERS, "path", "text", "phase")
NEEDS_STEP = frozenset({K.PROGRESS})
FILE = "pushed"  # stands where a log's path would


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrong:
    """What is wrong with one field of one row; the message says what to give instead."""

    index: int
    field: str
    message: str


class _Refused(Exception):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def read_row(given: Any, *, index: int, received_at: datetime) -> dict[str, Any] | Wrong:
    """One row as it is stored (JSON values only, only known fields), or what is wrong with it. Never raises."""
    try:
        return _row(given, received_at)
    except _Refused as refused:
        return Wrong(index=index, field=refused.field, message=refused.message)


def _row(given: Any, received_at: datetime) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise _Refused("", 'Give an object, as {"kind": "progress", "step": 120}.')
    for name in given:
        if name not in FIELDS:
            raise _Refused(str(name)[:50], f"There is no such field; choose from: {', '.join(FIELDS)}.")
    kind = _kind(given)
    row: dict[str, Any] = {"kind": kind.value, "at": _at(given.get("at"), received_at).isoformat()}
    row["step"] = _whole(given.get("step"), "step", most=MAX_STEP)
    if row["step"] is None and kind in NEEDS_STEP:
        raise _Refused("step", f"A row of kind {kind} needs the step, a whole number of 0 or more.")
    row["rank"] = _whole(given.get("rank"), "rank", most=MAX_RANK)
    for name in NUMBERS:
        row[name] = _number(given.get(name), name)
    row["path"] = _text(given.get("path"), "path", most=MOST_PATH)
    row["text"] = _text(given.get("text"), "text", most=MOST_TEXT)
    if kind is K.FAILURE and not row["text"].strip():
        raise _Refused("text", "A row of kind failure needs the text: what the process said when it failed.")
    return {name: value for name, value in row.items() if value not in (None, "")}


def _kind(given: Mapping[str, Any]) -> SignalKind:
    kind = given.get("kind", "progress")
    if kind == "phase":
        phase = given.get("phase")
        if not isinstance(phase, str) or phase not in PHASES:
            raise _Refused("phase", f"Give one of: {', '.join(PHASES)}.")
        return PHASES[phase]
    if not isinstance(kind, str) or kind not in KINDS:
        raise _Refused("kind", f"Give one of: {', '.join(KINDS)}.")
    return SignalKind(kind)


def _at(value: Any, received_at: datetime) -> datetime:
    """Seconds since 1970, or ISO 8601 with its offset; nothing: when the row came. The future is not believed."""
    if value is None:
        return received_at
    try:
        at = _moment(value)
    except (ValueError, OverflowError, OSError):
        raise _Refused("at", "Give seconds since 1970, or ISO 8601 with an offset: 2026-01-31T12:00:00Z.") from None
    return min(at, received_at)


def _moment(value: Any) -> datetime:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    if not isinstance(value, str):
        return datetime.fromtimestamp(value, UTC)
    at = datetime.fromisoformat(value[:40])
    if at.tzinfo is None:
        raise ValueError
    return at.astimezone(UTC)


def _whole(value: Any, field: str, *, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one kind of number: 120 and 120.0 are the same
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise _Refused(field, f"Give a whole number from 0 to {most}.")
    return value


def _number(value: Any, field: str) -> float | None:
    """A finite number; the words that JSON lacks (nan, inf) mean that there is none to compare."""
    if value is None or (isinstance(value, str) and value.lower() in ("nan", "inf", "-inf", "infinity", "-infinity")):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Refused(field, "Give a number, or null.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    return number if abs(number) <= LARGEST else None


def _text(value: Any, field: str, *, most: int) -> str:
    """What every database can keep: no NUL, no half of a character pair."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Refused(field, "Give a text.")
    return value[:most].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def signals_of(row: Mapping[str, Any], *, line: int) -> Iterator[Signal]:
    """The signals of one stored row. The row itself is their key: sent again, in whatever batch, it adds nothing."""
    kind, at = SignalKind(row["kind"]), datetime.fromisoformat(row["at"])
    key = int.from_bytes(blake2b(repr(sorted(row.items())).encode(), digest_size=7).digest(), "big")
    if row.get("text"):
        yield from _failures(row, at=at, line=line, key=key)
    if kind is K.FAILURE:
        return
    yield Signal(
        kind=kind,
        file=FILE,
        line=line,
        offset=key,
        text=_shown(row),
        rule=f"push.{kind}",
        at=at,
        step=row.get("step"),
        path=row.get("path", ""),
        rank=row.get("rank"),
        loss=row.get("loss"),
        throughput=row.get("throughput"),
        step_time_s=row.get("step_time_s"),
        tokens=row.get("tokens"),
    )


def _failures(row: Mapping[str, Any], *, at: datetime, line: int, key: int) -> Iterator[Signal]:
    """What the failure catalogue knows of the text, line by line."""
    parser = LogParser()
    for number, text in enumerate(row["text"].splitlines()[:MOST_LINES]):
        given = LogLine(text=text, file=FILE, number=line + number + 1, offset=key + number + 1)
        for signal in parser.feed(given):
            if signal.kind is K.FAILURE:
                rank = row.get("rank") if signal.rank is None else signal.rank
                yield Signal(
                    kind=K.FAILURE, file=FILE, line=signal.line, offset=signal.offset, text=signal.text,
                    rule=signal.rule, at=at, step=row.get("step"), rank=rank, node=signal.node,
                )  # fmt: skip


def _shown(row: Mapping[str, Any]) -> str:
    words = [f"{name} {row[name]}" for name in ("step", "path") if name in row]
    return " ".join(["pushed:", row["kind"], *words])[:500]
