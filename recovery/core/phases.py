"""What an attempt is doing, told by what its log says.

The scheduler knows only *pending* and *running*; a start, a first step that compiles, and a save each have their own
idea of how long silence may last, so detectors ask for the phase before they call anything a hang.
"""

from __future__ import annotations

from recovery.core.types import Phase, Signal, SignalKind

# A line was read from it, but no step yet: what follows is the first step, with its compilation and warm-up.
_NOT_SPOKEN = frozenset({Phase.QUEUED, Phase.STARTING, Phase.UNKNOWN})


def next_phase(current: Phase, signal: Signal) -> Phase:
    """The phase after `signal` was read in phase `current`.

    - Progress means training, whatever went before: an asynchronous save goes on behind it, a launcher that restarts
      its workers within the attempt trains again.
    - A load or a fresh start leads to the first step, from any phase.
    - A save that starts leads to saving, and its end back to training; the end of an asynchronous save comes later,
      in the midst of training, and changes nothing.
    - An evaluation is one only after the first step: before it, the first step still lies ahead. It ends with its own
      last line, or with progress where the trainer prints none.
    - What is finishing stays so until it trains again: the last save of all comes after the trainer's farewell.
    - A failure line by itself changes nothing but the fact that the attempt has spoken.
    """
    match signal.kind:
        case SignalKind.PROGRESS:
            return Phase.TRAINING
        case SignalKind.LOADED | SignalKind.FRESH_START:
            return Phase.FIRST_STEP
        case SignalKind.FINISHED:
            return Phase.FINISHING
        case SignalKind.SAVE_STARTED if current is not Phase.FINISHING:
            return Phase.SAVING
        case SignalKind.SAVE_DURABLE if current is Phase.SAVING:
            return Phase.TRAINING
        case SignalKind.EVAL_STARTED if current in (Phase.TRAINING, Phase.SAVING):
            return Phase.EVALUATING
        case SignalKind.EVAL_FINISHED if current is Phase.EVALUATING:
            return Phase.TRAINING
    return Phase.FIRST_STEP if current in _NOT_SPOKEN else current
