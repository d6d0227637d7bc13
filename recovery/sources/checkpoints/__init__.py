"""Looking at a checkpoint folder: which steps are there, and is each of them whole at this moment.

Nothing is read but the tracker file (64 bytes at most) and the names, sizes and times of files, of the newest
checkpoints only and within a budget: these folders lie on the file systems that training depends on.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from recovery.core.checkpoints import CheckpointLook
from recovery.core.types import CheckpointState
from recovery.sources.beneath import NotThere, Refused, open_folder, unreadable
from recovery.sources.checkpoints.layouts import LAYOUTS
from recovery.sources.checkpoints.listing import Budget, Listing, list_checkpoint, read_small
from recovery.sources.checkpoints.rules import Layout, Tracker

__all__ = ["FolderScan", "scan_checkpoints"]

ROOTS_SETTING = "RECOVERY_CHECKPOINT_ROOTS"
MOST_ENTRIES = 100_000  # names in the folder itself that are looked at
MOST_FILES = 60_000  # files whose size is asked for in one scan
DETAIL_CHARS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderScan:
    """One look at a checkpoint folder; `looks` are ordered by step.

    `error` is not empty where nothing can be concluded (`remedy` says what would help), `missing` is True where the
    folder isn't there (yet). `tracker_step` is the step that the trainer would load, None where nothing names one.
    """

    looks: tuple[CheckpointLook, ...]
    tracker_step: int | None
    error: str
    remedy: str
    missing: bool


def scan_checkpoints(directory: str, *, roots: Sequence[str], newest: int = 20) -> FolderScan:
    """Look at the `newest` checkpoints (by step) in `directory`. Never raises on account of what is there."""
    try:
        with _opened(directory, roots) as at:
            return _scan(at, directory, roots, newest)
    except NotThere:
        return FolderScan(looks=(), tracker_step=None, error="", remedy="", missing=True)
    except Refused as refused:
        return _failed(refused)
    except OSError as error:
        return _failed(unreadable(error, directory))


def _failed(refused: Refused) -> FolderScan:
    return FolderScan(looks=(), tracker_step=None, error=refused.sentence, remedy=refused.remedy, missing=False)


@contextmanager
def _opened(directory: str, roots: Sequence[str]) -> Iterator[int]:
    at = open_folder(directory, roots=roots, setting=ROOTS_SETTING)
    try:
        yield at
    finally:
        os.close(at)


def _scan(at: int, directory: str, roots: Sequence[str], newest: int) -> FolderScan:
    with os.scandir(at) as entries:
        names = [entry.name for entry in islice(entries, MOST_ENTRIES)]
    layout = _layout_of(names)
    tracker = layout.tracker(read_small(at, layout.tracker_name, path=_join(directory, layout.tracker_name)))
    steps = [(step, name) for name in names if (step := layout.step_of(name)) is not None]
    listings = _list(at, directory, roots, heapq.nlargest(newest, steps))
    if os.fstat(at).st_nlink == 0:  # the folder itself was removed while we looked
        raise NotThere(directory)
    verdicts = layout.judge(listings, tracker)
    looks = [_look(listing, *verdict) for listing, verdict in zip(listings, verdicts, strict=True)]
    looks.extend(_lost(directory, layout, tracker, {step for step, _ in steps}))
    return FolderScan(
        looks=tuple(sorted(looks, key=lambda look: (look.step, look.path))),
        tracker_step=tracker.step,
        error="",
        remedy="",
        missing=False,
    )


def _layout_of(names: Sequence[str]) -> Layout:
    """The layout whose folders or tracker are among `names`; the first one where nothing tells."""
    known = set(names)
    for layout in LAYOUTS:
        if layout.tracker_name in known or any(layout.step_of(name) is not None for name in names):
            return layout
    return LAYOUTS[0]


def _list(at: int, directory: str, roots: Sequence[str], steps: Sequence[tuple[int, str]]) -> list[Listing]:
    """Listings, newest first; what the budget doesn't allow is left out, the oldest first."""
    budget = Budget(MOST_FILES)
    listings: list[Listing] = []
    for step, name in steps:
        listing = list_checkpoint(
            at, name, step=step, path=_join(directory, name), roots=roots, setting=ROOTS_SETTING, budget=budget
        )
        if budget.spent and listings:
            break
        if listing is not None:
            listings.append(listing)
    return listings


def _join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def _look(listing: Listing, state: CheckpointState, detail: str) -> CheckpointLook:
    return CheckpointLook(
        step=listing.step,
        path=listing.path,
        state=state,
        detail=detail[:DETAIL_CHARS],
        size_bytes=listing.size_bytes,
        fingerprint=listing.fingerprint,
    )


def _lost(directory: str, layout: Layout, tracker: Tracker, there: set[int]) -> list[CheckpointLook]:
    """The checkpoint that the tracker names although its folder isn't there: a restart would die on it."""
    if tracker.step is None or tracker.step in there:
        return []
    return [
        CheckpointLook(
            step=tracker.step,
            path=_join(directory, layout.folder_name(tracker.step)),
            state=CheckpointState.MISSING,
            detail=f"{layout.tracker_name} names step {tracker.step}, but its folder is not there.",
            size_bytes=0,
            fingerprint="",
        )
    ]
