"""Real processes for trials: each with a database of its own, each forked, each seen to end as it should."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from django.conf import settings
from django.db import connection, connections


def in_child(work: Callable[[], object], *, killed: bool = False) -> None:
    """Run it in a forked process, and see that it ended as it should."""
    _await(_fork(work), killed=killed)


def side_by_side(works: Sequence[Callable[[], object]]) -> None:
    """Run them all at once, each in a forked process, and wait for all of them."""
    pids = [_fork(work) for work in works]
    troubles: list[AssertionError] = []
    for pid in pids:
        try:
            _await(pid, killed=False)
        except AssertionError as error:
            troubles.append(error)
    if troubles:
        raise troubles[0]


def _fork(work: Callable[[], object]) -> int:
    connections.close_all()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here and says so
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _await(pid: int, *, killed: bool) -> None:
    _, status = os.waitpid(pid, 0)
    if killed and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
        raise AssertionError(f"it should have been killed, and ended with {status}")
    if not killed and status:
        raise AssertionError(f"a process of the trial ended with {status}")


def use(folder: Path, rhythm: dict[str, float]) -> None:
    """This process works on the database in `folder`, and may look at files beside it."""
    database = str(folder / "recovery.sqlite3")
    settings.DATABASES["default"]["NAME"] = connection.settings_dict["NAME"] = database
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(folder.parent)]
    for name, value in rhythm.items():
        setattr(settings, name, value)


def make_again(folder: Path, copy: Path) -> None:
    """Make `folder` what `copy` is, file by file: those that stay keep their inode, by which a log is known again."""
    wanted = {path.relative_to(copy) for path in copy.rglob("*")}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.relative_to(folder) not in wanted:
            path.rmdir() if path.is_dir() else path.unlink()
    for relative in sorted(wanted):
        source, target = copy / relative, folder / relative
        if source.is_dir():
            target.mkdir(exist_ok=True)
        else:
            shutil.copyfile(source, target)
            shutil.copystat(source, target)
