"""By when something must be seen, learned from the run's own history. Seconds throughout; time in the queue is no part.

A deadline is a high quantile of what earlier attempts of the run took, with room, within a floor and a ceiling. One
slow start must not stretch it for ever, so it is a quantile and no maximum, once there are enough values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recovery.core.series import quantile
from recovery.core.speech import duration

SHARE = 0.9  # so many of the earlier ones were as quick
ROOM = 1.5  # … and half as much again: a cold cache, a slower file system
FEW = 3  # of fewer values no quantile can be told: the longest one counts …
ROOM_FOR_FEW = 2.0  # … with more room

# A client of NFS may show a file's growth a minute late (acregmax, 60 s unless mounted otherwise: nfs(5)), and a look
# comes a poll later: nothing can be called late sooner than that.
FLOOR_S = 90.0
# Of starts: hang_ceiling_s of the detectors (recovery/core/detectors/limits.py), beyond which silence is a hang
# whatever was normal before.
START_CEILING_S = 4 * 3600.0
# Of a run without any history: twice the hour that Meta's study of its research clusters (Kokolis et al., 2024) takes
# for the time between two checkpoints.
CHECKPOINT_UNKNOWN_S = 2 * 3600.0
# Twice the longest interval that we know to be published: BLOOM-176B saved about every three hours.
CHECKPOINT_CEILING_S = 6 * 3600.0
# Of a call: a requeue shows when the old attempt's nodes are cleaned up, which UnkillableStepTimeout, prolog and epilog
# bound to minutes each; an hour later somebody has to look.
CALL_CEILING_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How long an earlier attempt of the run took: from its start to its load line, and to its first step.

    None where that was not seen.
    """

    to_restore_s: float | None = None
    to_first_step_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Deadline:
    within_s: float
    basis: str  # what it was learned from, shown as it is


def restore_time(starts: Sequence[Start], *, unknown_s: float) -> Deadline:
    """From the start of an attempt until it tells where it continues: start-up and load.

    `unknown_s` holds where no earlier start was seen (RECOVERY_HANG_FIRST_STEP_S: start-up, loading and compilation).
    A first step tells too, so attempts without a load line count with theirs.
    """
    seen = [s.to_restore_s if s.to_restore_s is not None else s.to_first_step_s for s in starts]
    return _learn(seen, "start", unknown_s=unknown_s, floor_s=FLOOR_S, ceiling_s=START_CEILING_S)


def first_step_time(starts: Sequence[Start], *, unknown_s: float) -> Deadline:
    """From the load line to the first step: compilation and warm-up."""
    seen = [
        s.to_first_step_s - s.to_restore_s
        for s in starts
        if s.to_first_step_s is not None and s.to_restore_s is not None and s.to_first_step_s >= s.to_restore_s
    ]
    return _learn(seen, "first step", unknown_s=unknown_s, floor_s=FLOOR_S, ceiling_s=START_CEILING_S)


def checkpoint_time(intervals: Sequence[float]) -> Deadline:
    """From the first step until the next checkpoint. `intervals` lie between two checkpoints of one attempt."""
    return _learn(
        intervals, "checkpoint interval", unknown_s=CHECKPOINT_UNKNOWN_S, floor_s=FLOOR_S,
        ceiling_s=CHECKPOINT_CEILING_S,
    )  # fmt: skip


def call_time(calls: Sequence[float], *, least_s: float) -> Deadline:
    """From the first call of an action until the scheduler shows its effect; `least_s` is what any action has."""
    return _learn(calls, "call", unknown_s=least_s, floor_s=least_s, ceiling_s=max(least_s, CALL_CEILING_S))


def usual_wait(waits: Sequence[float | None]) -> str:
    """How long the run waited in the queue before, as a clause: shown, and no deadline. "" without history."""
    values = [value for value in waits if value is not None and value >= 0]
    return _usual(values, "wait")[1] if values else ""


def _learn(seen: Sequence[float | None], what: str, *, unknown_s: float, floor_s: float, ceiling_s: float) -> Deadline:
    values = [value for value in seen if value is not None and value >= 0]
    if not values:
        return Deadline(within_s=unknown_s, basis=f"no {what} of this run was seen before: {duration(unknown_s)}")
    usual, told = _usual(values, what)
    room, more = (ROOM_FOR_FEW, "doubled") if len(values) < FEW else (ROOM, "half as much again")
    basis, within = f"{told}; {more}", usual * room
    if within < floor_s:
        return Deadline(within_s=floor_s, basis=f"{basis}, at least {duration(floor_s)}")
    if within > ceiling_s:
        return Deadline(within_s=ceiling_s, basis=f"{basis}, at most {duration(ceiling_s)}")
    return Deadline(within_s=within, basis=basis)


def _usual(values: Sequence[float], what: str) -> tuple[float, str]:
    """What most of them took at most, and that as a clause."""
    if len(values) < FEW:
        return max(values), f"the longest {what} of this run so far took {duration(max(values))}"
    usual = quantile(values, SHARE)
    return usual, f"nine in ten of {len(values)} {what}s of this run took at most {duration(usual)}"
