"""A suite that can't run is named at the very end; with CI=true it is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.demo import lab_host
from tests import needs

SUITE = """
import pytest

@pytest.mark.browser
def test_in_a_browser() -> None:
    raise AssertionError("was to be left out")

def test_anywhere() -> None:
    pass
"""
PROJECT = Path(__file__).parents[2]


def run(tmp_path: Path, *, ci: str) -> subprocess.CompletedProcess[str]:
    """Pytest with our plug-in on a machine with no browser on its PATH."""
    (tmp_path / "test_small.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  browser: x\n")
    code = (
        "import sys, pytest; from tests import needs; needs.DAEMON_PATH = '/nowhere'; sys.argv[0] = 'pytest';"
        "sys.exit(pytest.main(['-p', 'tests.left_out', '-p', 'no:randomly', '-p', 'no:django', '-q']))"
    )
    env = {**os.environ, "CI": ci, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )


def test_a_suite_left_out_is_named_with_the_remedy_on_the_last_line(tmp_path: Path) -> None:
    result = run(tmp_path, ci="")
    assert result.returncode == 0, result.stdout
    last = result.stdout.splitlines()[-1]
    assert last == "Left out: browser (1 test): no Chromium is installed: apt-get install chromium"


def test_in_ci_nothing_may_be_left_out(tmp_path: Path) -> None:
    result = run(tmp_path, ci="true")
    assert result.returncode == 1, result.stdout
    assert result.stdout.splitlines()[-1] == "CI=true: nothing may be left out, so this run has failed."


@pytest.mark.parametrize("suite", needs.SUITES)
def test_a_bare_machine_is_told_what_to_install(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "DAEMON_PATH", "/nowhere")
    monkeypatch.setattr(lab_host, "SEARCH_PATH", "/nowhere")
    monkeypatch.setattr(needs, "postgres_folder", lambda: None)
    assert "apt-get install" in needs.SUITES[suite]()


def test_every_marker_of_a_suite_is_known(pytestconfig: pytest.Config) -> None:
    declared = {line.partition(":")[0] for line in pytestconfig.getini("markers")}
    assert set(needs.SUITES) <= declared
