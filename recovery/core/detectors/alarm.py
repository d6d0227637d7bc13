"""Alarms: what a detector says of an attempt for people to know. Nothing is ever done on one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from recovery.core.types import Evidence


class AlarmKind(StrEnum):
    NUMERICS = "numerics"  # the loss is no number any more, diverges, or is no longer printed
    NOT_STARTING = "not_starting"  # it waits for nodes that it can't get, or its ranks do not find each other
    UNSAVED = "unsaved"  # it trains, and its checkpoints do not come
    NOT_RESTORED = "not_restored"  # it did not continue where the run's newest checkpoint stood
    CRASH_LOOP = "crash_loop"  # the run ends again and again at one step
    STRAGGLER = "straggler"  # one rank is slow, and all others wait for it
    SHARED_STALL = "shared_stall"  # it stands still with other jobs since the same minute: storage or network


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    kind: AlarmKind
    since: datetime  # when it began, as far as can be told
    reason: str  # one sentence, shown as it is
    remedy: str  # what a person can do about it
    evidence: tuple[Evidence, ...] = ()
