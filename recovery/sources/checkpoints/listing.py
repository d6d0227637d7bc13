"""The files of one checkpoint: names, sizes, times. Bounded, and inside the roots."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from recovery.sources.beneath import NotThere, Refused, denied, open_folder, show, unreadable
from recovery.sources.checkpoints.ends import Kind, Verdict, kind_of, read_ends

MOST_DEPTH = 3  # folders below a checkpoint's own that are entered
MOST_INSIDE = 48  # files of one checkpoint that are looked into
SMALL_BYTES = 64

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFact:
    size: int
    mtime_ns: int


@dataclass(kw_only=True, slots=True)
class Listing:
    """One checkpoint folder.

    `files` are the regular files and `odd` all else that isn't a folder (links, pipes), both by path below the folder.
    Where a checkpoint is no folder, they are its files in the run's folder. `inside` is the verdict on each file that
    was looked into, `texts` what was read of those that name others. `marked` tells that a marker beside it says that
    it is being written, `settled` that it was complete before and nothing has changed. `world` is how many ranks wrote
    it, 0 where that is not known. `trouble` says what couldn't be looked at, or "".
    """

    step: int
    path: str
    key: str = ""
    marked: bool = False
    world: int = 0
    settled: bool = False
    inside: dict[str, Verdict] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, FileFact] = field(default_factory=dict)
    odd: set[str] = field(default_factory=set)
    trouble: str = ""

    @property
    def size_bytes(self) -> int:
        return sum(fact.size for fact in self.files.values())

    @property
    def fingerprint(self) -> str:
        """A digest of all names, sizes and times; "" for an empty folder."""
        if not self.files:
            return ""
        digest = blake2b(digest_size=20)
        for name, fact in sorted(self.files.items()):
            digest.update(f"{name}\0{fact.size}\0{fact.mtime_ns}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


@dataclass(slots=True)
class Budget:
    """How many files may still be asked for."""

    left: int

    @property
    def spent(self) -> bool:
        return self.left <= 0


def read_small(at: int, name: str, *, path: str) -> bytes | None:
    """The first 64 bytes of the regular file `name` in the folder `at`; None where there is no such file.

    Raises Refused. `path` is how people know the file.
    """
    try:
        descriptor = os.open(name, _OPEN_FILE, dir_fd=at)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise denied(path, path, "r") from None
    except OSError as error:
        raise unreadable(error, path) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Refused(f"{show(path)} is not a regular file and was not read.", "Remove it.")
        return os.read(descriptor, SMALL_BYTES)
    except OSError as error:
        raise unreadable(error, path) from None
    finally:
        os.close(descriptor)


def list_checkpoint(
    at: int,
    name: str,
    *,
    step: int,
    path: str,
    roots: Sequence[str],
    setting: str,
    budget: Budget,
    inside: bool = False,
    settled: str = "",
) -> Listing | None:
    """The files below the folder `name` of the folder `at`; None where it isn't a folder, or is gone.

    `inside` has its files looked into, unless its fingerprint is `settled`.
    """
    listing = Listing(step=step, path=path, key=name)
    try:
        folder = _open_checkpoint(at, name, path, roots, setting)
    except NotThere:
        return None
    except Refused as refused:
        listing.trouble = f"{refused.sentence} {refused.remedy}"
        return listing
    if folder is None:
        return None
    try:
        _walk(folder, "", listing, budget, depth=0)
        listing.settled = listing.fingerprint == settled != ""
        if inside and not listing.settled:
            _look_inside(folder, listing)
    finally:
        os.close(folder)
    return listing


def list_files(
    at: int, names: Sequence[str], *, step: int, path: str, key: str, budget: Budget, settled: str = ""
) -> Listing | None:
    """A checkpoint that consists of the files `names` in the folder `at` itself; None where none is there any more."""
    listing = Listing(step=step, path=path, key=key)
    for name in names:
        budget.left -= 1
        try:
            info = os.stat(name, dir_fd=at, follow_symlinks=False)
        except OSError as error:
            listing.trouble = _trouble(error, name)
            continue
        if stat.S_ISREG(info.st_mode):
            listing.files[name] = FileFact(size=info.st_size, mtime_ns=info.st_mtime_ns)
        else:
            listing.odd.add(name)
    listing.settled = listing.fingerprint == settled != ""
    if not listing.settled:
        _look_inside(at, listing)
    return listing if listing.files or listing.odd else None


def _look_inside(folder: int, listing: Listing) -> None:
    """Texts first, as they name other files; then the smallest, as what was cut off is small."""
    kinds = {name: kind for name in listing.files if (kind := kind_of(name))}
    order = {
        name: (kind not in (Kind.TEXT, Kind.INDEX, Kind.METADATA), listing.files[name].size)
        for name, kind in kinds.items()
    }
    for name in sorted(order, key=lambda name: (order[name], name))[:MOST_INSIDE]:
        try:
            descriptor = _open_below(folder, name)
            try:
                size = os.fstat(descriptor).st_size
                listing.inside[name], text = read_ends(descriptor, size, kinds[name])
            finally:
                os.close(descriptor)
        except OSError as error:
            listing.trouble = _trouble(error, name)
            return
        if text:
            listing.texts[name] = text


def _open_below(folder: int, name: str) -> int:
    """The file `name` below `folder`; no component may be a link. Raises OSError."""
    *folders, last = name.split("/")
    at = os.dup(folder)
    try:
        for part in folders:
            below = os.open(part, _OPEN_FOLDER, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, _OPEN_FILE, dir_fd=at)
    finally:
        os.close(at)


def _open_checkpoint(at: int, name: str, path: str, roots: Sequence[str], setting: str) -> int | None:
    """A link is followed where it stays inside the roots: keeping a checkpoint by a link is common."""
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode):
            return None
        if stat.S_ISDIR(mode):
            return os.open(name, _OPEN_FOLDER, dir_fd=at)
    except FileNotFoundError:
        raise NotThere(path) from None
    except OSError:
        pass  # told in full by the call below
    return open_folder(path, roots=roots, setting=setting)


def _walk(folder: int, below: str, listing: Listing, budget: Budget, *, depth: int) -> None:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if budget.spent:
                    listing.trouble = "It has too many files to look at all of them."
                    return
                budget.left -= 1
                _visit(folder, entry, below + entry.name, listing, budget, depth)
    except OSError as error:
        listing.trouble = _trouble(error, below)


def _visit(folder: int, entry: os.DirEntry[str], name: str, listing: Listing, budget: Budget, depth: int) -> None:
    info = entry.stat(follow_symlinks=False)
    if stat.S_ISREG(info.st_mode):
        listing.files[name] = FileFact(size=info.st_size, mtime_ns=info.st_mtime_ns)
    elif stat.S_ISDIR(info.st_mode) and depth < MOST_DEPTH:
        _enter(folder, entry.name, f"{name}/", listing, budget, depth + 1)
    else:
        listing.odd.add(name)


def _enter(folder: int, name: str, below: str, listing: Listing, budget: Budget, depth: int) -> None:
    try:
        inner = os.open(name, _OPEN_FOLDER, dir_fd=folder)
    except OSError as error:
        listing.trouble = _trouble(error, below)
        return
    try:
        _walk(inner, below, listing, budget, depth=depth)
    finally:
        os.close(inner)


def _trouble(error: OSError, below: str) -> str:
    if isinstance(error, FileNotFoundError):
        return "It changed while it was looked at."
    return f"{show(below or 'The folder')} can't be read: {os.strerror(error.errno or 0)}."
