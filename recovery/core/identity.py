"""Which job and which attempt a scheduler's record speaks of. Slurm reuses job ids and overwrites submit times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Identity(StrEnum):
    SAME_ATTEMPT = "same_attempt"
    REQUEUING = "requeuing"  # the restart is counted already, but the old execution is still completing
    NEW_ATTEMPT = "new_attempt"  # the job was requeued
    NEW_JOB = "new_job"  # the id is reused, or was never seen
    OLD_NEWS = "old_news"  # the record is older than what we know: to be ignored


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """What identifies one execution: who submitted which name when, and the how-manieth start it is.

    `unique_id` is Slurm's own identity (SLUID), "" where the release has none. It is of one execution: every requeue
    makes a new one, at once; holds, releases, updates and a restart of the controller keep it (measured on 26.05).
    """

    submitted_at: datetime
    restart_count: int
    user: str
    name: str
    unique_id: str = ""


def identify(known: Fingerprint | None, seen: Fingerprint, *, completing: bool = False) -> Identity:
    """Compare a record with the newest that we know under the same job id; `completing`: the record's state.

    A requeue moves the restart count up at once, and the submit time when the old execution has completed; where a node
    died meanwhile, the submit time is never moved (both seen on Slurm 22.05). A new submission under a reused id
    starts again from 0 restarts, or belongs to somebody else.

    Submit times are of the controller's clock. Where that was put back, a higher restart count tells of a requeue. A
    new submission under the same id looks like an older record then, and is ignored until the clock has caught up:
    nothing tells the two apart, and a restart of what is no longer there would be worse.
    """
    if known is None:
        return Identity.NEW_JOB
    if seen.submitted_at < known.submitted_at and not _is_requeue(known, seen):
        return Identity.OLD_NEWS
    restarts = seen.restart_count - known.restart_count
    if _is_other_submission(known, seen):
        return Identity.NEW_JOB
    if restarts < 0:
        return Identity.OLD_NEWS
    if restarts == 0:
        return Identity.SAME_ATTEMPT
    return Identity.REQUEUING if completing and seen.submitted_at == known.submitted_at else Identity.NEW_ATTEMPT


def _is_other_submission(known: Fingerprint, seen: Fingerprint) -> bool:
    """Slurm's own identity decides where both have it, the rest where not.

    Equal means the same execution, whatever was renamed since. A different one on a higher restart count is a requeue,
    if owner and name are the same.
    """
    if known.unique_id and seen.unique_id:
        return seen.unique_id != known.unique_id and not _is_requeue(known, seen)
    return seen.submitted_at != known.submitted_at and not _is_requeue(known, seen)


def _is_requeue(known: Fingerprint, seen: Fingerprint) -> bool:
    return (seen.user, seen.name) == (known.user, known.name) and seen.restart_count > known.restart_count
