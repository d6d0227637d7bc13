"""Did the training go on after a line? Then it was handled, or quoted, or belongs to an earlier start of the job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from recovery.core.types import AttemptFacts, Signal, SignalKind

# A step that was under way when one rank failed may still be reported by another: one report proves nothing.
STEPS_THAT_PROVE_LIFE = 2
# What was noted of a node is over for the training if it still reports steps so much later. The clocks of a kernel, of
# Slurm and of the log differ, Slurm waits for its time-outs, and what is lost may be missed only when it is needed.
OUTLIVED = timedelta(minutes=15)
CLOCKS_APART = timedelta(minutes=1)

_STARTS = frozenset({SignalKind.LOADED, SignalKind.FRESH_START})
_TRAINS = frozenset({SignalKind.PROGRESS, SignalKind.SAVE_STARTED, SignalKind.SAVE_DURABLE})


class Life:
    """The signs of life of one attempt, by place in each file and by time.

    What workers said before their launcher started them anew did not end the attempt either.
    """

    def __init__(self, facts: AttemptFacts) -> None:
        self._proved_until: dict[str, int] = {}  # file → the last line before which every failure was overcome
        self._workers_at = facts.workers_at
        self._proved_at = _second_last((sample.step, sample.at) for sample in facts.samples)
        end = (facts.ended_at or facts.now) + CLOCKS_APART  # what is dated later was dated by another clock
        self._outlived_at = _second_last((sample.step, sample.at) for sample in facts.samples if sample.at <= end)
        files: dict[str, list[Signal]] = {}
        for signal in facts.signals:
            files.setdefault(signal.file, []).append(signal)
        for file, signals in files.items():
            self._proved_until[file] = _proved_line(sorted(signals, key=lambda s: s.line))

    def went_on_after(self, failure: Signal) -> bool:
        if failure.line < self._proved_until[failure.file]:
            return True
        since = [at for at in (self._proved_at, self._workers_at) if at is not None]
        return failure.at is not None and bool(since) and failure.at < max(since)

    def outlived(self, at: datetime) -> bool:
        """Whether the training went on long after what was noted of one of its nodes at that time."""
        return self._outlived_at is not None and self._outlived_at - at >= OUTLIVED


def _proved_line(signals: Sequence[Signal]) -> int:
    """The last line that proves life for all before it: a save that ended, a second step, or a second start.

    A start proves it only if it trained before: an appended log then holds the attempt before, too. (The first load of
    an attempt may well be printed after another rank has failed in it.)
    """
    saved = max((s.line for s in signals if s.kind is SignalKind.SAVE_DURABLE), default=0)
    stepped = _second_last((s.step, s.line) for s in signals if s.kind is SignalKind.PROGRESS) or 0
    trained = next((s.line for s in signals if s.kind in _TRAINS), None)
    started = max((s.line for s in signals if s.kind in _STARTS), default=0)
    if trained is None or started < trained:
        started = 0
    return max(saved, stepped, started)


def _second_last(reports: Iterable[tuple[int | None, Any]]) -> Any:
    """The place from which on STEPS_THAT_PROVE_LIFE different steps were reported; None where there are fewer."""
    seen: set[int | None] = set()
    for step, place in sorted(reports, key=lambda report: report[1], reverse=True):
        seen.add(step)
        if len(seen) == STEPS_THAT_PROVE_LIFE:
            return place
    return None
