"""Part of ingest: what lies ahead of a run's checkpoints, stored for pages and API.

Free space changes without any of the run's files changing, so it is asked for again every few minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings

from recovery.core.checkpoints import Saved
from recovery.core.outlook import Warned, foresee
from recovery.core.types import CheckpointState, JobState
from recovery.models import Attempt, Checkpoint, Outlook, Run
from recovery.sources.checkpoints import ROOTS_SETTING
from recovery.sources.checkpoints.space import Room, room_in

SPACE_EVERY = timedelta(minutes=5)  # free space is asked for
EVERY = timedelta(minutes=1)  # … where it is scarce, or something was warned of
SCARCE = 10  # saves that fit: below this, space can run out within minutes as others write too
HISTORY = 60  # checkpoints that count, the newest by step: rhythm and rotation of today
ELSEWHERE = "Not in the folder that the run uses now; the one where it was seen is not looked at any more."
_CUT = 300  # characters that the table holds

AskRoom = Callable[..., Room]


def foresee_checkpoints(attempt: Attempt, *, now: datetime, changed: bool, ask: AskRoom = room_in) -> None:
    """Update the outlook of the attempt's run, where its checkpoints changed or the time has come."""
    run = attempt.job.run
    saving = not JobState(attempt.state).is_terminal
    stored = Outlook.objects.filter(run=run).first()
    if stored is not None and not changed and not _is_due(stored, saving=saving, now=now):
        return
    history = history_of(run)
    room = _room(run, attempt, ask) if saving and history else Room(free_bytes=None, quota_bytes=None)
    ahead = foresee(history, free_bytes=room.free_bytes, quota_bytes=room.quota_bytes, now=now, saving=saving)
    told = {
        "free_bytes": room.free_bytes, "quota_bytes": room.quota_bytes, "needs_bytes": ahead.needs_bytes,
        "keeps": ahead.kept.count, "checked_at": now,
        "next_step": ahead.following.step if ahead.following and saving else None,
        "next_at": ahead.following.at if ahead.following and saving else None,
        **_warned("space", ahead.space), **_warned("rotation", ahead.rotation),
    }  # fmt: skip
    if stored is None:
        Outlook.objects.update_or_create(run=run, defaults=told)
    else:
        Outlook.objects.filter(pk=stored.pk).update(**told)


def _is_due(stored: Outlook, *, saving: bool, now: datetime) -> bool:
    """Whether it could say something else although no checkpoint changed: its next save is late, room is scarce or a
    warning stands, which tell the time; nothing writes there any more; or free space was not asked for in a while.
    """
    age = now - stored.checked_at
    warns = bool(stored.space_warning or stored.rotation_warning)
    if not saving:
        return warns or stored.next_at is not None
    late = stored.next_at is not None and stored.checked_at < stored.next_at <= now
    return age >= SPACE_EVERY or late or (age >= EVERY and (warns or _is_scarce(stored)))


def _is_scarce(stored: Outlook) -> bool:
    known = [each for each in (stored.free_bytes, stored.quota_bytes) if each is not None]
    return bool(known) and min(known) < SCARCE * (stored.needs_bytes or 0)


def history_of(run: Run) -> list[Saved]:
    """The newest by step, as the rules of core/checkpoints.py take them."""
    columns = ("step", "first_seen_at", "changed_at", "state", "detail", "size_bytes", "fingerprint")
    return [_saved(row) for row in Checkpoint.objects.filter(run=run).only(*columns).order_by("-step")[:HISTORY]]


def _saved(row: Checkpoint) -> Saved:
    """Removed is what was seen there once: it has a digest. What was seen of its removal is no writing. One that lies
    in another folder was not removed, and no rotation takes it.
    """
    state = CheckpointState(row.state)
    missing = state is CheckpointState.MISSING
    at = row.first_seen_at if missing else row.changed_at or row.first_seen_at
    removed = missing and row.fingerprint != "" and row.detail != ELSEWHERE
    return Saved(step=row.step, at=at, state=state, size_bytes=row.size_bytes, removed=removed)


def _room(run: Run, attempt: Attempt, ask: AskRoom) -> Room:
    user = attempt.job.user or run.user
    return ask(run.checkpoint_dir, user=user, roots=settings.CHECKPOINT_ROOTS, setting=ROOTS_SETTING)


def _warned(what: str, warned: Warned | None) -> dict[str, str]:
    return {
        f"{what}_warning": warned.text[:_CUT] if warned else "",
        f"{what}_remedy": warned.remedy[:_CUT] if warned else "",
    }
