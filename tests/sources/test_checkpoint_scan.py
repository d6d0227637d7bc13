"""Scanning a folder: bounds, roots, permissions, and folders that change under our eyes."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.checkpoints import settle
from recovery.core.types import CheckpointState
from recovery.sources import checkpoints
from recovery.sources.beneath import Refused
from recovery.sources.checkpoints import LONGEST_FOLDER, scan_checkpoints
from recovery.sources.checkpoints import listing as listing_module
from recovery.sources.checkpoints.layouts import LAYOUTS
from recovery.sources.checkpoints.listing import FileFact, Listing
from recovery.sources.checkpoints.rules import Tracker
from tests.sources.conftest import Unprivileged, open_descriptors
from tests.sources.folders import legacy, look, scan, track, write


@pytest.fixture
def folder(root: Path) -> Path:
    path = root / "run"
    path.mkdir()
    return path


def test_a_folder_that_is_not_there_yet_is_missing(root: Path) -> None:
    got = scan(root / "later")
    assert (got.missing, got.error, got.looks) == (True, "", ())


def test_an_empty_folder_has_no_checkpoints(folder: Path) -> None:
    got = scan(folder)
    assert (got.missing, got.error, got.looks, got.tracker_step) == (False, "", (), None)


def test_looks_are_ordered_by_step_and_name_their_path(folder: Path) -> None:
    for step in (300, 100, 200):
        legacy(folder, step)
    track(folder, 300)
    got = scan(folder)
    assert [(each.step, each.path) for each in got.looks] == [
        (step, str(folder / f"iter_{step:07d}")) for step in (100, 200, 300)
    ]
    assert got.tracker_step == 300


def test_only_the_newest_are_looked_at(folder: Path) -> None:
    for step in range(1, 8):
        legacy(folder, step, ranks=1)
    track(folder, 7)
    assert [each.step for each in scan(folder, newest=3).looks] == [5, 6, 7]


def test_other_names_are_no_checkpoints(folder: Path) -> None:
    for name in ("iter_12", "iter_abc", "iter_0000840.tmp", "release", "logs", "iter_99999999999"):
        (folder / name).mkdir()
    write(folder / "iter_0000001", 10)  # a file
    assert scan(folder).looks == ()


def test_the_size_is_the_sum_of_all_files(folder: Path) -> None:
    write(legacy(folder, 5, ranks=3, size=100) / "notes.txt", 7)
    track(folder, 5)
    assert look(folder, 5).size_bytes == 307


def test_a_growing_file_a_new_file_and_a_new_time_each_change_the_fingerprint(folder: Path) -> None:
    checkpoint = legacy(folder, 5)
    shard = checkpoint / "mp_rank_00" / "model_optim_rng.pt"
    seen = [look(folder, 5).fingerprint]
    write(shard, 1001)
    seen.append(look(folder, 5).fingerprint)
    os.utime(shard, ns=(0, 2 * 10**9))
    seen.append(look(folder, 5).fingerprint)
    write(checkpoint / "more", 1)
    seen.append(look(folder, 5).fingerprint)
    assert len(set(seen)) == 4
    assert look(folder, 5).fingerprint == seen[-1]


def test_a_checkpoint_is_settled_by_two_equal_looks(folder: Path) -> None:
    legacy(folder, 5)
    track(folder, 5)
    first, second = look(folder, 5), look(folder, 5)
    assert settle(None, first) is CheckpointState.ANNOUNCED
    assert settle(first, second) is CheckpointState.COMPLETE


def test_a_folder_outside_the_roots_is_refused(root: Path, tmp_path: Path) -> None:
    legacy(tmp_path / "elsewhere", 5)
    got = scan_checkpoints(str(tmp_path / "elsewhere"), roots=[str(root)])
    assert "outside" in got.error
    assert "RECOVERY_CHECKPOINT_ROOTS" in got.remedy
    assert got.looks == ()


def test_a_checkpoint_kept_by_a_link_inside_the_roots_is_followed(folder: Path) -> None:
    kept = legacy(folder.parent / "kept", 5)
    (folder / "iter_0000005").symlink_to(kept)
    track(folder, 5)
    assert look(folder, 5).state is CheckpointState.COMPLETE


def test_a_checkpoint_that_links_out_of_the_roots_is_not_looked_at(folder: Path, tmp_path: Path) -> None:
    outside = legacy(tmp_path / "outside", 5)
    (folder / "iter_0000005").symlink_to(outside)
    track(folder, 5)
    got = scan_checkpoints(str(folder), roots=[str(folder.parent)])
    (each,) = got.looks
    assert (each.state, each.size_bytes) == (CheckpointState.UNKNOWN, 0)
    assert "outside" in each.detail


def test_a_dangling_link_is_no_checkpoint(folder: Path) -> None:
    (folder / "iter_0000005").symlink_to(folder / "gone")
    assert scan(folder).looks == ()


def test_a_shard_that_is_a_link_is_not_followed(folder: Path) -> None:
    shard = legacy(folder, 5) / "mp_rank_01" / "model_optim_rng.pt"
    shard.unlink()
    shard.symlink_to("/etc/passwd")
    track(folder, 5)
    each = look(folder, 5)
    assert each.state is CheckpointState.UNKNOWN
    assert "mp_rank_01/model_optim_rng.pt" in each.detail


def test_a_link_that_is_no_shard_does_no_harm(folder: Path) -> None:
    (legacy(folder, 5) / "config").symlink_to("/etc/passwd")
    track(folder, 5)
    assert look(folder, 5).state is CheckpointState.COMPLETE


def test_a_folder_that_may_not_be_listed_names_the_command(open_root: Path, unprivileged: Unprivileged) -> None:
    folder = open_root / "run"
    folder.mkdir(mode=0o700)
    if os.geteuid() != 0:
        folder.chmod(0o000)
    with unprivileged() as account:
        got = scan(folder)
    folder.chmod(0o700)
    assert got.error == f"Permission denied at {folder}."
    assert f"setfacl -m u:{account}:rx {folder}" in got.remedy


def test_a_checkpoint_that_may_not_be_listed_is_unknown_and_the_others_are_not(
    open_root: Path, unprivileged: Unprivileged
) -> None:
    folder = open_root / "run"
    folder.mkdir()
    closed = legacy(folder, 5)
    legacy(folder, 6)
    track(folder, 6)
    closed.chmod(0o000)
    with unprivileged() as account:
        looks = {each.step: each for each in scan(folder).looks}
    closed.chmod(0o700)
    assert looks[5].state is CheckpointState.UNKNOWN
    assert f"setfacl -m u:{account}:rx" in looks[5].detail
    assert looks[6].state is CheckpointState.COMPLETE


def test_a_shard_folder_that_may_not_be_listed_makes_its_checkpoint_unknown(
    open_root: Path, unprivileged: Unprivileged
) -> None:
    folder = open_root / "run"
    folder.mkdir()
    closed = legacy(folder, 5) / "mp_rank_02"
    track(folder, 5)
    closed.chmod(0o000)
    with unprivileged():
        each = look(folder, 5)
    closed.chmod(0o700)
    assert each.state is CheckpointState.UNKNOWN
    assert "mp_rank_02" in each.detail


def test_a_folder_removed_while_it_is_looked_at_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    legacy(folder, 5)
    track(folder, 5)
    list_one = listing_module.list_checkpoint

    def remove_first(*args: object, **kwargs: object) -> Listing | None:
        shutil.rmtree(folder)
        return list_one(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoints, "list_checkpoint", remove_first)
    got = scan(folder)
    assert (got.missing, got.error, got.looks) == (True, "", ())


def test_a_checkpoint_removed_while_it_is_looked_at_is_not_called_torn(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = legacy(folder, 5)
    legacy(folder, 6)
    track(folder, 6)
    visit = listing_module._visit

    def remove_first(at: int, entry: os.DirEntry[str], name: str, *rest: object) -> None:
        if name == "mp_rank_02" and checkpoint.exists():
            shutil.rmtree(checkpoint)
        visit(at, entry, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(listing_module, "_visit", remove_first)
    states = {each.step: each.state for each in scan(folder).looks}
    assert states.get(5) is not CheckpointState.TORN
    assert states.get(5) is not CheckpointState.COMPLETE


def test_no_more_files_are_asked_for_than_the_budget_allows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MOST_FILES", 20)
    for step in range(1, 10):
        legacy(folder, step, ranks=4)  # eight entries each
    track(folder, 9)
    assert [each.step for each in scan(folder).looks] == [8, 9]  # the newest are looked at whole, the others not at all


def test_a_single_checkpoint_beyond_the_budget_is_unknown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MOST_FILES", 5)
    legacy(folder, 1, ranks=10)
    track(folder, 1)
    each = look(folder, 1)
    assert each.state is CheckpointState.UNKNOWN
    assert "too many files" in each.detail


def test_a_deep_tree_is_not_descended_for_ever(folder: Path) -> None:
    deep = legacy(folder, 5)
    for _ in range(50):
        deep /= "d"
    deep.mkdir(parents=True)
    write(deep / "file", 1)
    track(folder, 5)
    assert look(folder, 5).state is CheckpointState.COMPLETE


def test_a_tracker_that_is_a_pipe_or_a_link_is_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "five").write_text("5")
    legacy(folder, 5)
    tracker = folder / "latest_checkpointed_iteration.txt"
    os.mkfifo(tracker)
    assert "not a regular file" in scan(folder).error
    tracker.unlink()
    tracker.symlink_to(tmp_path / "five")
    assert scan(folder).error


def test_names_that_are_no_text_are_shown_harmlessly(folder: Path) -> None:
    checkpoint = legacy(folder, 5)
    bad = os.fsencode(checkpoint / "mp_rank_00") + b"/\xff\x1b[31m.pt"
    Path(os.fsdecode(bad)).touch()
    track(folder, 5)
    each = look(folder, 5)
    assert each.state is CheckpointState.TORN
    each.detail.encode()
    assert each.detail.isprintable()


def test_a_checkpoint_whose_name_no_database_keeps_is_passed_over(folder: Path) -> None:
    for name in (b"epoch=1-step=5.ckpt", b"\xff-step=6.ckpt", b"a\nb-step=7.ckpt", b"\xe2\x80\xae-step=8.ckpt"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(b"PK")
    assert [each.step for each in scan(folder).looks] == [5]
    (folder / "epoch=1-step=5.ckpt").unlink()
    assert scan(folder).error  # not as if there were none


def test_a_path_that_no_database_keeps_is_refused_with_a_remedy(folder: Path) -> None:
    while len(str(folder)) < LONGEST_FOLDER:
        folder /= "x" * 200
    folder.mkdir(parents=True)
    legacy(folder, 5)
    got = scan(folder)
    assert (got.looks, got.remedy) == ((), "Save below a shorter path.")
    assert "more than 700 characters" in got.error


def test_no_descriptor_is_left_open(folder: Path) -> None:
    for step in (1, 2, 3):
        legacy(folder, step)
    (folder / "iter_0000009").symlink_to("/etc")
    track(folder, 3)
    before = open_descriptors()
    for _ in range(20):
        scan(folder)
    assert open_descriptors() == before


NAMES = st.sampled_from(
    [".metadata", "common.pt", "metadata.json", "__0_0.distcp", "__1_0.distcp", "x/.zarray", "mp_rank_00/m.pt",
     "mp_rank_01/m.pt", "mp_rank_00_001/m.pt", "mp_rank_99_99999_99999/m.pt", "mp_rank_00/other.pt", "n", "é/\udcff"]
)  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, 9), st.dictionaries(NAMES, st.integers(0, 2000)), st.sets(NAMES)), max_size=8),
    st.one_of(st.none(), st.integers(0, 9)),
)
def test_whatever_is_listed_every_layout_gives_a_verdict(
    folders: list[tuple[int, dict[str, int], set[str]]], tracked: int | None
) -> None:
    listings = [
        Listing(step=step, path="/c", files={n: FileFact(size=s, mtime_ns=0) for n, s in files.items()}, odd=odd)
        for step, files, odd in folders
    ]
    for layout in LAYOUTS:
        verdicts = layout.judge(listings, Tracker(step=tracked, note="no tracker"))
        assert len(verdicts) == len(listings)
        for state, detail in verdicts:
            assert (detail == "") == (state is CheckpointState.COMPLETE)
            detail.encode()


@given(st.binary(max_size=64))
def test_whatever_a_tracker_holds_it_is_a_step_or_a_note_or_refused(content: bytes) -> None:
    for layout in LAYOUTS:
        with suppress(Refused):
            tracker = layout.tracker(content)
            assert (tracker.step is None) == bool(tracker.note)
