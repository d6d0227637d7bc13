"""Metrics files: one JSON object a line, or CSV with a header. Lines in, signals out; pure, never raises.

Columns are told by their names (`NAMES`), whatever their order and case. A line without a step is no progress.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from recovery.core.logs.lines import LARGEST, MAX_RANK, MAX_STEP, SHOWN_CHARS
from recovery.core.types import LogLine, Signal, SignalKind

# Each field by the names that trainers and loggers give it, as `_normal` writes them.
NAMES: dict[str, tuple[str, ...]] = {
    "step": (
        "step", "global_step", "iteration", "iter", "trainer_global_step", "train_global_step", "train_step",
        "num_updates", "batch_num", "_step",
    ),
    "loss": (
        "loss", "train_loss", "training_loss", "lm_loss", "train_lm_loss", "reduced_train_loss", "loss_train_total",
        "total_loss", "loss_train", "train_loss_step",
    ),
    "throughput": (
        "throughput", "tokens_per_second", "tokens_per_sec", "tokens_s", "tps", "throughput_tokens_per_sec",
        "samples_per_second", "samples_per_sec", "train_samples_per_second", "throughput_device_tps",
    ),
    "step_time_s": ("step_time_s", "step_time", "iteration_time", "iteration_time_s", "time_per_step", "sec_per_step"),
    "step_time_ms": ("step_time_ms", "iteration_time_ms", "elapsed_time_per_iteration_ms", "ms_per_step"),
    "tokens": ("tokens", "tokens_seen", "num_tokens_seen", "consumed_tokens", "total_tokens", "time_token"),
    "rank": ("rank", "global_rank"),
    "at": ("at", "time", "timestamp", "ts", "datetime", "_timestamp", "wall_time", "created_at"),
    "kind": ("kind", "event"),
    "path": ("path", "checkpoint_dir"),
}  # fmt: skip
_FIELD_OF = {name: field for field, names in NAMES.items() for name in names}
_OTHER = re.compile(r"[^a-z0-9_]+")
_TOLD = frozenset(SignalKind) - {SignalKind.FAILURE}
_MILLISECONDS = 10**11  # seconds since 1970 have fewer digits for the next three thousand years

# JSON values only: it is stored between two looks. Of a CSV file "columns", where those that are read stand, and how
# many "cells" a line has; "last" step; "again": steps up to it come once more because the file was written anew, and
# lines without a time of their own would count twice.
Memory = dict[str, Any]


def feed(line: LogLine, memory: Memory) -> Iterator[Signal]:
    """The signals of one line. Linear in the line."""
    text = line.text.strip().lstrip("\ufeff")
    values = _json(text) if text.startswith("{") else _csv(text, memory)
    if not values:
        return
    step = _whole(values.get("step"), most=MAX_STEP)
    told = values.get("kind")
    kind = SignalKind(told) if isinstance(told, str) and told in _TOLD else SignalKind.PROGRESS
    at = _moment(values.get("at"))
    if kind is SignalKind.PROGRESS and (step is None or _comes_again(step, at, memory)):
        return
    if step is not None:
        memory["last"] = step
    step_time = _number(values.get("step_time_s"))
    if step_time is None and (ms := _number(values.get("step_time_ms"))) is not None:
        step_time = ms / 1000
    yield Signal(
        kind=kind,
        file=line.file,
        line=line.number,
        offset=line.offset,
        text=_printable(text[:SHOWN_CHARS]),
        rule="metrics.csv" if "columns" in memory else "metrics.json",
        at=at,
        step=step,
        path=_printable(str(values.get("path") or "")[:1000]),
        rank=_whole(values.get("rank"), most=MAX_RANK),
        loss=_number(values.get("loss")),
        throughput=_number(values.get("throughput")),
        step_time_s=step_time,
        tokens=_number(values.get("tokens")),
    )


def _printable(text: str) -> str:
    """What every database can keep, and every page show."""
    return "".join(char if char.isprintable() else " " for char in text)


def written_anew(memory: Memory) -> None:
    """The file is read from its start again: a logger wrote it anew, with what it held before."""
    memory["again"] = memory.get("last", -1)
    memory.pop("columns", None)


def _comes_again(step: int, at: datetime | None, memory: Memory) -> bool:
    if at is not None or "again" not in memory:
        return False
    if step <= memory["again"]:
        return True
    del memory["again"]
    return False


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return _fields(found) if isinstance(found, dict) else {}


def _csv(text: str, memory: Memory) -> dict[str, Any]:
    separator = memory.get("separator") or _separator(text)
    try:
        cells = next(csv.reader([text.replace("\0", "")], delimiter=separator), [])
    except csv.Error:
        return {}
    columns: dict[str, int] = memory.get("columns", {})
    row = _fields({name: cells[at] for name, at in columns.items()}) if len(cells) == memory.get("cells") else {}
    if _number(row.get("step")) is not None:
        return row  # whatever its other cells are called
    header = [_normal(cell) for cell in cells]
    if any(_FIELD_OF.get(name) == "step" for name in header):
        memory["columns"] = {name: at for at, name in enumerate(header) if name in _FIELD_OF}
        memory["cells"], memory["separator"] = len(cells), separator
        return {}
    return row


def _separator(text: str) -> str:
    return max((",", ";", "\t"), key=text.count)


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the row says, by our names; of several columns for one field the first name of NAMES counts."""
    named = {_normal(str(name)): value for name, value in row.items()}
    found: dict[str, Any] = {}
    for field, names in NAMES.items():
        value = next((named[name] for name in names if named.get(name) not in (None, "")), None)
        if value is not None:
            found[field] = value
    return found


def _normal(name: str) -> str:
    return _OTHER.sub("_", name[:100].strip().lower()).rstrip("_")


def _whole(value: Any, *, most: int) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) and 0 <= number <= most else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= LARGEST else None


def _moment(value: Any) -> datetime | None:
    """Seconds or milliseconds since 1970, or ISO 8601 with an offset; a time without one could be of any zone."""
    number = _number(value)
    try:
        if number is not None:
            return datetime.fromtimestamp(number / 1000 if number > _MILLISECONDS else number, UTC) if number else None
        at = datetime.fromisoformat(value[:40]) if isinstance(value, str) else None
        return at.astimezone(UTC) if at is not None and at.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        return None
