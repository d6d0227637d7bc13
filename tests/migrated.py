"""A migrated SQLite that is made once and copied for each session of tests: making it takes longer than most files.

It lies below var/, named after everything that decides what is in it. The first session to need it makes it while the
others wait for it.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import django

from tests.daemons import PROJECT

FOLDER = PROJECT / "var" / "migrated"
KEPT_S = 86_400
DECIDING = ("recovery/migrations", "recovery/models", "recovery/core", "recovery/apps.py", "tests/migrated.py")


class Migrated:
    """`copy_to` before the session's database is set up, `keep` after that."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.path = folder / f"{name_of(PROJECT)}.sqlite3"
        self._lock: IO[bytes] | None = None

    def copy_to(self, target: Path) -> None:
        """A migrated database at `target`, or none and the promise to `keep` one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self.path.with_suffix(".lock").open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if self.path.exists():
            shutil.copyfile(self.path, target)
            self._release()

    def keep(self, connection: Any) -> None:
        """Keep what this connection's database is after its migrations, where nobody has."""
        if self._lock is None:
            return
        fresh = self.path.with_suffix(".fresh")
        fresh.unlink(missing_ok=True)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM INTO %s", [str(fresh)])
        for older in self.path.parent.glob("*.sqlite3"):
            if time.time() - older.stat().st_mtime > KEPT_S:  # a younger one may just be copied by a session of its own
                older.unlink(missing_ok=True)
        fresh.replace(self.path)
        self._release()

    def _release(self) -> None:
        assert self._lock
        self._lock.close()  # and with it goes the lock
        self._lock = None


def name_of(project: Path) -> str:
    digest = sha256(django.__version__.encode())
    for path in _files(project):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _files(project: Path) -> Iterable[Path]:
    for place in DECIDING:
        found = project / place
        yield from sorted(found.rglob("*.py")) if found.is_dir() else [found]
