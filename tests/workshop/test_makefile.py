"""The Makefile as a newcomer meets it: help, a missing Python, packages that are missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
MAKEFILE = (TOP / "Makefile").read_text(encoding="utf-8")
TOOLS = ("make", "sh", "awk", "touch", "id", "grep", "cat", "mkdir", "true")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile and an empty lock file in a folder of their own, and an empty folder of programs."""
    folder = tmp_path / "checkout"
    (folder / "bin").mkdir(parents=True)
    shutil.copy(TOP / "Makefile", folder)
    for name in ("requirements.lock", "requirements-dev.lock"):
        (folder / name).touch()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (folder / "bin" / tool).symlink_to(found)
    return folder


def put(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make with nothing on PATH but what the test has put there."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE", "PYTHON"))}
    env["PATH"] = str(folder / "bin")
    return subprocess.run(
        [shutil.which("make") or "make", *arguments],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_is_the_default_and_names_every_command_that_a_person_calls(checkout: Path) -> None:
    shown = make(checkout).stdout
    assert shown == make(checkout, "help").stdout
    listed = set(re.findall(r"^  make ([a-z-]+) ", shown, flags=re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)[0].split())
    assert listed == phony - {"system-packages"}


def test_no_python_is_said_with_what_to_do(checkout: Path) -> None:
    result = make(checkout, "venv")
    assert result.returncode != 0
    assert "needs Python 3.11 or newer" in result.stderr
    assert "PYTHON=/path/to/python3" in result.stderr


def test_an_old_python_is_passed_over(checkout: Path) -> None:
    put(checkout, "python3", "exit 1")
    put(checkout, "python3.12", 'case "$*" in *version_info*) exit 0;; *) exit 1;; esac')
    assert "python3.12 has no venv module" in make(checkout, "venv").stderr


def test_a_named_python_is_the_only_one_tried(checkout: Path) -> None:
    put(checkout, "python3", "exit 0")
    assert "needs Python 3.11 or newer" in make(checkout, "venv", "PYTHON=/nowhere/python3").stderr


def test_python_without_venv_is_said_with_the_package_that_brings_it(checkout: Path) -> None:
    put(checkout, "python3", 'case "$*" in *version_info*) exit 0;; *) exit 1;; esac')
    result = make(checkout, "venv")
    assert result.returncode != 0
    assert "apt-get install python3-venv" in result.stderr


def test_the_environment_is_made_once(checkout: Path) -> None:
    (checkout / "bin" / "python3").symlink_to(sys.executable)
    first = make(checkout, "venv")
    assert first.returncode == 0, first.stderr
    assert (checkout / ".venv" / "bin" / "python").exists()
    assert make(checkout, "venv").stdout == "make: Nothing to be done for 'venv'.\n"


def test_a_newer_lock_file_is_installed(checkout: Path) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    python = checkout / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$*" >> calls\n')
    python.chmod(0o755)
    make(checkout, "venv")
    make(checkout, "venv")
    os.utime(checkout / "requirements.lock", (4_000_000_000, 4_000_000_000))
    make(checkout, "venv")
    calls = (checkout / "calls").read_text().splitlines()
    assert len(calls) == 2
    assert all("--require-hashes" in call and call.endswith("-r requirements.lock") for call in calls)


def test_packages_that_are_missing_are_named_to_a_user_who_is_not_root(checkout: Path) -> None:
    put(checkout, "dpkg-query", 'case "$*" in *munge*) echo "install ok installed";; *) exit 1;; esac')
    (checkout / "bin" / "id").unlink()
    put(checkout, "id", "echo 1000")
    result = make(checkout, "system-packages")
    assert result.returncode == 0
    assert "slurm-wlm slurmdbd" in result.stdout
    assert " munge" not in result.stdout


def test_root_installs_only_what_is_missing_and_asks_nothing(checkout: Path) -> None:
    put(checkout, "dpkg-query", 'case "$*" in *chromium*) exit 1;; *) echo "install ok installed";; esac')
    (checkout / "bin" / "id").unlink()
    put(checkout, "id", "echo 0")
    put(checkout, "apt-get", 'echo "$DEBIAN_FRONTEND $*" >> calls')
    assert make(checkout, "system-packages").returncode == 0
    calls = (checkout / "calls").read_text().splitlines()
    assert calls == ["noninteractive update -qq", "noninteractive install -qq --no-install-recommends chromium"]


def test_where_nothing_is_missing_nothing_is_said(checkout: Path) -> None:
    put(checkout, "dpkg-query", 'echo "install ok installed"')
    result = make(checkout, "system-packages")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_where_there_is_no_dpkg_nothing_is_installed(checkout: Path) -> None:
    assert make(checkout, "system-packages").returncode == 0


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_has_a_hash_and_no_index_is_named(name: str) -> None:
    text = (TOP / name).read_text(encoding="utf-8")
    entries = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    assert entries
    assert all(re.match(r"[\w.-]+(\[.*\])?==", entry) and "--hash=sha256:" in entry for entry in entries)
    assert "index" not in text
    assert "://" not in text


def test_the_two_lock_files_agree() -> None:
    def pins(name: str) -> dict[str, str]:
        lines = (TOP / name).read_text(encoding="utf-8").splitlines()
        return dict(line.split()[0].split("==") for line in lines if re.match(r"\S+==", line))

    run, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {name: dev.get(name) for name in run} == run
