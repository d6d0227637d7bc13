"""`make stop`, which `make clean` begins with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recovery.demo import stop
from recovery.demo.processes import identify, write_pid_file
from recovery.demo.supervisor import Supervisor


def test_what_a_killed_start_left_in_any_folder_below_is_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Supervisor(tmp_path / "demo"):
        pass
    orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"], start_new_session=True)
    identity = identify(orphan.pid)
    assert identity
    write_pid_file(tmp_path / "demo" / "run" / "worker.pid", identity)
    assert stop.main(tmp_path) == 0
    assert orphan.wait(5) < 0
    assert capsys.readouterr().out == f"{tmp_path}/demo: stopped worker\n"


def test_what_is_in_use_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Supervisor(tmp_path / "demo"):
        assert stop.main(tmp_path) == 1
    assert "already runs here" in capsys.readouterr().err


def test_folders_of_other_things_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    assert stop.main(tmp_path) == 0
    assert list((tmp_path / "static").iterdir()) == []
