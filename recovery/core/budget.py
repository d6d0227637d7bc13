"""Every automatic loop ends: how often a run may be restarted without a person.

A new complete checkpoint earns the budget back, because the run has got further; a bound per day remains, so that even
a run that saves once between two crashes reaches a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from recovery.core.speech import steps
from recovery.core.types import FailureClass, PastFailure

DAY = timedelta(days=1)
PER_DAY = 4  # times max_restarts: automatic restarts of one run in 24 hours, new checkpoints or not


def stop_reason(
    history: Sequence[PastFailure],
    *,
    failed_step: int | None,
    max_restarts: int,
    now: datetime,
    log_interval: int | None = None,
) -> str:
    """Why automation must stop for this run, as a sentence; "" if it may go on.

    `history` holds the run's earlier failures, `failed_step` is the last step before the present one (None: no step was
    ever reported). Two failures count as one place if they lie within one `log_interval` of steps (1 where unknown).
    """
    barren = [past for past in history if not past.checkpoint_since]
    if place := _same_place(barren, failed_step, log_interval or 1):
        return place
    spent = sum(past.acted for past in barren)
    if spent >= max_restarts:
        return f"The budget is used up: {spent} of {max_restarts} restarts since the last new checkpoint."
    today = sum(past.acted for past in history if now - past.at <= DAY)
    if today >= PER_DAY * max_restarts:
        return f"{today} restarts in the last 24 hours: at most {PER_DAY * max_restarts} go without a person."
    return ""


def _same_place(barren: Sequence[PastFailure], failed_step: int | None, tolerance: int) -> str:
    for past in barren:
        if past.step is None or failed_step is None:
            if past.step is failed_step:
                return "It failed before its first step, as it did the last time."
        elif abs(past.step - failed_step) <= tolerance:
            return f"It failed at step {steps(failed_step)} again, with no new complete checkpoint between."
    return ""


def class_spent(
    history: Sequence[PastFailure], failure_class: FailureClass, *, most: int | None, window: timedelta, now: datetime
) -> str:
    """Why no further failure of this class goes without a person; "" if it may. `most` None: no such bound."""
    if most is None:
        return ""
    spent = sum(past.acted and past.failure_class is failure_class and now - past.at <= window for past in history)
    if spent < most:
        return ""
    return f"{spent} restarts for {failure_class} within {window.total_seconds():g} s: at most {most} go without one."


def ready_at(history: Sequence[PastFailure], *, backoff: timedelta) -> datetime | None:
    """When the next automatic restart may come: `backoff` after the last, twice as long for each further one since the
    last new checkpoint, a day at most. None: at once.
    """
    barren = [past.at for past in history if past.acted and not past.checkpoint_since]
    if not barren or not backoff:
        return None
    doublings = min(len(barren) - 1, 17)  # 2**17 s is more than a day
    return max(barren) + min(DAY, backoff * (1 << doublings))
