"""Which of the trainer's next saves destroys the good checkpoint, and when: a restart from scratch overwrites a run.

A trainer that counts from the beginning saves at the same steps again, into the same names; and where old checkpoints
are removed, each of its saves pushes an old one out. Both are foreseen from what the run did so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from recovery.core.checkpoints import Kept, Saved, by_age, retention
from recovery.core.speech import steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Danger:
    """What would destroy the good checkpoint `step`. `in_s` None: when can't be told; 0: at any moment."""

    step: int
    in_s: float | None
    sentence: str  # without the time, which passes: "… by its save at step 120, the 6th from now"


def save_interval(saved: Sequence[Saved]) -> int | None:
    """Steps between two saves: the median distance of the steps that the run saved at. None: fewer than two."""
    known = sorted({each.step for each in saved})
    gaps = [after - before for before, after in pairwise(known)]
    return median_low(gaps) if gaps else None


def danger_ahead(
    *,
    good_step: int,
    saved: Sequence[Saved],
    at_step: int,
    began_at: int,
    step_time_s: float | None,
    save_s: float = 0.0,
) -> Danger | None:
    """The first of the next saves that destroys `good_step`, or None where none does.

    `at_step` is the last step reported, `began_at` the one it continued from. Which checkpoint a rotation takes (the
    oldest, or the one with the lowest step) is not known beforehand, so the worse is assumed: the oldest.
    """
    if not any(each.step == good_step and each.is_there for each in saved):
        return None
    every = save_interval(saved)
    if every is None:
        text = f"Its next save may destroy step {steps(good_step)}: how often this run saves was not seen yet."
        return Danger(step=good_step, in_s=None, sentence=text)
    kept = retention(saved)
    following = _next_save(every, saved, at_step=at_step, began_at=began_at)
    overwrites, rotates = _saves_to_overwrite(good_step, following, every), _saves_to_rotate(good_step, kept, saved)
    number = min((each for each in (overwrites, rotates) if each is not None), default=None)
    if number is None:
        return None
    last = following + (number - 1) * every
    how = "overwrites" if number == overwrites else "pushes out"
    keeps = "" if how == "overwrites" else f": the folder keeps {kept.count}"
    text = f"It {how} step {steps(good_step)} with its save at step {steps(last)}, {_ordinal(number)} from now{keeps}."
    in_s = None if step_time_s is None else (last - at_step) * step_time_s + (number - 1) * save_s
    return Danger(step=good_step, in_s=in_s, sentence=text)


def _next_save(every: int, saved: Sequence[Saved], *, at_step: int, began_at: int) -> int:
    """Most trainers save at multiples of the interval; one that doesn't counts from where it continued."""
    on_grid = sum(each.step % every == 0 for each in saved)
    start = 0 if on_grid * 2 > len(saved) else began_at
    return start + ((at_step - start) // every + 1) * every


def _saves_to_overwrite(good_step: int, following: int, every: int) -> int | None:
    distance = good_step - following
    return distance // every + 1 if distance >= 0 and distance % every == 0 else None


def _saves_to_rotate(good_step: int, kept: Kept, saved: Sequence[Saved]) -> int | None:
    if kept.count is None:
        return None
    rotated = [each.step for each in by_age(saved) if each.step not in kept.for_good]
    return rotated.index(good_step) + 1 if good_step in rotated else None


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return "the next one" if number == 1 else f"the {number}{suffix}"
