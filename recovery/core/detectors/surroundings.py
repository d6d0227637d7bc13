"""What alarms may know beside the attempt itself: its run, its ranks, what Slurm offers it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from recovery.core.types import JobState, Sample
from recovery.core.verify.restore import Told


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """How an attempt of the run ended. `signature` is the rule of its first failure, else state and exit code."""

    at: datetime
    step: int | None  # the last that it reported
    signature: str
    state: JobState
    saved_since: bool = False  # a checkpoint became complete between the end before and this one


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A job that waits for nodes. None: not known."""

    since: datetime
    needs: int  # nodes
    eligible: int | None  # nodes that it could start on, by what Slurm told of them
    ours: tuple[str, ...] = ()  # nodes that it excludes by our doing, and that could take it otherwise


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    gpus: int = 0  # of the attempt; 0: not counted
    saves_to: str = ""  # the run's folder of checkpoints; "": not known
    saved_step: int | None = None  # of the newest complete checkpoint of the run
    saved_at: datetime | None = None
    save_every_s: float | None = None  # the run's own rhythm
    expected_step: int | None = None  # of the newest checkpoint that was complete before the attempt started
    told: tuple[Told, ...] = ()  # where it continued, by its own sources
    log_interval: int | None = None  # steps between two reports
    is_verified: bool = False  # a case of ours watches this very restart, and speaks for itself
    ends: tuple[End, ...] = ()  # of the run, oldest first, this attempt's own included once it ended
    ranks: tuple[Sample, ...] = ()  # the newest reports of every rank that reports, oldest first
    node_of: tuple[tuple[int, str], ...] = ()  # rank and node, where a log told
    is_slow: bool = False  # a slowdown of this attempt was found and has not passed
    slow_elsewhere: tuple[tuple[str, int], ...] = ()  # node, and in how many other jobs it was among the slow lately
    waiting: Waiting | None = None
