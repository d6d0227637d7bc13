"""Metrics files and NVRx's files of a job that means harm: what is read of them is bounded and can be kept."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from recovery.sources import metrics_files
from recovery.sources.metrics_files import find_files, read_cycles, read_iteration


def test_names_that_no_database_keeps_are_passed_over(root: Path) -> None:
    (root / "m-1.jsonl").touch()
    os.close(os.open(os.fsencode(root) + b"/m-\xff.jsonl", os.O_CREAT | os.O_WRONLY))
    (root / "m-\x1b[2J.jsonl").touch()
    assert find_files(f"{root}/m-*.jsonl", roots=[str(root)]).paths == (f"{root}/m-1.jsonl",)


def test_of_a_folder_with_any_number_of_files_some_are_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_files, "MOST_ENTRIES", 50)
    for number in range(200):
        (root / f"m-{number:03}.jsonl").touch()
    found = find_files(f"{root}/*", roots=[str(root)])
    assert 0 < len(found.paths) <= 50
    monkeypatch.setattr(metrics_files, "MOST_FILES", 5)
    assert len(find_files(f"{root}/m-0*", roots=[str(root)]).paths) == 5


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 30, "1e3", "٣", "\0", "400 and more"])
def test_an_iteration_that_is_no_number_is_none(text: str, root: Path) -> None:
    (root / "iteration").write_text(text)
    assert read_iteration(f"{root}/iteration", roots=[str(root)]).step is None


def test_files_that_would_block_or_lie_elsewhere_are_not_read(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "pipe")
    assert "a pipe" in read_iteration(f"{root}/pipe", roots=[str(root)]).error
    (tmp_path / "secret").write_text("7")
    (root / "link").symlink_to(tmp_path / "secret")
    assert "outside" in read_iteration(f"{root}/link", roots=[str(root)]).error
    os.mkfifo(root / "cycle_info.1.0.0")
    assert read_cycles(str(root), job_id="1", attempt=0, since=None, roots=[str(root)]).cycles == ()


def test_a_cycle_says_nothing_that_can_not_be_kept(root: Path) -> None:
    told = {"cycle_start_time": "2026-01-11T12:00:00", "active_nodes": "n1\0\ud800\x1b[2J" + "x" * 1000}
    (root / "cycle_info.1.0.3").write_text(json.dumps(told))
    (root / "cycle_info.1.0.4").write_text("[" * 100_000)
    [cycle] = read_cycles(str(root), job_id="1", attempt=0, since=None, roots=[str(root)]).cycles
    assert (cycle.number, cycle.nodes[:6], len(cycle.nodes)) == (3, "n1[2Jx", 297)
    assert cycle.started_at is not None


def test_after_a_requeue_nvrx_begins_again_with_its_first_name(root: Path) -> None:
    """It reads SLURM_RESTART_CNT, which Slurm does not set: each attempt is 0 to it, and writes over the one before."""
    began = datetime(2026, 1, 11, 12, tzinfo=UTC)
    for cycle, minutes in enumerate((1, 9, -50, -40)):  # the last two are what the attempt before left
        told = {"cycle_start_time": (began + timedelta(minutes=minutes)).isoformat(), "active_nodes": "n1"}
        (root / f"cycle_info.7.0.{cycle}").write_text(json.dumps(told))

    def numbers(attempt: int) -> list[int]:
        found = read_cycles(str(root), job_id="7", attempt=attempt, since=began, roots=[str(root)]).cycles
        return [cycle.number for cycle in found]

    assert numbers(1) == [0, 1]
    (root / "cycle_info.7.1.5").write_text(json.dumps({"cycle_start_time": began.isoformat()}))
    assert numbers(1) == [5]  # where somebody set it, its word counts
    assert read_cycles(str(root), job_id="8", attempt=1, since=began, roots=[str(root)]).cycles == ()


def test_of_cycles_without_end_some_are_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(metrics_files, "_cycle", lambda path, number, roots: opened.append(path))
    for cycle in range(300):
        (root / f"cycle_info.7.0.{cycle}").touch()
    assert read_cycles(str(root), job_id="7", attempt=0, since=None, roots=[str(root)]).cycles == ()
    assert len(opened) == metrics_files.MOST_CYCLES
