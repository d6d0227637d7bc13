"""What is proposed where a plain requeue does not fit: release, hold, cancel, resubmit, extend, restore older.

Pure, like recommend.py, which asks here first. Each needs a person except where recovery/core/policy.py says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from recovery.core.speech import duration, listed, steps
from recovery.core.types import (
    ActionKind,
    AttemptFacts,
    CheckpointState,
    Diagnosis,
    FailureClass,
    JobState,
    PastFailure,
    Restart,
)

LOOP = 2  # earlier failures without a new checkpoint: with the present one Slurm has fed it three times
ROOM = 1.5  # a limit is extended by so many of the run's checkpoint intervals beyond its last checkpoint …
LEAST_ROOM = timedelta(minutes=10)  # … and by this much beyond the next one at least
# A running job of these classes is slow, fine, or not understood: nothing speaks for ending it.
_MAY_RUN = frozenset({FailureClass.STRAGGLER, FailureClass.NOT_A_FAILURE, FailureClass.COMPLETED, FailureClass.UNKNOWN})


@dataclass(frozen=True, kw_only=True, slots=True)
class Restorable:
    """An older complete checkpoint, and the file that makes the trainer load it. `why_not`: why we can't write it."""

    step: int
    path: str
    folder: str
    tracker: str
    old: str
    write: str
    writer: str
    why_not: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Around:
    """What these proposals need to know beside the facts of the attempt.

    `resubmit_why_not`: why the job can't be submitted again, "" where it can. `saved_at` and `save_every_s`: when the
    run's newest checkpoint was complete, and its own interval. `held_by_slurm`: after a failed launch; `held_by_us`:
    as was decided.
    """

    held_by_slurm: bool = False
    held_by_us: bool = False
    resubmit_why_not: str = "Its batch script is not known."
    restorable: Restorable | None = None
    saved_at: datetime | None = None
    save_every_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Instead:
    """An action with what is said of it; `headline` is whole."""

    action: ActionKind
    headline: str
    reasons: tuple[str, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)


def instead_of_nothing(
    diagnosis: Diagnosis, facts: AttemptFacts, around: Around, history: Sequence[PastFailure], *, held: bool
) -> Instead | None:
    """What could be done where a requeue is out of the question; None where nothing is right."""
    if diagnosis.failure_class is FailureClass.EXTERNAL_CANCEL or facts.state is JobState.CANCELLED:
        return None
    if around.held_by_slurm:
        return release_after_launch_failure(facts)
    if facts.requeued_by_slurm or facts.state is JobState.REQUEUED:
        return None if held else _hold_loop(history)
    return _restore_older(diagnosis, facts, around) or _cancel(diagnosis, facts) or extension(facts, around)


def release_after_launch_failure(facts: AttemptFacts) -> Instead:
    return Instead(
        action=ActionKind.RELEASE, headline="Release the job, which Slurm itself holds because it could not launch it.",
        reasons=("Slurm takes the node out of service where its prolog failed; the job may start on others.",),
        parameters={"of": "slurm"},
    )  # fmt: skip


def _hold_loop(history: Sequence[PastFailure]) -> Instead | None:
    """Slurm's own requeueing feeds a crash loop: no budget of ours ends that."""
    barren = 0
    for past in reversed(history):
        if past.checkpoint_since or past.acted:
            break
        barren += 1
    if barren < LOOP:
        return None
    headline = f"Hold the job: Slurm has put it back {barren + 1} times with no new complete checkpoint between."
    return Instead(
        action=ActionKind.HOLD, headline=headline,
        reasons=("Each start takes its nodes and fails again; held, it keeps its place and its id.",),
    )  # fmt: skip


def _cancel(diagnosis: Diagnosis, facts: AttemptFacts) -> Instead | None:
    """A job that hangs for a reason that a restart does not cure holds its nodes until its time limit."""
    hopeless = diagnosis.restart is Restart.AFTER_CHANGE and diagnosis.failure_class not in _MAY_RUN
    if facts.state is not JobState.RUNNING or not hopeless:
        return None
    return Instead(
        action=ActionKind.CANCEL,
        headline="Cancel the job: it stands still, and the same again would fail the same way.",
        reasons=("Until then it keeps its nodes to no purpose. Its user can submit it again when it is mended.",),
    )


def _restore_older(diagnosis: Diagnosis, facts: AttemptFacts, around: Around) -> Instead | None:
    """It dies on a torn checkpoint although an older one is complete."""
    found = around.restorable
    if diagnosis.failure_class is not FailureClass.CHECKPOINT_INCOMPLETE or found is None or found.why_not:
        return None
    if found.write == found.old or not facts.state.is_terminal:
        return None  # a plain requeue loads it
    torn = [c for c in facts.checkpoints if c.step > found.step and c.state is not CheckpointState.COMPLETE]
    newest = f", the newest, {steps(torn[-1].step)}, is {torn[-1].state}" if torn else ""
    return restoring(found, headline=f"Requeue from the complete checkpoint {steps(found.step)}{newest}.")


def restoring(found: Restorable, *, headline: str) -> Instead:
    return Instead(
        action=ActionKind.RESTORE_OLDER, headline=headline,
        reasons=(
            f"{found.folder}/{found.tracker} says {found.old} and will say {found.write}; it is written as "
            f"{found.writer}. No checkpoint is touched.",
        ),
        parameters={
            "step": found.step, "folder": found.folder, "tracker": found.tracker, "old": found.old,
            "write": found.write, "writer": found.writer, "then": "requeue",
        },
    )  # fmt: skip


def extension(facts: AttemptFacts, around: Around) -> Instead | None:
    """The run would lose work to its time limit: its next checkpoint is due after it."""
    if facts.state is not JobState.RUNNING or facts.started_at is None or facts.time_limit_s is None:
        return None
    if around.saved_at is None or around.save_every_s is None:
        return None
    limit = facts.started_at + timedelta(seconds=facts.time_limit_s)
    due = max(around.saved_at + timedelta(seconds=around.save_every_s), facts.now)
    if due <= limit or limit <= facts.now:
        return None
    wanted = max(around.saved_at + timedelta(seconds=ROOM * around.save_every_s), due + LEAST_ROOM)
    seconds = 60.0 * math.ceil((wanted - facts.started_at).total_seconds() / 60)
    late = duration((due - limit).total_seconds())
    return Instead(
        action=ActionKind.EXTEND_TIME_LIMIT,
        headline=f"Extend the time limit by {duration(seconds - facts.time_limit_s)} to {duration(seconds)}.",
        reasons=(
            f"Its next checkpoint is expected at {due:%H:%M} UTC, {late} after the limit: the work since "
            f"{around.saved_at:%H:%M} UTC would be lost.",
        ),
        parameters={"seconds": seconds, "from_s": facts.time_limit_s},
    )


def resubmission(job_id: str, user: str, nodes: Sequence[str], *, forgotten: bool, why: str, tail: str) -> Instead:
    """Cancel and submit again; `why` a requeue is impossible, `tail` what it restores."""
    without = f" without {listed(nodes)}" if nodes else ""
    waiting = f"Jobs that wait for job {job_id} (--dependency) go on waiting for the old id: their owners must be told."
    return Instead(
        action=ActionKind.RESUBMIT,
        headline=f"Submit the job again{without}{tail}",
        reasons=(
            why,
            f"The stored batch script is submitted as {user}, with {user}'s login environment: variables of the shell "
            "from which it was first submitted are not known.",
            waiting,
        ),
        parameters={"forgotten": True} if forgotten else {},
    )
