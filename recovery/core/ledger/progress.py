"""Which of a run's training survived: steps turned into moments.

A *stretch* is training without going back: from where an attempt continued to where it ended, or went back again. What
a stretch did beyond the step from which a later one continued was lost; a step up to there survived, or the later one
couldn't have had it. The newest stretch has no later one: there a complete checkpoint proves what is kept.

Steps count more than words: a word in mid-attempt that it starts from the beginning is passed over where the next
step lies beyond the last one before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from recovery.core.ledger.history import CheckpointDone, History
from recovery.core.ledger.lives import Life
from recovery.core.ledger.spans import to_us
from recovery.core.types import JobState

Mark = tuple[int, int]  # moment, step


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """`origin` is the step that it continued from, `marks` the steps seen, moments and steps rising.

    Its training begins with its first sample; what goes before that is start-up. Where only checkpoints tell of it, it
    begins with the stretch.
    """

    attempt: int
    start: int
    began: int
    end: int
    origin: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Worked:
    """The training of one stretch: kept until `cut`, from there on lost or not yet kept."""

    attempt: int
    start: int
    cut: int
    end: int
    lost: bool


@dataclass(slots=True)
class _Open:
    """A stretch that is being read. `origin` None: to be told from its first marks."""

    start: int
    origin: int | None
    marks: list[Mark] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Saved:
    """One complete checkpoint in microseconds, sorted by step."""

    step: int
    at: int
    attempt: int | None


def worked(history: History, lives: list[Life], *, now: int, over: bool) -> list[Worked]:
    """The training of every attempt.

    `over`: the run has ended. What no checkpoint holds then is lost too, unless its attempt came to its proper end.
    """
    saved = _saved(history.checkpoints)
    stretches = _stretches(history, lives, saved, now)
    finished = {life.attempt for life in lives if life.state is JobState.COMPLETED}
    floors = _floors(stretches)
    result = []
    for stretch, floor in zip(stretches, floors, strict=True):
        if not stretch.marks:
            continue
        cut = _moment_of(stretch, floor) if floor is not None else _saved_until(stretch, saved)
        lost = floor is not None or (over and history.sees_checkpoints and stretch.attempt not in finished)
        result.append(Worked(attempt=stretch.attempt, start=stretch.began, cut=cut, end=stretch.end, lost=lost))
    return result


def _saved(checkpoints: Iterable[CheckpointDone]) -> list[_Saved]:
    saved = (_Saved(c.step, to_us(c.completed_at), c.attempt) for c in checkpoints)
    return sorted(saved, key=lambda c: (c.step, c.at, c.attempt or 0))


def _stretches(history: History, lives: list[Life], saved: list[_Saved], now: int) -> list[Stretch]:
    """All stretches of the run, by their start."""
    seen: dict[int, set[tuple[int, int, int]]] = defaultdict(set)  # a restore comes before a step of the same moment
    for step in history.steps:
        seen[step.attempt].add((to_us(step.at), 1, step.step))
    for restore in history.restores:
        seen[restore.attempt].add((to_us(restore.at), 0, restore.step))
    written: dict[int, list[_Saved]] = defaultdict(list)
    for checkpoint in saved:
        if checkpoint.attempt is not None:
            written[checkpoint.attempt].append(checkpoint)
    result = []
    for life in lives:
        if life.started is None:
            continue
        end = life.ended if life.ended is not None else now + 1
        result += _of_attempt(
            life.attempt, sorted(seen[life.attempt]), written[life.attempt], saved, (life.started, end)
        )
    return sorted(result, key=lambda s: (s.start, s.attempt, s.end, s.origin))


def _of_attempt(
    attempt: int,
    events: list[tuple[int, int, int]],
    written: list[_Saved],
    saved: list[_Saved],
    bounds: tuple[int, int],
) -> list[Stretch]:
    first, last = bounds
    opened: list[_Open] = []
    for (at, is_step, step), next_step in zip(events, _next_steps(events), strict=True):
        at = min(max(at, first), last)
        if is_step:
            _take_step(opened, at, step)
        elif step or not _goes_on(opened, next_step):
            opened.append(_Open(at, step))
    if not opened and written:
        opened.append(_Open(first, None))
    result = []
    for part, following in zip_longest(opened, opened[1:]):
        end = last if following is None else following.start
        began = part.marks[0][0] if part.marks else part.start
        _take_checkpoints(part, written, end, is_last=following is None)
        origin = part.origin if part.origin is not None else _origin(part, saved)
        marks = tuple(part.marks)
        result.append(Stretch(attempt=attempt, start=part.start, began=began, end=end, origin=origin, marks=marks))
    return result


def _take_step(opened: list[_Open], at: int, step: int) -> None:
    """A step that was reached; one from before the last report means that the workers went back without a word."""
    part = opened[-1] if opened else None
    if part is None or step < _back_from(part):
        opened.append(_Open(at, None, [(at, step)]))
    elif not part.marks or step > part.marks[-1][1]:
        part.marks.append((at, step))


def _next_steps(events: list[tuple[int, int, int]]) -> list[int | None]:
    """For each event the first step that is reported after it."""
    found: list[int | None] = []
    following: int | None = None
    for _, is_step, step in reversed(events):
        found.append(following)
        if is_step:
            following = step
    return found[::-1]


def _goes_on(opened: list[_Open], next_step: int | None) -> bool:
    """Whether the next step belies a word that it starts from the beginning: it lies beyond the last one before."""
    marks = opened[-1].marks if opened else []
    return bool(marks) and next_step is not None and next_step > marks[-1][1]


def _back_from(part: _Open) -> int:
    """Below this step it went back. Neighbours that change places, as a clock is set or two streams mix, don't."""
    if len(part.marks) > 1:
        return part.marks[-2][1]
    return part.marks[0][1] if part.origin is None else part.origin


def _take_checkpoints(part: _Open, written: list[_Saved], end: int, *, is_last: bool) -> None:
    """What the attempt saved beyond its last sample was trained by then; so was what it saved without any sample.

    The last save may be seen to be complete only after the end.
    """
    at, step = part.marks[-1] if part.marks else (part.start, part.origin or 0)
    for checkpoint in written:
        seen = min(checkpoint.at, end)
        inside = checkpoint.at >= part.start and (checkpoint.at <= end or is_last)
        if inside and checkpoint.step > step and seen >= at:
            at, step = seen, checkpoint.step
            part.marks.append((at, step))


def _origin(part: _Open, saved: list[_Saved]) -> int:
    """Where it continued, told by its first marks: one report's steps before the first, or a checkpoint nearer by."""
    if not part.marks:
        return 0
    first = part.marks[0][1]
    strides = [b[1] - a[1] for a, b in pairwise(part.marks)]
    below = bisect_left(saved, first, key=lambda c: c.step) - 1
    while below >= 0 and saved[below].at > part.marks[0][0]:
        below -= 1
    near = saved[below].step if below >= 0 else None
    if strides:
        return max(0, first - min(strides), near if near is not None else 0)
    return max(0, near if near is not None else first - 1)


def _floors(stretches: list[Stretch]) -> list[int | None]:
    """For each stretch the least step from which one that began after its end continued; None: there is none."""
    starts = [stretch.start for stretch in stretches]
    least: list[int | None] = [None] * (len(stretches) + 1)
    for index in range(len(stretches) - 1, -1, -1):
        after = least[index + 1]
        origin = stretches[index].origin
        least[index] = origin if after is None else min(origin, after)
    return [least[max(index + 1, bisect_left(starts, s.end))] for index, s in enumerate(stretches)]


def _moment_of(stretch: Stretch, step: int) -> int:
    """When `step` was done: at its mark, else in proportion between two; the end where it lies beyond all."""
    index = bisect_right(stretch.marks, step, key=lambda mark: mark[1])
    if index == 0:
        return stretch.began
    at, reached = stretch.marks[index - 1]
    if reached == step:
        return at
    if index == len(stretch.marks):
        return stretch.end
    later, further = stretch.marks[index]
    return at + (later - at) * (step - reached) // (further - reached)


def _saved_until(stretch: Stretch, saved: list[_Saved]) -> int:
    """The newest moment whose steps a complete checkpoint of this stretch holds.

    One whose writer isn't known counts where the stretch had done its step before: an older one may be seen late.
    """
    moments = [stretch.began]
    for checkpoint in saved:
        done = _moment_of(stretch, checkpoint.step)
        written = checkpoint.attempt == stretch.attempt or (checkpoint.attempt is None and done <= checkpoint.at)
        if written:
            moments.append(min(done, checkpoint.at))
    return max(moments)
