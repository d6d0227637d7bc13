"""The small files that tell a trainer which checkpoint to load: read, and pointed at another one.

Megatron-LM keeps the iteration in latest_checkpointed_iteration.txt, DeepSpeed the folder's name in `latest`. This is
the one place where Recovery Desk writes beside a checkpoint: the file alone, in one atomic step, with its old content
kept beside it; no checkpoint is touched. It is written as the service account, so only where the trainer can write
the file again afterwards: by root, by its owner, or through a group that may write it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from recovery.sources.beneath import NotThere, Refused, account, open_file, opened_folder, show

SETTING = "RECOVERY_CHECKPOINT_ROOTS"
MEGATRON, DEEPSPEED = "latest_checkpointed_iteration.txt", "latest"
LONGEST = 256  # characters of a tracker: a number, or a folder's name


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracker:
    """`why_not` says why we can't write it, and what would help; "" where we can. `writer` is as whom we would."""

    folder: str
    name: str
    content: str
    writer: str
    why_not: str = ""

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    def naming(self, *, step: int, path: str) -> str:
        """What would stand in it so that the checkpoint `path` of `step` is loaded."""
        return str(step) if self.name == MEGATRON else PurePosixPath(path).name


def read_tracker(folder: str, *, roots: Sequence[str]) -> Tracker | None:
    """The tracker in a folder of checkpoints; None where there is none, or where it can't be read."""
    for name in (MEGATRON, DEEPSPEED):
        try:
            content = _content(f"{folder}/{name}", roots)
            why_not = _why_not(folder, name, roots)
        except (Refused, NotThere, OSError):
            continue
        return Tracker(folder=folder, name=name, content=content, writer=account(), why_not=why_not)
    return None


def write_tracker(tracker: Tracker, content: str, *, keep_as: str, roots: Sequence[str]) -> None:
    """Put `content` in the place of what `tracker` was read with, which is kept as `keep_as` beside it.

    Raises Refused, NotThere or OSError; then the file is as it was.
    """
    if tracker.why_not:
        raise Refused(tracker.why_not, "")
    with opened_folder(tracker.folder, roots=roots, setting=SETTING) as at:
        old = os.stat(tracker.name, dir_fd=at, follow_symlinks=False)
        with suppress(FileExistsError):  # from a try that was killed
            _create(at, keep_as, tracker.content, like=old)
        draft = f".{tracker.name}.{os.getpid()}.new"
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=at)
        _create(at, draft, content, like=old)
        os.replace(draft, tracker.name, src_dir_fd=at, dst_dir_fd=at)
        os.fsync(at)


def _content(path: str, roots: Sequence[str]) -> str:
    with os.fdopen(open_file(path, roots=roots, setting=SETTING), "rb") as file:
        return file.read(LONGEST).decode("utf-8", "replace").strip()


def _why_not(folder: str, name: str, roots: Sequence[str]) -> str:
    """Why the service account can't replace the file so that its owner can write it again; "" where it can."""
    with opened_folder(folder, roots=roots, setting=SETTING) as at:
        info = os.stat(name, dir_fd=at, follow_symlinks=False)
        if os.geteuid() == 0:
            return ""
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=at, effective_ids=True):
            return f"{account()} may not write in {show(folder)}."
    shared = info.st_gid in {os.getegid(), *os.getgroups()} and info.st_mode & stat.S_IWGRP
    if info.st_uid == os.geteuid() or shared:
        return ""
    return f"{show(name)} belongs to another user, who could not write it again if {account()} replaced it."


def _create(at: int, name: str, content: str, *, like: os.stat_result) -> None:
    """A new file with the owner, group and mode of the one that it stands for, as far as we may give them."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=at), "w") as file:
        file.write(content)
        file.flush()
        if os.geteuid() == 0:
            os.fchown(file.fileno(), like.st_uid, like.st_gid)
        else:
            os.fchown(file.fileno(), -1, like.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode) & 0o777)
        os.fsync(file.fileno())
