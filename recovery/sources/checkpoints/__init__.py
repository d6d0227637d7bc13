"""Looking at a checkpoint folder: which steps are there, and is each of them whole at this moment.

Of the newest checkpoints only, and within a budget, the names, sizes and times of files are read, and of some files
the two ends: these folders lie on the file systems that training depends on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

from recovery.core.checkpoints import CheckpointLook
from recovery.core.types import CheckpointState
from recovery.sources.beneath import NotThere, Refused, opened_folder, show, unreadable
from recovery.sources.checkpoints.layouts import LAYOUTS
from recovery.sources.checkpoints.listing import Budget, Listing, list_checkpoint, list_files, read_small
from recovery.sources.checkpoints.rules import Layout, Tracker

__all__ = ["FolderScan", "scan_checkpoints"]

ROOTS_SETTING = "RECOVERY_CHECKPOINT_ROOTS"
MOST_ENTRIES = 100_000  # names in the folder itself that are looked at
MOST_FILES = 60_000  # files whose size is asked for in one scan
DETAIL_CHARS = 300
LONGEST_FOLDER = 700  # characters: with any name in it a path has no more than the 1000 that the table holds
NOTHING: Mapping[str, str] = MappingProxyType({})
NO_WORLDS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderScan:
    """One look at a checkpoint folder; `looks` are ordered by step.

    `error` is not empty where nothing can be concluded (`remedy` says what would help), `missing` is True where the
    folder isn't there (yet). `tracker_step` is the step that the trainer would load, None where nothing names one.
    `whole` is False where older checkpoints may be there that were not looked at.
    """

    looks: tuple[CheckpointLook, ...]
    tracker_step: int | None
    error: str
    remedy: str
    missing: bool
    whole: bool = True
    tracker_path: str = ""  # of the tracker file that names `tracker_step`


def scan_checkpoints(
    directory: str,
    *,
    roots: Sequence[str],
    newest: int = 20,
    settled: Mapping[str, str] = NOTHING,
    worlds: Mapping[str, int] = NO_WORLDS,
) -> FolderScan:
    """Look at the `newest` checkpoints (by step) in `directory`. Never raises on account of what is there.

    `settled` are the fingerprints of checkpoints, by path, that are known to be complete: where nothing has changed,
    their files are not opened again. `worlds` says, by path, how many ranks wrote a checkpoint, where that is known.
    """
    try:
        with opened_folder(directory, roots=roots, setting=ROOTS_SETTING) as at:
            return _scan(at, directory, roots, newest, settled, worlds)
    except NotThere:
        return FolderScan(looks=(), tracker_step=None, error="", remedy="", missing=True)
    except Refused as refused:
        return _failed(refused)
    except OSError as error:
        return _failed(unreadable(error, directory))


def _failed(refused: Refused) -> FolderScan:
    return FolderScan(looks=(), tracker_step=None, error=refused.sentence, remedy=refused.remedy, missing=False)


def _scan(
    at: int, directory: str, roots: Sequence[str], newest: int, settled: Mapping[str, str], worlds: Mapping[str, int]
) -> FolderScan:
    if len(directory) > LONGEST_FOLDER:
        sentence = (
            f"The path {show(directory)} has more than {LONGEST_FOLDER} characters, so nothing of it can be kept."
        )
        raise Refused(sentence, "Save below a shorter path.")
    with os.scandir(at) as entries:
        names = [entry.name for entry in islice(entries, MOST_ENTRIES)]
    layout = _layout_of(names)
    if layout is None:
        raise _not_recognised(directory, names)
    tracker = layout.tracker(_tracker(at, directory, layout))
    found = _found(layout, names)
    if names and not found and (note := layout.nameless())[0] and any(map(layout.belongs, names)):
        raise Refused(*note)
    newest_first = sorted(found, key=lambda each: (each.step, each.key), reverse=True)
    listings = _list(at, directory, roots, newest_first[:newest], layout, settled)
    markers = set(names)
    for listing in listings:
        listing.marked = layout.marker(listing.key) in markers
        listing.world = worlds.get(listing.path, 0)
    if os.fstat(at).st_nlink == 0:  # the folder itself was removed while we looked
        raise NotThere(directory)
    verdicts = layout.judge(listings, tracker)
    looks = [_look(listing, *verdict) for listing, verdict in zip(listings, verdicts, strict=True)]
    looks.extend(_lost(directory, layout, tracker, {each.step for each in found}))
    return FolderScan(
        looks=tuple(sorted(looks, key=lambda look: (look.step, look.path))),
        tracker_step=tracker.step,
        tracker_path=_join(directory, layout.tracker_name) if layout.tracker_name else "",
        error="",
        remedy="",
        missing=False,
        whole=len(listings) == len(found),
    )


@dataclass(kw_only=True, slots=True)
class _Found:
    """A checkpoint by its names in the folder: one folder, or one or more files."""

    step: int
    key: str
    names: list[str]


def _found(layout: Layout, names: Sequence[str]) -> list[_Found]:
    found: dict[tuple[int, str], _Found] = {}
    for name in sorted(names):
        step = layout.step_of(name)
        if step is not None and name.isprintable():  # else no database keeps it
            key = layout.key(name)
            found.setdefault((step, key), _Found(step=step, key=key, names=[])).names.append(name)
    return list(found.values())


def _tracker(at: int, directory: str, layout: Layout) -> bytes | None:
    if not layout.tracker_name:
        return None
    return read_small(at, layout.tracker_name, path=_join(directory, layout.tracker_name))


def _layout_of(names: Sequence[str]) -> Layout | None:
    """The layout that most of `names` belong to; the first one for an empty folder, None where nothing tells."""
    if not names:
        return LAYOUTS[0]
    known = set(names)
    best, most = None, (0, False)
    for layout in LAYOUTS:
        fits = (sum(map(layout.belongs, names)), layout.tracker_name in known)
        if fits > most:
            best, most = layout, fits
    return best


def _not_recognised(directory: str, names: Sequence[str]) -> Refused:
    """Silence would read as "no checkpoint yet": what is there may well be one."""
    return Refused(
        f"Layout not recognised: nothing in {show(directory)} is a checkpoint of a known trainer"
        f" ({len(names)} names, {show(min(names))} among them).",
        "Name the folder that holds the checkpoints themselves as checkpoint_dir (layouts: docs/checkpoints.md).",
    )


def _list(
    at: int, directory: str, roots: Sequence[str], found: Sequence[_Found], layout: Layout, settled: Mapping[str, str]
) -> list[Listing]:
    """Listings, newest first; what the budget doesn't allow is left out, the oldest first."""
    budget = Budget(MOST_FILES)
    listings: list[Listing] = []
    for each in found:
        path = _join(directory, each.names[0])
        listing = None
        if len(each.names) == 1:
            listing = list_checkpoint(
                at, each.names[0], step=each.step, path=path, roots=roots, setting=ROOTS_SETTING, budget=budget,
                inside=layout.inside, settled=settled.get(path, ""),
            )  # fmt: skip
        if listing is None and layout.as_files:
            listing = list_files(
                at, each.names, step=each.step, path=path, key=each.key, budget=budget, settled=settled.get(path, "")
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
