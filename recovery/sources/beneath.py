"""Opening what a job named, without ever leaving the folders that the operator allowed.

Paths come from jobs, so they are hostile: links out of the roots, pipes and devices that would block or do worse, and
folders that are swapped for links between a check and its use. The path is resolved first; then the way from the root
to the file is walked component by component on folder descriptors, following no link. What was checked is what is
opened: a swap in between makes the walk fail, never lead elsewhere.

What remains: a hard link, or a bind mount made by an administrator, is a real member of its folder and can't be told
apart (Linux forbids hard links to other people's files: fs.protected_hardlinks). And a file system that hangs holds
the caller, as no system call on it has a time-out.
"""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath

SHOWN_CHARS = 110  # of a path in a sentence: two of them fit into 300 characters, which is what is stored

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a symbolic link"),
)


class Refused(Exception):
    """It was not opened. `sentence` says what and why, `remedy` what would help; both are shown to people."""

    def __init__(self, sentence: str, remedy: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.remedy = remedy


class NotThere(Exception):
    """There is no such file or folder inside the roots."""


def open_file(path: str, *, roots: Sequence[str], setting: str) -> int:
    """A descriptor to read the regular file `path`. Never blocks on a pipe or a device.

    `setting` is the setting that names the roots, for the remedy. Raises Refused, NotThere.
    """
    return _open(path, roots=roots, setting=setting, folder=False)


def open_folder(path: str, *, roots: Sequence[str], setting: str) -> int:
    """A descriptor to list the folder `path`. Raises Refused, NotThere."""
    return _open(path, roots=roots, setting=setting, folder=True)


@contextmanager
def opened_folder(path: str, *, roots: Sequence[str], setting: str) -> Iterator[int]:
    """As open_folder, and closed at the end."""
    at = open_folder(path, roots=roots, setting=setting)
    try:
        yield at
    finally:
        os.close(at)


def _open(path: str, *, roots: Sequence[str], setting: str, folder: bool) -> int:
    root, parts = _locate(path, roots, setting)
    *folders, last = parts or (".",)
    here, at = root, -1
    try:
        at = os.open(root, _FOLDER)
        for name in folders:
            below = os.open(name, _FOLDER, dir_fd=at)
            os.close(at)
            at, here = below, f"{here.rstrip('/')}/{name}"
        return _open_last(at, last, path, folder=folder)
    except OSError as error:
        raise _explained(error, path, here) from None
    finally:
        if at >= 0:
            os.close(at)


def _locate(path: str, roots: Sequence[str], setting: str) -> tuple[str, tuple[str, ...]]:
    """The root that holds `path` after all links are resolved, and the way down from it."""
    if not path.startswith("/") or "\0" in path or not _is_name(path):
        raise Refused(f"{show(path)} is not an absolute path.", 'Name it by a path that starts with "/".')
    real = PurePosixPath(os.path.realpath(path))
    for root in roots:
        real_root = os.path.realpath(root)
        if real.is_relative_to(real_root):
            return real_root, real.relative_to(real_root).parts
    leads = "" if str(real) == os.path.normpath(path) else f" (it leads to {show(str(real))})"
    raise Refused(
        f"{show(path)} lies outside the folders that Recovery Desk may read{leads}.",
        f"Ask the operator to add its folder to {setting}.",
    )


def _is_name(path: str) -> bool:
    """Whether a file can be called so: a lone half of a character pair can't be written as bytes."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _open_last(at: int, name: str, path: str, *, folder: bool) -> int:
    _check_kind(os.stat(name, dir_fd=at, follow_symlinks=False), path, folder=folder)
    try:
        descriptor = os.open(name, _READ | (os.O_DIRECTORY if folder else 0), dir_fd=at)
    except PermissionError:
        raise denied(path, path, "rx" if folder else "r") from None
    try:
        _check_kind(os.fstat(descriptor), path, folder=folder)  # it may have been swapped since
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(info: os.stat_result, path: str, *, folder: bool) -> None:
    if (stat.S_ISDIR if folder else stat.S_ISREG)(info.st_mode):
        return
    kind = next((word for test, word in _KINDS if test(info.st_mode)), "a regular file")
    noun = "folder" if folder else "regular file"
    raise Refused(f"{show(path)} is {kind}, not a {noun}, and was not opened.", f"Name a {noun}.")


def _explained(error: OSError, path: str, here: str) -> Exception:
    """What an error on the way means; `here` is the folder in which it happened."""
    if error.errno == errno.ENOENT:
        return NotThere(path)
    if error.errno in (errno.EACCES, errno.EPERM):
        return denied(path, here, "x")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Refused(
            f"{show(path)} was not opened: below {show(here)} stands a link or a file where a folder was expected.",
            "Name the file by its real path.",
        )
    return unreadable(error, path)


def denied(path: str, here: str, bits: str) -> Refused:
    """The refusal with the exact command that gives this process `bits` (r, x, rx) of access to `here`."""
    user, target = account(), shlex.quote(here if here.isprintable() else show(here))
    on_the_way = "" if here == path else f" on the way to {show(path)}"
    return Refused(
        f"Permission denied at {show(here)}{on_the_way}.",
        f"Give the service account {user} access: setfacl -m u:{user}:{bits} {target} (or, for all, chmod o+{bits}).",
    )


def unreadable(error: OSError, path: str) -> Refused:
    """An error of the file system itself (input/output error, stale handle, too many open files)."""
    reason = os.strerror(error.errno) if error.errno else "unknown error"
    return Refused(
        f"{show(path)} can't be read: {reason}.",
        "It is tried again at the next look; if this stays, check the file system on this host.",
    )


def account() -> str:
    """Who we are, for remedies."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def show(path: str) -> str:
    """A path fit for a sentence and for a database: no control characters, no half characters, not endless."""
    text = path.encode("utf-8", "replace").decode("utf-8")
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= SHOWN_CHARS else "…" + text[1 - SHOWN_CHARS :]
