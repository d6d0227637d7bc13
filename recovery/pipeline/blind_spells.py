"""When an attempt could not be observed: what the ledger calls unknown."""

from __future__ import annotations

from datetime import datetime

from recovery.models import Attempt, BlindSpell


def note_blindness(attempt: Attempt, was: str, now: datetime) -> None:
    """Called where `blind_reason` changes, in the same transaction: `was` is what it was before.

    A spell ends when the attempt can be observed again; another reason is the same spell, which keeps its first one.
    """
    if bool(was) == bool(attempt.blind_reason):
        return
    if attempt.blind_reason:
        fields = {"started_at": now, "reason": attempt.blind_reason[:300]}
        BlindSpell.objects.get_or_create(attempt=attempt, ended_at=None, defaults=fields)
    else:
        BlindSpell.objects.filter(attempt=attempt, ended_at=None).update(ended_at=now)
