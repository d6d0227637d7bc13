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

    `unique_id` is Slurm's own identity of a submission, "" where the release has none.
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
    """
    if known is None:
        return Identity.NEW_JOB
    if seen.submitted_at < known.submitted_at:
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

    Equal means the same submission, whatever was renamed since. A different one on a higher restart count is still
    taken for a requeue, if owner and name are the same: no promise is known that a requeue keeps it.
    """
    same_owner = (seen.user, seen.name) == (known.user, known.name)
    counted_up = seen.restart_count > known.restart_count
    if known.unique_id and seen.unique_id:
        return seen.unique_id != known.unique_id and not (same_owner and counted_up)
    if seen.submitted_at == known.submitted_at:
        return False
    return not (same_owner and counted_up)
