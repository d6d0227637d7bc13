"""Crash loop: the run ends at one step again and again, alike, and no new checkpoint comes between."""

from __future__ import annotations

from recovery.core.detectors.alarm import Alarm, AlarmKind
from recovery.core.detectors.alarm_limits import AlarmLimits
from recovery.core.detectors.surroundings import End, Surroundings
from recovery.core.speech import steps
from recovery.core.types import AttemptFacts, Evidence, JobState, Role

# What ended it from outside says nothing of the program, however often it comes at one step.
FROM_OUTSIDE = frozenset(
    {JobState.COMPLETED, JobState.CANCELLED, JobState.PREEMPTED, JobState.REQUEUED, JobState.REVOKED}
)
REMEDY = (
    "Another restart will end there too: look at what is special about that step (data, memory, a save), or restore an "
    "older checkpoint."
)


def detect_crash_loop(facts: AttemptFacts, around: Surroundings, limits: AlarmLimits) -> Alarm | None:
    """An alarm while nothing lies beyond: it ends with a new checkpoint, or a step that was not reached before."""
    row = _row(around)
    if len(row) < limits.loop_ends or row[-1].step is None:
        return None
    reached = max(end.step or 0 for end in row) + (around.log_interval or 1)
    beyond = facts.last_step is not None and facts.last_step > reached
    saved = around.saved_at is not None and around.saved_at > row[-1].at
    if beyond or saved:
        return None
    reason = (
        f"The run ended {len(row)} times at step {steps(row[-1].step)} or within one report of it, each time alike "
        f"({row[-1].signature}), and no new checkpoint came between."
    )
    evidence = tuple(
        Evidence(
            text=f"Ended at step {steps(end.step)}: {end.signature}.", source="scheduler", role=Role.CONFIRMATION,
            rule="loop.end", at=end.at,
        )
        for end in row[-4:]
    )  # fmt: skip
    return Alarm(
        kind=AlarmKind.CRASH_LOOP, since=row[0].at, reason=reason, remedy=REMEDY, evidence=evidence
    )  # fmt: skip


def _row(around: Surroundings) -> list[End]:
    """The newest ends that are alike, oldest first."""
    row: list[End] = []
    for end in reversed(around.ends):
        if end.state in FROM_OUTSIDE or end.step is None:
            break
        if row and not _alike(end, row[-1], around.log_interval or 1):
            break
        row.append(end)
        if end.saved_since:
            break  # a checkpoint came before it: what ended earlier is another story
    return row[::-1]


def _alike(one: End, other: End, interval: int) -> bool:
    near = one.step is not None and other.step is not None and abs(one.step - other.step) <= interval
    return near and one.signature == other.signature
