"""What lies ahead of a run's checkpoints: is there room for the next one, and does rotation leave a good one.

Trainers save first and remove the oldest afterwards (Hugging Face's `_rotate_checkpoints`, Megatron's retention), so
that there must be room for one more than they keep. A full file system is the failure that takes the newest
checkpoint with it, and it can be seen coming.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from recovery.core.checkpoints import Kept, NextSave, Saved, next_save, retention
from recovery.core.speech import listed, steps
from recovery.core.types import CheckpointState

FEW = 3  # saves that still fit: below this it is said, so that somebody has the time to make room
LAST_SIZES = 3  # the largest of so many last complete ones is what the next will need
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """What is about to go wrong, and what would help."""

    text: str
    remedy: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    kept: Kept
    following: NextSave | None
    needs_bytes: int | None  # of the next save; None: no complete one was measured
    space: Warned | None  # None: there is room, as far as can be told
    rotation: Warned | None  # None: a complete one stays


def foresee(
    history: Sequence[Saved], *, free_bytes: int | None, quota_bytes: int | None, now: datetime, saving: bool = True
) -> Outlook:
    """`free_bytes` of the file system, `quota_bytes` left to the user; None where it can't be told.

    `saving` is False where nothing writes there any more: then nothing is warned of.
    """
    kept, following, needs = retention(history), next_save(history), needed(history)
    space = rotation = None
    if saving:
        space = _space(kept, following, needs, free_bytes=free_bytes, quota_bytes=quota_bytes, now=now)
        rotation = _rotation(history, kept, following, now=now)
    return Outlook(kept=kept, following=following, needs_bytes=needs, space=space, rotation=rotation)


def needed(history: Sequence[Saved]) -> int | None:
    """Bytes that the next save needs: as many as the largest of the last complete ones."""
    whole = sorted((each for each in history if each.state is CheckpointState.COMPLETE), key=lambda each: each.step)
    return max((each.size_bytes for each in whole[-LAST_SIZES:] if each.size_bytes), default=None)


def _space(
    kept: Kept, following: NextSave | None, needs: int | None, *, free_bytes: int | None, quota_bytes: int | None,
    now: datetime,
) -> Warned | None:  # fmt: skip
    known = [each for each in (free_bytes, quota_bytes) if each is not None]
    if not needs or not known:
        return None
    free, fits = min(known), min(known) // needs
    rotates = kept.count is not None
    if fits >= (1 if rotates else FEW):
        return None
    left = f"{size(free)} {'are left of the quota' if free == quota_bytes else 'are free'}"
    remedy = f"Make room for {size(needs)} where the checkpoints are, or let the trainer keep fewer."
    if not fits:
        when = f": it fails at about {_clock(following.at, now)}" if following else ": it will fail"
        return Warned(text=f"The next save needs {size(needs)}, {left}{when}.", remedy=remedy)
    due = following.at + fits * following.every if following else None
    when = f", at about {_clock(due, now)}," if due else ""
    more = "one more save fits" if fits == 1 else f"{fits} more saves fit"
    text = f"A save needs {size(needs)}, {left} and none was removed so far: {more}, the one after{when} fails."
    return Warned(text=text, remedy=remedy)


def _rotation(history: Sequence[Saved], kept: Kept, following: NextSave | None, *, now: datetime) -> Warned | None:
    """Newer ones are torn, and the next save lets rotation remove the last complete one.

    The next save may be whole. But so should the torn ones have been, and until it is there is nothing to restore.
    """
    if kept.count is None:
        return None
    there = sorted((e for e in history if not e.removed and e.step not in kept.for_good), key=lambda e: -e.step)
    rotated = [each for each in there if each.state not in (CheckpointState.MISSING, CheckpointState.ANNOUNCED)]
    good = next((place for place, each in enumerate(rotated) if each.state is CheckpointState.COMPLETE), None)
    if not good or good + 1 < kept.count:  # none, the newest, or one that stays beside the next
        return None
    if any(e.state is CheckpointState.COMPLETE and e.step in kept.for_good for e in history):
        return None
    last, torn = rotated[good].step, [steps(each.step) for each in rotated[:good]]
    when = f", at about {_clock(following.at, now)}," if following else ""
    verb = "is" if len(torn) == 1 else "are"
    return Warned(
        text=f"Step {steps(last)} is the last complete checkpoint; {listed(torn)} {verb} not. "
        f"{kept.count} {'is' if kept.count == 1 else 'are'} kept, so the next save{when} removes it.",
        remedy=f"Copy step {steps(last)} elsewhere, or move the newer ones out of the folder, before the next save.",
    )


def size(count: int) -> str:
    """ "210 GB", "1.4 TB": decimal units, as quotas and vendors count."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit and value < 9.95 else f"{value:.0f} {_UNITS[unit]}"


def _clock(at: datetime, now: datetime) -> str:
    """An estimate never lies in the past: a save that is late is due now."""
    due = max(at, now).astimezone(UTC)
    return f"{due:%H:%M} UTC" if due.date() == now.astimezone(UTC).date() else f"{due:%d %b %H:%M} UTC"
