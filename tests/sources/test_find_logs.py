from __future__ import annotations

import os
from pathlib import Path

import pytest

from recovery.core.log_patterns import LogFacts, log_pattern
from recovery.sources import find_logs as module
from recovery.sources.find_logs import FoundLogs, find_logs
from tests.sources.conftest import Unprivileged, open_descriptors

JOB = LogFacts(job_id="4711", name="train", user="ada", nodes=("gpu-01", "gpu-02"))


def find(root: Path, pattern: str) -> FoundLogs:
    return find_logs(log_pattern(f"{root}/{pattern}", JOB), roots=[str(root)])


def names(found: FoundLogs, root: Path) -> list[str]:
    return [str(Path(log.path).relative_to(root)) for log in found.files]


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x\n")


def test_a_log_per_task_is_found_by_what_exists_lowest_rank_first(root: Path) -> None:
    write(root, "4711-10.out", "4711-2.out", "4711-0.out", "4712-1.out", "4711-x.out")
    found = find(root, "%j-%t.out")
    assert names(found, root) == ["4711-0.out", "4711-2.out", "4711-10.out"]
    assert [log.rank for log in found.files] == [0, 2, 10]
    assert list(found.marks) == [str(root)]


def test_a_number_that_can_be_no_rank_is_none(root: Path) -> None:
    write(root, "j-2147483647.out", "j-2147483648.out")
    assert [log.rank for log in find(root, "j-%t.out").files] == [2**31 - 1, None]


def test_a_host_may_be_called_otherwise_than_its_node(root: Path) -> None:
    """Seen on Slurm 22.05: srun fills in the host's name for %N. The job's id in it keeps other jobs' files out."""
    write(root, "ip-10-0-0-7/4711.out", "ip-10-0-0-7/4712.out", "ip-10-0-0-7/train.out")
    assert names(find(root, "%N/%j.out"), root) == ["ip-10-0-0-7/4711.out"]
    assert names(find(root, "%N/train.out"), root) == []
    write(root, "gpu-01/4711.out")
    assert names(find(root, "%N/%j.out"), root) == ["gpu-01/4711.out"]


def test_a_log_per_node_tells_its_node(root: Path) -> None:
    write(root, "gpu-01/4711.out", "gpu-02/4711.out", "gpu-03/4711.out")
    found = find(root, "%N/%j.out")
    assert names(found, root) == ["gpu-01/4711.out", "gpu-02/4711.out"]
    assert [log.node for log in found.files] == ["gpu-01", "gpu-02"]


def test_a_folder_and_a_name_may_be_open(root: Path) -> None:
    write(root, "a/run1/r-0.log", "b/run2/r-1.log", "b/run2/other.txt", "c/r-2.log")
    assert names(find(root, "*/run?/r-[0-9].log"), root) == ["a/run1/r-0.log", "b/run2/r-1.log"]


def test_one_name_is_given_out_before_it_exists(root: Path) -> None:
    assert names(find(root, "%x-%j.out"), root) == ["train-4711.out"]


def test_nothing_that_matches_is_no_trouble(root: Path) -> None:
    found = find(root, "none/*.out")
    assert (found.files, found.refused, found.marks) == ((), None, {})


def test_only_regular_files_count_among_many(root: Path) -> None:
    write(root, "a.out", "folder.out/x")
    os.mkfifo(root / "pipe.out")
    (root / "link.out").symlink_to(root / "a.out")
    (root / "dangling.out").symlink_to(root / "gone")
    (root / "loop.out").symlink_to(root / "loop.out")
    assert names(find(root, "*.out"), root) == ["a.out", "link.out"]


def test_links_that_lead_back_multiply_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a.out").touch()
    for name in "abcdefgh":
        (root / name).symlink_to(".")
    listed: list[object] = []
    scan = os.scandir

    def counting(folder: int) -> object:
        listed.append(folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", counting)
    found = find(root, "*/*/*/*/*/*.out")
    assert [log.path.count("/") for log in found.files] == [str(root).count("/") + 6]
    assert (len(listed), found.cut) == (6, False)


def test_no_folder_outside_the_roots_is_listed(root: Path) -> None:
    write(root.parent, "outside/a.out")
    found = find_logs(log_pattern(f"{root.parent}/outside/*.out", JOB), roots=[str(root)])
    assert found.files == ()
    assert found.refused is not None
    assert "outside the folders" in found.refused.sentence
    (root / "way").symlink_to(root.parent / "outside")
    assert find(root, "way/*.out").refused is not None


def test_a_folder_that_may_not_be_listed_comes_with_the_command_that_helps(
    open_root: Path, unprivileged: Unprivileged
) -> None:
    write(open_root, "closed/a.out")
    (open_root / "closed").chmod(0o711)
    with unprivileged() as account:
        found = find(open_root, "closed/*.out")
    assert found.refused is not None
    assert f"setfacl -m u:{account}:rx {open_root}/closed" in found.refused.remedy


def test_what_is_found_is_bounded_and_the_last_rank_is_among_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 3)
    write(root, *(f"{rank}.out" for rank in range(6)))
    found = find(root, "%t.out")
    assert ([log.rank for log in found.files], found.left_out) == ([0, 1, 5], 3)
    monkeypatch.setattr(module, "MOST_ENTRIES", 4)
    assert find(root, "%t.out").cut


def test_files_that_nobody_wrote_to_since_the_start_are_left_out(root: Path) -> None:
    write(root, "old.out", "new.out")
    os.utime(root / "old.out", (1000, 1000))
    pattern = log_pattern(f"{root}/*.out", JOB)
    assert names(find_logs(pattern, roots=[str(root)], since=2000), root) == ["new.out"]


def test_a_name_that_can_not_be_shown_is_passed_over(root: Path) -> None:
    write(root, "a.out", "b\n.out")
    (Path(os.fsdecode(os.fsencode(root) + b"/\xff.out"))).write_text("x")
    assert names(find(root, "*.out"), root) == ["a.out"]


def test_no_descriptor_stays_open(root: Path) -> None:
    write(root, "a/1.out", "b/2.out")
    before = open_descriptors()
    find(root, "*/%t.out")
    find(root, "nowhere/%t.out")
    assert open_descriptors() == before
