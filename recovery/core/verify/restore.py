"""Where did the new attempt continue? Four sources tell it, each from its own place, and they may contradict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from recovery.core.speech import steps


class RestoreVerdict(StrEnum):
    WAITING = "waiting"  # nothing was reported yet
    AS_EXPECTED = "as_expected"  # at the expected checkpoint or a later one
    OLDER = "older"  # continued, but from an older checkpoint
    FROM_SCRATCH = "from_scratch"


class Source(StrEnum):
    """Who tells the restored step, the most trusted first; the value is how it reads in a sentence."""

    LOAD = "load line"
    FRESH = "line that says it starts without a checkpoint"
    FIRST_STEP = "first step line"
    TRACKER = "tracker file"


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What one source says, and where it stands. `line` counts from 1; None: not a line of a log."""

    source: Source
    step: int
    file: str = ""
    line: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Restore:
    """`step` is where it continued, None where that is only known within bounds (the reason says which).

    `contradictions` are sentences: what one source says against another. They don't decide, they are shown.
    """

    verdict: RestoreVerdict
    step: int | None
    reason: str
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Words:
    """The step of each source; None where it says nothing."""

    loaded: int | None
    fresh: bool
    first: int | None
    tracker: int | None
    log_interval: int | None


def judge_restore(*, expected_step: int | None, told: Sequence[Told], log_interval: int | None) -> Restore:
    """Compare what was expected with what the new attempt's sources tell; of each source the last word counts.

    `expected_step` None: there was no complete checkpoint, so starting from scratch is right. `log_interval` is the
    number of steps between two reports where it is known. A load line decides, unless the steps that follow belie it:
    a trainer that loads weights but counts from 1 has not restored its run. The tracker file says what a trainer will
    load, not that it did: it never decides alone.
    """
    by = {each.source: each.step for each in told}
    words = _Words(
        loaded=by.get(Source.LOAD), fresh=Source.FRESH in by, first=by.get(Source.FIRST_STEP),
        tracker=by.get(Source.TRACKER), log_interval=log_interval,
    )  # fmt: skip
    found = _nothing_expected(words) if expected_step is None else _expected(expected_step, words)
    return Restore(
        verdict=found.verdict, step=found.step, reason=found.reason, contradictions=tuple(_contradictions(words))
    )


def _expected(expected: int, words: _Words) -> Restore:
    if words.loaded is not None:
        return _by_load(expected, words.loaded, words)
    if words.fresh:
        text = f"The trainer says that it starts without a checkpoint; step {steps(expected)} was expected."
        return Restore(verdict=RestoreVerdict.FROM_SCRATCH, step=0, reason=text)
    if words.first is not None:
        return _by_first_step(expected, words.first, words)
    text = f"Nothing reported yet; step {steps(expected)} is expected."
    if words.tracker is not None and words.tracker != expected:
        text = (
            f"Nothing reported yet; step {steps(expected)} is expected, the tracker file names {steps(words.tracker)}."
        )
    return Restore(verdict=RestoreVerdict.WAITING, step=None, reason=text)


def _nothing_expected(words: _Words) -> Restore:
    if words.loaded is not None:
        text = f"Restored at step {steps(words.loaded)}, though no complete checkpoint was known."
        return Restore(verdict=RestoreVerdict.AS_EXPECTED, step=words.loaded, reason=text)
    if words.fresh or words.first is not None:
        text = "Started from scratch, as expected: there was no complete checkpoint."
        return Restore(verdict=RestoreVerdict.AS_EXPECTED, step=0, reason=text)
    text = "Nothing reported yet; there is no checkpoint to restore."
    return Restore(verdict=RestoreVerdict.WAITING, step=None, reason=text)


def _by_load(expected: int, loaded: int, words: _Words) -> Restore:
    first = words.first
    said = f"The trainer says that it loaded step {steps(loaded)}"
    if first is not None and first < loaded:
        text = f"{said}, but the first step it reports is {steps(first)}: it did not continue there."
        verdict = RestoreVerdict.FROM_SCRATCH if first <= (words.log_interval or 1) else RestoreVerdict.OLDER
        return Restore(verdict=verdict, step=None, reason=text)
    if loaded < expected:
        verdict = RestoreVerdict.OLDER if loaded > 0 else RestoreVerdict.FROM_SCRATCH
        text = f"{said}; step {steps(expected)} was expected, {steps(expected - loaded)} steps are lost again."
        return Restore(verdict=verdict, step=loaded, reason=text)
    later = f", later than the expected {steps(expected)}" if loaded > expected else ", as expected"
    return Restore(verdict=RestoreVerdict.AS_EXPECTED, step=loaded, reason=f"{said}{later}.")


def _by_first_step(expected: int, first: int, words: _Words) -> Restore:
    """No load line: the restored step lies below the first reported one, by a log interval at most."""
    said = f"No load line; the first step reported is {steps(first)}"
    near = None if words.log_interval is None else first - words.log_interval  # it continued there or later
    named = words.tracker
    fits = named is not None and named < first and (near is None or named >= near)
    also = f", and the tracker file named {steps(named)}" if fits else ""
    if first > expected and not (fits and named is not None and named < expected):
        step = expected if near is None or expected >= near else None
        text = f"{said}, after the expected {steps(expected)}{also}."
        return Restore(verdict=RestoreVerdict.AS_EXPECTED, step=named if fits else step, reason=text)
    if first <= (words.log_interval or 1):
        text = f"{said}: it started from scratch."
        return Restore(verdict=RestoreVerdict.FROM_SCRATCH, step=0, reason=text)
    where = "before" if first <= expected else "after"
    text = f"{said}, {where} the expected {steps(expected)}{also}."
    return Restore(verdict=RestoreVerdict.OLDER, step=named if fits else None, reason=text)


def _contradictions(words: _Words) -> list[str]:
    found = []
    if words.loaded is not None and words.fresh:
        found.append(
            f"The trainer says that it loaded step {steps(words.loaded)}, and also that it starts without a checkpoint."
        )
    if words.loaded is not None and words.first is not None:
        if words.first < words.loaded:
            found.append(f"Step {steps(words.loaded)} was loaded, but the first step reported is {steps(words.first)}.")
        elif words.log_interval is not None and words.first > words.loaded + words.log_interval:
            found.append(
                f"Step {steps(words.loaded)} was loaded, but the first step reported is {steps(words.first)}: "
                f"more than the {steps(words.log_interval)} steps between two reports."
            )
    return found + _against_tracker(words)


def _against_tracker(words: _Words) -> list[str]:
    if words.tracker is None:
        return []
    named = f"The tracker file named step {steps(words.tracker)}"
    if words.loaded is not None:
        differs = words.loaded != words.tracker
        return [f"{named}, but the trainer says that it loaded {steps(words.loaded)}."] if differs else []
    if words.fresh:
        return [f"{named}, but the trainer says that it starts without a checkpoint."]
    if words.first is not None and words.first <= words.tracker:
        return [f"{named}, but the first step reported is {steps(words.first)}."]
    return []
