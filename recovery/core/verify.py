"""Verification: did the restarted job continue where it was expected to?

A restarted job is not a recovered job. Only what the trainer itself reports counts: the checkpoint it says it loaded,
its word that it starts without one, and the first step it reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from recovery.core.speech import steps


class RestoreVerdict(StrEnum):
    WAITING = "waiting"  # nothing was reported yet
    AS_EXPECTED = "as_expected"  # at the expected checkpoint or a later one
    OLDER = "older"  # continued, but from an older checkpoint
    FROM_SCRATCH = "from_scratch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Restore:
    """`step` is where it continued, None where that is only known within bounds (the reason says which)."""

    verdict: RestoreVerdict
    step: int | None
    reason: str


def judge_restore(
    *,
    expected_step: int | None,
    loaded_step: int | None,
    fresh_start: bool,
    first_step: int | None,
    log_interval: int | None,
) -> Restore:
    """Compare what was expected with what the new attempt reports.

    `expected_step` None: there was no complete checkpoint, so starting from scratch is right. `log_interval` is the
    number of steps between two reports where it is known. A load line decides, unless the steps that follow belie it:
    a trainer that loads weights but counts from 1 has not restored its run.
    """
    if expected_step is None:
        return _nothing_expected(loaded_step, fresh_start, first_step)
    if loaded_step is not None:
        return _by_load(expected_step, loaded_step, fresh_start, first_step)
    if fresh_start:
        text = f"The trainer says that it starts without a checkpoint; step {steps(expected_step)} was expected."
        return Restore(verdict=RestoreVerdict.FROM_SCRATCH, step=0, reason=text)
    if first_step is not None:
        return _by_first_step(expected_step, first_step, log_interval)
    text = f"Nothing reported yet; step {steps(expected_step)} is expected."
    return Restore(verdict=RestoreVerdict.WAITING, step=None, reason=text)


def _nothing_expected(loaded_step: int | None, fresh_start: bool, first_step: int | None) -> Restore:
    if loaded_step is not None:
        text = f"Restored at step {steps(loaded_step)}, though no complete checkpoint was known."
        return Restore(verdict=RestoreVerdict.AS_EXPECTED, step=loaded_step, reason=text)
    if fresh_start or first_step is not None:
        text = "Started from scratch, as expected: there was no complete checkpoint."
        return Restore(verdict=RestoreVerdict.AS_EXPECTED, step=0, reason=text)
    text = "Nothing reported yet; there is no checkpoint to restore."
    return Restore(verdict=RestoreVerdict.WAITING, step=None, reason=text)


def _by_load(expected: int, loaded: int, fresh_start: bool, first_step: int | None) -> Restore:
    said = f"The trainer says that it loaded step {steps(loaded)}"
    if first_step is not None and first_step < loaded:
        text = f"{said}, but the first step it reports is {steps(first_step)}: it did not continue there."
        return Restore(
            verdict=RestoreVerdict.FROM_SCRATCH if first_step <= 1 else RestoreVerdict.OLDER, step=None, reason=text
        )
    doubt = " It also says that it starts without a checkpoint." if fresh_start else ""
    if loaded < expected:
        verdict = RestoreVerdict.OLDER if loaded > 0 else RestoreVerdict.FROM_SCRATCH
        text = f"{said}; step {steps(expected)} was expected, {steps(expected - loaded)} steps are lost again.{doubt}"
        return Restore(verdict=verdict, step=loaded, reason=text)
    later = f", later than the expected {steps(expected)}" if loaded > expected else ", as expected"
    return Restore(verdict=RestoreVerdict.AS_EXPECTED, step=loaded, reason=f"{said}{later}.{doubt}")


def _by_first_step(expected: int, first: int, log_interval: int | None) -> Restore:
    if first > expected:
        near = log_interval is None or first <= expected + log_interval
        text = f"No load line; the first step reported is {steps(first)}, after the expected {steps(expected)}."
        return Restore(verdict=RestoreVerdict.AS_EXPECTED, step=expected if near else None, reason=text)
    if first <= (log_interval or 1):
        text = f"No load line; the first step reported is {steps(first)}: it started from scratch."
        return Restore(verdict=RestoreVerdict.FROM_SCRATCH, step=0, reason=text)
    text = f"No load line; the first step reported is {steps(first)}, before the expected {steps(expected)}."
    return Restore(verdict=RestoreVerdict.OLDER, step=None, reason=text)
