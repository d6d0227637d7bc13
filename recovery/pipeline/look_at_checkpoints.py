"""Part of ingest: the checkpoint folder of a run, as rows.

A checkpoint is complete when two looks, a pass apart, found the same complete structure. Where the folder can't be
read, is not there or its layout is not recognised, the trainer's own word counts and is marked as such.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from recovery.core.checkpoints import CheckpointLook, settle
from recovery.core.types import CheckpointState, SignalKind
from recovery.models import Attempt, Checkpoint, Run
from recovery.models import Signal as SignalRow
from recovery.models.progress import WORD_PATH
from recovery.pipeline.foresee import ELSEWHERE, foresee_checkpoints
from recovery.sources.checkpoints import LONGEST_FOLDER, FolderScan, scan_checkpoints
from recovery.sources.marks import NONE as NO_FOLDER
from recovery.sources.marks import folder_mark

NEWEST = 20  # so many checkpoint folders are looked at in a pass; older ones are no longer restored from
KNOWN = 2 * NEWEST  # rows of a run that a look needs: those of the folder's newest, and some that may be gone
REMOVED = "Removed since, by the run's own rotation or by somebody."
SAY_AGAIN = timedelta(minutes=1)  # so often it is stored that nothing has changed
TRACKER = "tracker"  # in an attempt's places: noted at the first look at its folder
FOLDER = "folder"  # likewise: why its folder could not be judged when it was last looked into
NOT_THERE = (
    "The folder is not there. If the job has saved, mount its file system where the desk runs or correct its path."
)
UNMOUNTED = (
    "The folder is gone, and nothing else is where it was: its file system may not be mounted here any more. What was "
    "seen in it last still counts. Mount it, or correct the path."
)
BY_WORD = "By the trainer's own word. "
LOOK_AGAIN = timedelta(minutes=10)  # so often also into a folder that seems unchanged: parts of old ones may be damaged
STILL_WRITTEN = timedelta(hours=1)  # so long a checkpoint that is not whole is looked at in each pass
LAST_WRITES = timedelta(seconds=5)  # after a job's end, until another machine is sure to see what it wrote
SEEN = "The trainer's word, which counted as long as its folder could not be read."

Scan = Callable[..., FolderScan]


def folder_is_quiet(directory: str, mark: str, read_at: datetime | None, *, now: datetime) -> bool:
    """Whether a look would find what the last one found, which noted `mark` at `read_at`; one stat."""
    if not mark or read_at is None or mark != folder_mark(directory):
        return False
    return mark == NO_FOLDER or now - read_at < LOOK_AGAIN


def look_at_checkpoints(attempt: Attempt, *, now: datetime, scan: Scan = scan_checkpoints) -> str:
    """Update the checkpoints of the attempt's run. Returns why the folder can't be read, or ""."""
    run = attempt.job.run
    folder = run.checkpoint_dir or _learn_folder(attempt, run)
    mark = folder_mark(folder)  # before the scan: what comes during it shows at the next look
    if not folder:
        _note_folder(run, mark, now=now)
        return _take_the_word(attempt, run, "No checkpoint folder is known.", now=now)
    there = Checkpoint.objects.filter(run=run).exclude(state=CheckpointState.MISSING).order_by("-step", "-pk")
    known = {row.path: row for row in there[:KNOWN]}
    roots, settled = settings.CHECKPOINT_ROOTS, _settled(known)
    found = scan(folder, roots=roots, newest=NEWEST, settled=settled, worlds=_worlds(known))
    _note_tracker(attempt, found, now=now)
    trouble = f"{found.error} {found.remedy}" if found.error else _why_missing(run, folder) if found.missing else ""
    _note_trouble(attempt, trouble)
    if trouble:
        _note_folder(run, mark, now=now)
        return _take_the_word(attempt, run, trouble, now=now)
    known |= _beyond(run, found, known)
    with transaction.atomic():
        _store(attempt, run, found, known, now=now)
        _note_folder(run, "" if _is_written(found, known, now=now) else mark, now=now)
    changed = any(row.checked_at == now for row in known.values()) or any(it.path not in known for it in found.looks)
    foresee_checkpoints(attempt, now=now, changed=changed)
    return ""


def still_complete(row: Checkpoint) -> bool:
    """Whether what was seen complete is on disk as it was then; where a look can't tell, what was seen counts."""
    settled = {row.path: row.fingerprint} if row.fingerprint else {}
    found = scan_checkpoints(str(PurePosixPath(row.path).parent), roots=settings.CHECKPOINT_ROOTS, settled=settled)
    look = next((each for each in found.looks if each.path == row.path), None)
    if look is None:
        return bool(found.error) or not found.whole
    return look.state is CheckpointState.COMPLETE and row.fingerprint in ("", look.fingerprint)


def _why_missing(run: Run, folder: str) -> str:
    """Why it is not known what became of a folder that is not there; "" where it was removed, and all in it with it."""
    if not Checkpoint.objects.filter(run=run).exclude(path__contains=WORD_PATH).exists():
        return NOT_THERE  # and never was: the desk's host may not have that file system at all
    return UNMOUNTED if _is_bare(str(PurePosixPath(folder).parent)) else ""


def _is_bare(folder: str) -> bool:
    """As an unmounted file system leaves its mount point, and all that is below it."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False


def _note_trouble(attempt: Attempt, trouble: str) -> None:
    """For the run's page."""
    if trouble != attempt.places.get(FOLDER, ""):
        attempt.places[FOLDER] = trouble[:500]
        attempt.save(update_fields=["places"])


def _beyond(run: Run, found: FolderScan, known: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
    """The rows that this look is about and that are not among the newest: what came back, and of many what is gone."""
    new = [look.path for look in found.looks if look.path not in known]
    wanted = Q(path__in=new)
    if len(known) >= KNOWN:
        gone = ~Q(state=CheckpointState.MISSING) & ~Q(path__in=[look.path for look in found.looks])
        oldest = min((look.step for look in found.looks), default=0)
        wanted |= gone if found.whole else gone & Q(step__gte=oldest)
    elif not new:
        return {}
    return {row.path: row for row in Checkpoint.objects.filter(wanted, run=run)}


def about_to_settle(run: Run, *, now: datetime) -> bool:
    """Whether a checkpoint newer than the newest complete one was seen for the first time a moment ago.

    Then the next look tells whether it is what a restart would restore from.
    """
    rows = Checkpoint.objects.filter(run=run)
    complete = rows.filter(state=CheckpointState.COMPLETE).order_by("-step").values_list("step", flat=True).first()
    since = now - timedelta(seconds=settings.SETTLE_S)
    new = rows.filter(state=CheckpointState.ANNOUNCED, first_seen_at__gt=since)
    return new.filter(step__gt=-1 if complete is None else complete).exists()


def _is_written(found: FolderScan, known: Mapping[str, Checkpoint], *, now: datetime) -> bool:
    """Whether something may still change inside of a checkpoint, where the folder's own mark does not tell."""
    for look in found.looks:
        row = known.get(look.path)
        if row is None:
            return True  # seen for the first time
        whole = row.state in (CheckpointState.COMPLETE, CheckpointState.MISSING)
        if not whole and now - row.first_seen_at < STILL_WRITTEN:
            return True
    return False


def _note_folder(run: Run, mark: str, *, now: datetime) -> None:
    if mark or run.folder_mark:
        run.folder_mark, run.folder_read_at = mark, now
        Run.objects.filter(pk=run.pk).update(folder_mark=mark, folder_read_at=now)


def _note_tracker(attempt: Attempt, found: FolderScan, *, now: datetime) -> None:
    """What the tracker file named when the attempt started: what its trainer will load, until it saves itself."""
    if TRACKER in attempt.places:
        return
    saved = attempt.signals.filter(kind__in=[SignalKind.SAVE_STARTED, SignalKind.SAVE_DURABLE]).exists()
    step = None if saved else found.tracker_step  # None: none, or too late to tell; it is not asked again
    attempt.places[TRACKER] = {"step": step, "file": found.tracker_path, "at": now.isoformat()}
    attempt.save(update_fields=["places"])


def _settled(known: Mapping[str, Checkpoint]) -> dict[str, str]:
    """The fingerprints of those that were seen complete: what has not changed since is not opened again."""
    complete = {path: row for path, row in known.items() if row.state == CheckpointState.COMPLETE}
    return {path: row.fingerprint for path, row in complete.items() if row.fingerprint}


def _worlds(known: Mapping[str, Checkpoint]) -> dict[str, int]:
    """How many ranks wrote each, as far as the log of the attempt that did tells."""
    writers = {path: row.attempt_id for path, row in known.items() if row.attempt_id}
    attempts = Attempt.objects.filter(pk__in=set(writers.values()))
    told = dict(attempts.values_list("pk", "parser_memory__ranks__world"))  # kept there by core/logs/ranks.py
    return {path: told[pk] or 0 for path, pk in writers.items()}


def _learn_folder(attempt: Attempt, run: Run) -> str:
    """The folder that the job's own log names; the allowed roots are checked when it is read."""
    signal = (
        attempt.signals.exclude(path="").filter(kind__in=[SignalKind.SAVE_STARTED, SignalKind.SAVE_DURABLE]).first()
    )
    if signal is None:
        return ""
    run.checkpoint_dir = signal.path
    run.save(update_fields=["checkpoint_dir"])
    return signal.path


def _store(attempt: Attempt, run: Run, found: FolderScan, known: Mapping[str, Checkpoint], *, now: datetime) -> None:
    same: list[int] = []
    for look in found.looks:
        row = known.get(look.path)
        if row is None:
            _create(attempt, run, look, now=now)
        elif not _update(attempt, row, look, now=now) and now - row.checked_at >= SAY_AGAIN:
            same.append(row.pk)
    if same:
        Checkpoint.objects.filter(pk__in=same).update(checked_at=now)
    whole = found.whole  # otherwise older ones may lie beyond what was looked at
    oldest = min((look.step for look in found.looks), default=0)
    seen = {look.path for look in found.looks}
    seen_steps = {look.step for look in found.looks}
    for row in known.values():
        if WORD_PATH in row.path:
            _withdraw_word(row, seen_steps, now=now)
            continue
        gone = row.path not in seen and row.state != CheckpointState.MISSING
        elsewhere = not row.path.startswith(f"{run.checkpoint_dir.rstrip('/')}/")
        if gone and (whole or elsewhere or row.step >= oldest):
            row.state, row.checked_at = CheckpointState.MISSING, now
            row.detail = ELSEWHERE if elsewhere else REMOVED
            row.save()


def _withdraw_word(row: Checkpoint, seen: set[int], *, now: datetime) -> None:
    """What the folder shows counts more than what was said when it couldn't be read."""
    if row.step in seen and row.state == CheckpointState.COMPLETE:
        row.state, row.detail, row.checked_at = CheckpointState.UNKNOWN, SEEN, now
        row.save()


def _create(attempt: Attempt, run: Run, look: CheckpointLook, *, now: datetime) -> None:
    state = settle(None, look)
    Checkpoint.objects.create(
        run=run, attempt=_writer(attempt, look), step=look.step, path=look.path, state=state, detail=look.detail[:300],
        size_bytes=look.size_bytes, fingerprint=look.fingerprint, first_seen_at=now, checked_at=now, changed_at=now,
        completed_at=now if state is CheckpointState.COMPLETE else None,
    )  # fmt: skip


def _update(attempt: Attempt, row: Checkpoint, look: CheckpointLook, *, now: datetime) -> bool:
    """Write what the look changes. Returns whether anything was."""
    before = CheckpointLook(
        step=row.step, path=row.path, state=CheckpointState(row.state), detail=row.detail,
        size_bytes=row.size_bytes or 0, fingerprint=row.fingerprint,
    )  # fmt: skip
    state = settle(before, look, over=_is_over(attempt, row, now=now))
    if before == replace(look, state=state, detail=look.detail[:300]) and (
        row.completed_at or state != CheckpointState.COMPLETE
    ):
        return False
    if row.fingerprint != look.fingerprint:
        row.attempt = _writer(attempt, look) or row.attempt
        row.changed_at = now
    if state is CheckpointState.COMPLETE and (row.state != state or row.completed_at is None):
        row.completed_at = now
    row.state, row.detail, row.checked_at = state, look.detail[:300], now
    row.size_bytes, row.fingerprint = look.size_bytes, look.fingerprint
    row.save()
    return True


def _is_over(attempt: Attempt, row: Checkpoint, *, now: datetime) -> bool:
    """Whether whoever wrote it has ended: this attempt, or one before it that it was last changed by."""
    changed = row.changed_at or row.first_seen_at
    if attempt.ended_at is not None:
        return now >= max(attempt.ended_at, changed) + LAST_WRITES
    return attempt.started_at is not None and changed + LAST_WRITES < attempt.started_at


def _writer(attempt: Attempt, look: CheckpointLook) -> Attempt | None:
    """The attempt that wrote this folder, where its log says that it saved this step."""
    saved = attempt.signals.filter(kind__in=[SignalKind.SAVE_STARTED, SignalKind.SAVE_DURABLE], step=look.step)
    return attempt if saved.exists() else None


def _take_the_word(attempt: Attempt, run: Run, trouble: str, *, now: datetime) -> str:
    durable = SignalRow.objects.filter(attempt=attempt, kind=SignalKind.SAVE_DURABLE).exclude(step=None)
    known = set(Checkpoint.objects.filter(run=run).values_list("step", flat=True))
    for signal in durable.exclude(step__in=known):
        if signal.step is None:
            continue
        Checkpoint.objects.get_or_create(
            run=run, path=f"{(signal.path or run.checkpoint_dir)[:LONGEST_FOLDER]}{WORD_PATH}{signal.step}",
            defaults={
                "attempt": attempt, "step": signal.step, "state": CheckpointState.COMPLETE,
                "detail": (BY_WORD + trouble)[:300], "first_seen_at": signal.at, "completed_at": signal.at,
                "checked_at": now,
            },
        )  # fmt: skip
    return trouble
