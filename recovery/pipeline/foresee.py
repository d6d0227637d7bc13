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

EVERY = timedelta(minutes=1)
HISTORY = 60  # checkpoints that count, the newest by step: rhythm and rotation of today
_CUT = 300  # characters that the table holds

AskRoom = Callable[..., Room]


def foresee_checkpoints(attempt: Attempt, *, now: datetime, changed: bool, ask: AskRoom = room_in) -> None:
    """Update the outlook of the attempt's run: where its checkpoints changed, else once a minute at most."""
    run = attempt.job.run
    stored = Outlook.objects.filter(run=run).first()
    if stored is not None and not changed and now - stored.checked_at < EVERY:
        return
    history = history_of(run)
    saving = not JobState(attempt.state).is_terminal
    room = _room(run, attempt, ask) if saving and history else Room(free_bytes=None, quota_bytes=None)
    ahead = foresee(history, free_bytes=room.free_bytes, quota_bytes=room.quota_bytes, now=now, saving=saving)
    Outlook.objects.update_or_create(
        run=run,
        defaults={
            "free_bytes": room.free_bytes, "quota_bytes": room.quota_bytes, "needs_bytes": ahead.needs_bytes,
            "keeps": ahead.kept.count, "checked_at": now,
            "next_step": ahead.following.step if ahead.following and saving else None,
            "next_at": ahead.following.at if ahead.following and saving else None,
            **_warned("space", ahead.space), **_warned("rotation", ahead.rotation),
        },
    )  # fmt: skip


def history_of(run: Run) -> list[Saved]:
    """The newest by step, as the rules of core/checkpoints.py take them."""
    return [_saved(row) for row in Checkpoint.objects.filter(run=run).order_by("-step")[:HISTORY]]


def _saved(row: Checkpoint) -> Saved:
    """Removed is what was seen there once: it has a digest. What was seen of its removal is no writing."""
    state = CheckpointState(row.state)
    missing = state is CheckpointState.MISSING
    at = row.first_seen_at if missing else row.changed_at or row.first_seen_at
    removed = missing and row.fingerprint != ""
    return Saved(step=row.step, at=at, state=state, size_bytes=row.size_bytes, removed=removed)


def _room(run: Run, attempt: Attempt, ask: AskRoom) -> Room:
    user = attempt.job.user or run.user
    return ask(run.checkpoint_dir, user=user, roots=settings.CHECKPOINT_ROOTS, setting=ROOTS_SETTING)


def _warned(what: str, warned: Warned | None) -> dict[str, str]:
    return {
        f"{what}_warning": warned.text[:_CUT] if warned else "",
        f"{what}_remedy": warned.remedy[:_CUT] if warned else "",
    }
