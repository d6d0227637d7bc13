"""A session that was killed leaves its lab behind; the next one ends exactly those."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from recovery.demo.processes import ProcessId, identify, write_pid_file
from tests.slurm.lab_fixture import OWNER, PREFIX, end_abandoned_labs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = tmp_path / f"{PREFIX}x"
    made.mkdir()
    return made


def test_a_lab_whose_session_is_gone_is_removed(folder: Path) -> None:
    write_pid_file(folder / OWNER, ProcessId(os.getpid(), "1"))  # our number, but born at another time
    end_abandoned_labs()
    assert not folder.exists()


def test_a_lab_whose_session_lives_is_kept(folder: Path) -> None:
    owner = identify(os.getpid())
    assert owner is not None
    write_pid_file(folder / OWNER, owner)
    end_abandoned_labs()
    assert folder.exists()


def test_a_lab_that_is_just_being_made_is_kept(folder: Path) -> None:
    end_abandoned_labs()
    assert folder.exists()
