"""Shared stall: it stands still with other jobs since the same minute. That is the storage or the network, not the job.

A hang of its own would be restarted; restarting all of them at once would only load what is slow already. So a shared
stall gives the jobs more time (hang.py), and says what it is.
"""

from __future__ import annotations

from recovery.core.detectors.alarm import Alarm, AlarmKind
from recovery.core.detectors.alarm_limits import AlarmLimits
from recovery.core.detectors.surroundings import Surroundings
from recovery.core.speech import counted, duration
from recovery.core.types import AttemptFacts, Evidence, Role

REMEDY = "Look at the file systems and the network that these jobs share before any of them is restarted."


def detect_shared_stall(facts: AttemptFacts, around: Surroundings, limits: AlarmLimits) -> Alarm | None:
    """An alarm where others stopped with it; `facts.stalled_with` counts them, and is asked for when it is overdue."""
    if not facts.stalled_with or facts.last_progress_at is None:
        return None
    silent = duration((facts.now - facts.last_progress_at).total_seconds())
    reason = (
        f"No progress for {silent}, and {counted(facts.stalled_with, 'other job')} of the cluster stopped within the "
        f"same two minutes: storage or network rather than this job."
    )
    evidence = Evidence(
        text=reason, source="job log", role=Role.CONFIRMATION, rule="stall.shared", at=facts.last_progress_at
    )  # fmt: skip
    return Alarm(
        kind=AlarmKind.SHARED_STALL, since=facts.last_progress_at, reason=reason, remedy=REMEDY, evidence=(evidence,)
    )  # fmt: skip
