"""Single values out of Slurm's JSON, in whatever shape its release gives them: strict about what they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from recovery.slurm import hostlist

NO_VALUE = frozenset({4_294_967_294, 4_294_967_295})  # slurm.h: NO_VAL, INFINITE
MAX_COUNT = 2**31 - 1  # more of anything is no count, and no column of a database

# No time is taken for later than this. Any user may write `sbatch --begin=now+3000000days`, and a year behind 9999 is
# more than a clock, a time zone or a database can hold.
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
_LATEST_S = int(LATEST.timestamp())
_LATEST_TEXT = "9000"
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(r"[0-9]{4,12}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")


class BadAnswer(ValueError):
    """An answer that can't be trusted as a whole; says why."""


def clean(text: str) -> str:
    """Without what no database stores: NUL, and halves of characters that an escape in the JSON may have left."""
    return text.replace("\0", "").encode(errors="replace").decode()


def text(entry: Mapping[str, Any], key: str) -> str:
    """Not there and null are ""; a value that is no text spoils the answer."""
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadAnswer(f"{key} is {type(value).__name__} instead of text")
    return clean(value)


def words(entry: Mapping[str, Any], key: str) -> list[str]:
    """States and flags, in capitals: "RUNNING", "IDLE+DRAIN" or ["IDLE", "DRAIN"]."""
    value = entry.get(key)
    parts = value.split("+") if isinstance(value, str) else value if isinstance(value, list) else []
    return [str(part).strip().upper() for part in parts]


def number(entry: Mapping[str, Any], key: str) -> int | None:
    """A number in any of Slurm's shapes; None where it is not set, infinite or not there."""
    value = entry.get(key)
    if isinstance(value, dict):
        usable = value.get("set", False) and not value.get("infinite", False)
        value = value.get("number") if usable else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        raise BadAnswer(f"{key} is {str(value)[:50]!r} instead of a number")
    return None if value in NO_VALUE else int(value)


def count(entry: Mapping[str, Any], key: str) -> int | None:
    """A number of things; None where there are more than could be."""
    value = number(entry, key)
    return value if value is None or value <= MAX_COUNT else None


def flag(entry: Mapping[str, Any], key: str) -> bool:
    value = entry.get(key)
    return value if isinstance(value, bool) else bool(number(entry, key))


def time(entry: Mapping[str, Any], key: str) -> datetime | None:
    """Unix seconds; 0 is not set."""
    seconds = number(entry, key)
    return datetime.fromtimestamp(min(seconds, _LATEST_S), UTC) if seconds else None


def time_of(text: str) -> datetime:
    """ "2026-11-30T00:28:21", in UTC; Slurm writes years of more than four digits, too. Raises BadAnswer."""
    if not _TIME.fullmatch(text):
        raise BadAnswer(f"{text[:50]!r} is no time")
    if text >= _LATEST_TEXT or text[4] != "-":
        return LATEST
    try:
        return max(datetime.fromisoformat(text).replace(tzinfo=UTC), _EARLIEST)
    except ValueError as error:
        raise BadAnswer(f"{text[:50]!r} is no time") from error


def nodes(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(text(entry, key))
    except hostlist.BadHostlist as error:
        raise BadAnswer(f"{key}: {error}") from error
