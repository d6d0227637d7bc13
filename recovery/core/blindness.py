"""Blind: an attempt that runs and can't be observed. Why, what would help, and when that can change by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

LINES_BEFORE_BLIND = 2000  # so many lines without any progress line: the format is not one that we can read
LATE_LOG = timedelta(seconds=60)  # a log that does not exist so long after the start is reported
UNKNOWN_FORMAT = (
    "Print progress in a known format (docs/trainers.md lists them), for example “step 120 | loss 2.3”, or have an "
    "administrator give the policy a log pattern for this trainer's lines."
)
MUTE = "Its trainer's progress bar is one that leaves nothing in a log before the end."
MOUNT = "Check the job's output path, and that this host mounts the file system that holds it."


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """What was to be seen of a running attempt in its logs.

    `patience_s` is the limit of the first step: after half of it a log that grows without a step speaks otherwise, as
    long as it grew within a quarter of it.
    """

    now: datetime
    started_at: datetime
    patience_s: float
    stepped: bool  # any step was ever read
    lines: int  # read so far, in all files
    grew_at: datetime | None
    missing: str = ""  # a log that does not exist
    trouble: str = ""  # a log that can't be read, and what would help
    remedy: str = ""
    mute: bool = False  # a trainer is heard that reports its progress nowhere in its log
    advice: str = ""  # what would make the trainers print it that are heard


def blindness(sight: Sight) -> tuple[str, str]:
    """Why it can't be observed and what would help; two empty strings where it can."""
    if sight.trouble:
        return sight.trouble, sight.remedy
    if sight.missing and sight.now - sight.started_at > LATE_LOG:
        seconds = int(LATE_LOG.total_seconds())
        return f"The log {sight.missing} does not exist, more than {seconds} s after the start.", MOUNT
    if sight.stepped:
        return "", ""
    if sight.lines > LINES_BEFORE_BLIND:
        return (
            f"More than {LINES_BEFORE_BLIND} log lines were read, none with progress in a known format.",
            _how_to_print(sight),
        )
    if _long_running(sight) and sight.mute:
        return MUTE, _how_to_print(sight)
    if _long_running(sight) and _grew_lately(sight):
        return "Its log grows, but no line of it reports progress in a known format.", _how_to_print(sight)
    return "", ""


def _how_to_print(sight: Sight) -> str:
    return f"{sight.advice} docs/trainers.md has more." if sight.advice else UNKNOWN_FORMAT


def next_change(sight: Sight) -> datetime | None:
    """When `blindness` can say something else although nothing new is read; None: never."""
    times = []
    if sight.missing:
        times.append(sight.started_at + LATE_LOG)
    if not sight.stepped and sight.grew_at is not None:
        patience = timedelta(seconds=sight.patience_s)
        times += [sight.started_at + patience / 2, sight.grew_at + patience / 4]
    return min((at for at in times if at >= sight.now), default=None)


def _long_running(sight: Sight) -> bool:
    return (sight.now - sight.started_at).total_seconds() >= sight.patience_s / 2


def _grew_lately(sight: Sight) -> bool:
    return sight.grew_at is not None and (sight.now - sight.grew_at).total_seconds() < sight.patience_s / 4
