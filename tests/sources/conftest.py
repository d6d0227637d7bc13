from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The one folder that may be read."""
    folder = tmp_path / "allowed"
    folder.mkdir()
    return folder


@pytest.fixture
def open_root() -> Iterator[Path]:
    """The same where other accounts can reach it too: pytest's own folders are private."""
    folder = Path(tempfile.mkdtemp(prefix="recovery-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def open_descriptors() -> int:
    """How many files this process holds open."""
    return len(list(Path("/proc/self/fd").iterdir()))


class Unprivileged(Protocol):
    def __call__(self) -> AbstractContextManager[str]: ...


@pytest.fixture
def unprivileged() -> Unprivileged:
    """A context in which this process has no special rights; gives the name of its account."""

    @contextmanager
    def drop() -> Iterator[str]:
        if os.geteuid() != 0:
            yield pwd.getpwuid(os.geteuid()).pw_name
            return
        nobody = pwd.getpwnam("nobody")
        os.seteuid(nobody.pw_uid)
        try:
            yield nobody.pw_name
        finally:
            os.seteuid(0)

    return drop
