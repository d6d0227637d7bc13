from __future__ import annotations

from pathlib import Path

import pytest

from recovery.core.types import CheckpointState
from tests.sources.folders import TRACKER, legacy, look, scan, sharded, track, write

COMPLETE, TORN, ANNOUNCED = CheckpointState.COMPLETE, CheckpointState.TORN, CheckpointState.ANNOUNCED


@pytest.fixture
def folder(root: Path) -> Path:
    path = root / "run"
    path.mkdir()
    return path


@pytest.fixture(params=[legacy, sharded])
def three(folder: Path, request: pytest.FixtureRequest) -> Path:
    """Three complete checkpoints, in both formats."""
    for step in (100, 200, 300):
        request.param(folder, step)
    track(folder, 300)
    return folder


def test_what_the_tracker_vouches_for_and_has_no_hole_is_complete(three: Path) -> None:
    got = {each.step: (each.state, each.detail) for each in scan(three).looks}
    assert got == dict.fromkeys((100, 200, 300), (COMPLETE, ""))


def test_what_is_newer_than_the_tracker_is_announced(three: Path) -> None:
    track(three, 200)
    each = look(three, 300)
    assert each.state is ANNOUNCED
    assert "200" in each.detail
    assert look(three, 200).state is COMPLETE


def test_without_a_tracker_nothing_is_confirmed(three: Path) -> None:
    (three / TRACKER).unlink()
    got = scan(three)
    assert got.tracker_step is None
    assert {each.state for each in got.looks} == {ANNOUNCED}


@pytest.mark.parametrize("content", ["", "  \n", "34o", "-5", "99999999999", "3" * 64, "12 13", "\0\0\0"])
def test_a_broken_tracker_is_an_error_with_a_remedy(content: str, three: Path) -> None:
    track(three, content)
    got = scan(three)
    assert TRACKER in got.error
    assert "newest complete checkpoint" in got.remedy


def test_a_tracker_may_end_its_line(three: Path) -> None:
    track(three, "200\n")
    assert scan(three).tracker_step == 200


def test_a_release_names_no_step(three: Path) -> None:
    track(three, "release")
    assert scan(three).tracker_step is None
    assert "release" in look(three, 100).detail


def test_a_tracker_that_names_a_checkpoint_that_is_gone_is_told(three: Path) -> None:
    track(three, 400)
    each = look(three, 400)
    assert (each.state, each.path) == (CheckpointState.MISSING, str(three / "iter_0000400"))
    assert TRACKER in each.detail


def test_an_empty_shard_is_torn(folder: Path) -> None:
    write(legacy(folder, 100) / "mp_rank_02" / "model_optim_rng.pt", 0)
    track(folder, 100)
    each = look(folder, 100)
    assert (each.state, each.detail) == (TORN, "mp_rank_02/model_optim_rng.pt is empty.")


def test_a_checkpoint_without_any_shard_is_torn(folder: Path) -> None:
    (folder / "iter_0000100").mkdir()
    track(folder, 100)
    assert look(folder, 100).state is TORN


def test_a_hole_in_the_numbers_of_ranks_is_torn(folder: Path) -> None:
    (legacy(folder, 100) / "mp_rank_01" / "model_optim_rng.pt").unlink()
    track(folder, 100)
    each = look(folder, 100)
    assert each.state is TORN
    assert "mp_rank_01" in each.detail


@pytest.mark.parametrize("axes", [("00_000", "00_001", "01_000", "01_001"), ("00_000_000", "00_000_001")])
def test_tensor_pipeline_and_expert_ranks_make_a_grid(axes: tuple[str, ...], folder: Path) -> None:
    for place in axes:
        write(folder / "iter_0000100" / f"mp_rank_{place}" / "model_optim_rng.pt", 10)
    track(folder, 100)
    assert look(folder, 100).state is COMPLETE
    (folder / "iter_0000100" / f"mp_rank_{axes[0]}" / "model_optim_rng.pt").unlink()
    assert look(folder, 100).state is TORN


def test_numbers_of_ranks_that_no_job_has_cost_nothing(folder: Path) -> None:
    write(folder / "iter_0000100" / "mp_rank_99999_99999_99999" / "model_optim_rng.pt", 10)
    track(folder, 100)
    assert look(folder, 100).state is TORN


def test_every_rank_has_files_of_the_same_names(folder: Path) -> None:
    checkpoint = legacy(folder, 100)
    for rank in range(3):
        write(checkpoint / f"mp_rank_{rank:02d}" / "distrib_optim.pt", 10)
    track(folder, 100)
    each = look(folder, 100)
    assert each.state is TORN
    assert each.detail.startswith("mp_rank_03/distrib_optim.pt is missing")


def test_a_last_rank_that_is_missing_shows_beside_the_neighbours(folder: Path) -> None:
    for step in (100, 200):
        legacy(folder, step)
    legacy(folder, 300, ranks=3)
    track(folder, 300)
    each = look(folder, 300)
    assert each.state is TORN
    assert "mp_rank_03" in each.detail


@pytest.mark.parametrize("size", [1, 400, 740])
def test_a_shard_that_was_cut_off_is_torn(size: int, three: Path) -> None:
    shard = next(path for path in sorted((three / "iter_0000300").rglob("*")) if path.stat().st_size == 1000)
    write(shard, size)
    each = look(three, 300)
    assert each.state is TORN
    assert shard.name in each.detail
    assert look(three, 200).state is COMPLETE


def test_a_single_shard_that_was_cut_off_is_torn(folder: Path) -> None:
    for step in (100, 200):
        legacy(folder, step, ranks=1)
    legacy(folder, 300, ranks=1, size=500)
    track(folder, 300)
    assert look(folder, 300).state is TORN


def test_sizes_that_vary_a_little_are_normal(folder: Path) -> None:
    for step, size in ((100, 1000), (200, 900), (300, 1100)):
        sharded(folder, step, size=size)
    track(folder, 300)
    assert {each.state for each in scan(folder).looks} == {COMPLETE}


def test_a_checkpoint_whose_shards_all_shrank_alike_was_saved_without_the_optimizer(folder: Path) -> None:
    for step, size in ((100, 1000), (200, 1000), (300, 400)):
        legacy(folder, step, size=size)
    track(folder, 300)
    assert look(folder, 300).state is COMPLETE


def test_the_first_checkpoint_of_a_run_has_nothing_to_be_compared_with(folder: Path) -> None:
    legacy(folder, 100)
    track(folder, 100)
    assert look(folder, 100).state is COMPLETE


@pytest.mark.parametrize("name", [".metadata", "metadata.json", "common.pt"])
def test_a_sharded_checkpoint_without_its_metadata_is_torn(name: str, folder: Path) -> None:
    (sharded(folder, 100) / name).unlink()
    track(folder, 100)
    each = look(folder, 100)
    assert each.state is TORN
    assert each.detail.startswith(f"{name} is missing")


def test_a_sharded_checkpoint_without_a_shard_is_torn(folder: Path) -> None:
    for shard in sharded(folder, 100).glob("*.distcp"):
        shard.unlink()
    track(folder, 100)
    assert look(folder, 100).state is TORN


def test_torch_dcp_has_metadata_and_shards_only(folder: Path) -> None:
    checkpoint = sharded(folder, 100)
    (checkpoint / "common.pt").unlink()
    (checkpoint / "metadata.json").unlink()
    track(folder, 100)
    assert look(folder, 100).state is COMPLETE


def test_a_shard_lost_in_the_middle_is_torn(folder: Path) -> None:
    for step in (100, 200, 300):
        sharded(folder, step)
    track(folder, 300)
    (folder / "iter_0000300" / "__1_0.distcp").unlink()
    assert look(folder, 300).state is TORN


def test_a_run_that_goes_on_with_fewer_ranks_is_believed(folder: Path) -> None:
    for step, ranks in ((100, 8), (200, 8), (300, 4), (400, 4)):
        sharded(folder, step, ranks=ranks, size=8000 // ranks)
    track(folder, 400)
    assert {each.step: each.state for each in scan(folder).looks} == dict.fromkeys((100, 200, 300, 400), COMPLETE)


def test_fewer_ranks_between_two_checkpoints_with_all_of_them_are_a_loss(folder: Path) -> None:
    for step, ranks in ((100, 8), (200, 4), (300, 8)):
        sharded(folder, step, ranks=ranks)
    track(folder, 300)
    assert look(folder, 200).state is TORN


def test_a_torn_neighbour_is_no_measure(folder: Path) -> None:
    for step in (100, 200, 300):
        legacy(folder, step)
    write(folder / "iter_0000200" / "mp_rank_07" / "model_optim_rng.pt", 10)  # a hole: 4, 5 and 6 are missing
    track(folder, 300)
    states = {each.step: each.state for each in scan(folder).looks}
    assert states == {100: COMPLETE, 200: TORN, 300: COMPLETE}


def test_a_legacy_checkpoint_may_carry_a_note_beside_its_shards(folder: Path) -> None:
    for step in (100, 200):
        write(legacy(folder, step) / "metadata.json", 40 if step == 100 else 10)
    legacy(folder, 300)
    track(folder, 300)
    assert {each.state for each in scan(folder).looks} == {COMPLETE}


def test_the_zarr_format_is_said_to_be_unknown(folder: Path) -> None:
    checkpoint = folder / "iter_0000100"
    write(checkpoint / "model.weight" / ".zarray", 10)
    write(checkpoint / "common.pt", 10)
    track(folder, 100)
    each = look(folder, 100)
    assert each.state is CheckpointState.UNKNOWN
    assert "zarr" in each.detail
