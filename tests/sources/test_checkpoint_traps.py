"""What is peculiar to each trainer's checkpoints."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest

from recovery.core.checkpoints import CheckpointLook
from recovery.core.types import CheckpointState
from recovery.sources.checkpoints.ends import MOST_INDEX
from tests.sources import trainer_folders as trainers
from tests.sources.folders import look, scan
from tests.sources.trainer_folders import SIZE, archive, archive64, dcp, put, tensors

COMPLETE, TORN, ANNOUNCED, UNKNOWN = (
    CheckpointState.COMPLETE, CheckpointState.TORN, CheckpointState.ANNOUNCED, CheckpointState.UNKNOWN,
)  # fmt: skip


@pytest.fixture
def run(root: Path) -> Path:
    path = root / "run"
    path.mkdir()
    return path


def states(run: Path) -> dict[int, CheckpointState]:
    return {each.step: each.state for each in scan(run).looks}


def verdict(each: CheckpointLook) -> tuple[CheckpointState, str]:
    return each.state, each.detail


# What no layout knows


def test_a_layout_that_is_not_recognised_is_said_with_a_remedy(run: Path) -> None:
    put(run / "weights_10.npz", b"1")
    got = scan(run)
    assert got.error.startswith("Layout not recognised")
    assert "weights_10.npz" in got.error
    assert "checkpoint_dir" in got.remedy
    assert got.looks == ()


def test_the_layout_of_most_names_is_taken(run: Path) -> None:
    for step in (1, 2, 3):
        trainers.huggingface(run, step)
    (run / "2026").mkdir()  # Orbax would call its checkpoints so
    assert set(states(run)) == {1, 2, 3}


# torchtitan, OLMo-core


@pytest.mark.parametrize("build", [trainers.torchtitan, trainers.composer_sharded, trainers.nemo])
def test_shards_without_metadata_are_being_saved_or_were_cut_off(run: Path, build: trainers.Build) -> None:
    for step in (1, 2):
        next(build(run, step).rglob(".metadata")).unlink()
    assert states(run) == {1: TORN, 2: ANNOUNCED}
    assert "not all ranks" in look(run, 2).detail


def test_metadata_names_every_shard(run: Path) -> None:
    (trainers.torchtitan(run, 5) / "__3_0.distcp").unlink()
    assert verdict(look(run, 5)) == (TORN, "__3_0.distcp is missing; .metadata names it.")


def test_metadata_in_frames_must_have_them_all(run: Path) -> None:
    folder = trainers.torchtitan(run, 5)
    whole = pickle.dumps(
        {"storage": [f"__{rank}_0.distcp" for rank in range(4)], "more": list(range(40_000))}, protocol=4
    )
    put(folder / ".metadata", whole)
    assert look(run, 5).state is COMPLETE
    put(folder / ".metadata", whole[: len(whole) // 2] + b".")
    assert look(run, 5).state is TORN


def test_torchtitan_may_end_with_the_model_alone(run: Path) -> None:
    folder = run / "step-5"
    put(folder / "model-00001-of-00001.safetensors", tensors())
    put(folder / "model.safetensors.index.json", b'{"weight_map": {"w": "model-00001-of-00001.safetensors"}}')
    assert verdict(look(run, 5)) == (UNKNOWN, "It holds the model only, without the optimizer.")


def test_olmo_core_ends_with_its_own_metadata(run: Path) -> None:
    for step in (1, 2):
        (trainers.olmo_core(run, step) / ".metadata.json").unlink()
    assert states(run) == {1: TORN, 2: ANNOUNCED}


def test_an_olmo_core_model_without_its_trainer_is_not_counted(run: Path) -> None:
    dcp(run / "step5")
    assert verdict(look(run, 5)) == (UNKNOWN, "It holds the model only, without the trainer's state.")


# Hugging Face


def test_trainer_state_is_written_last(run: Path) -> None:
    for step in (1, 2):
        (trainers.huggingface(run, step) / "trainer_state.json").unlink()
    assert states(run) == {1: TORN, 2: ANNOUNCED}


def test_trainer_state_of_another_step_is_torn(run: Path) -> None:
    put(trainers.huggingface(run, 5) / "trainer_state.json", b'{"global_step": 4}')
    assert verdict(look(run, 5)) == (TORN, "trainer_state.json tells step 4.")


def test_a_long_history_of_logs_is_not_read_whole(run: Path) -> None:
    history = [{"loss": 2.5, "step": step} for step in range(10_000)]
    path = trainers.huggingface(run, 5) / "trainer_state.json"
    put(path, json.dumps({"epoch": 1, "global_step": 5, "log_history": history, "max_steps": 9}).encode())
    assert look(run, 5).state is COMPLETE
    path.write_bytes(path.read_bytes()[:-1])
    assert verdict(look(run, 5)) == (TORN, "trainer_state.json is cut off.")


def test_weights_without_the_optimizer_are_not_counted(run: Path) -> None:
    folder = trainers.huggingface(run, 5)
    (folder / "optimizer.pt").unlink()
    assert look(run, 5).state is TORN  # the scheduler was saved, so it was too
    (folder / "scheduler.pt").unlink()
    assert look(run, 5).state is UNKNOWN


def test_an_adapter_alone_is_a_model(run: Path) -> None:
    folder = trainers.huggingface(run, 5)
    for path in folder.glob("model*"):
        path.unlink()
    assert look(run, 5).state is TORN
    put(folder / "adapter_model.safetensors", tensors())
    assert look(run, 5).state is COMPLETE


def test_hugging_face_on_deepspeed_has_the_optimizer_in_shards(run: Path) -> None:
    folder = trainers.huggingface(run, 5)
    (folder / "optimizer.pt").unlink()
    trainers.deepspeed(folder, 5)
    assert look(run, 5).state is COMPLETE
    (folder / "global_step5" / "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt").unlink()
    assert verdict(look(run, 5)) == (TORN, "The ZeRO shards of rank 2 are missing.")


def test_hugging_face_on_deepspeed_misses_the_last_ranks_shard_beside_another_checkpoint(run: Path) -> None:
    """The shards lie in a folder that has the step in its name: it is another one in each checkpoint."""
    for step in (5, 10):
        folder = trainers.huggingface(run, step)
        (folder / "optimizer.pt").unlink()
        trainers.deepspeed(folder, step)
    assert states(run) == {5: COMPLETE, 10: COMPLETE}
    shard = folder / "global_step10" / "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt"
    put(shard, archive(SIZE // 4))
    assert look(run, 10).detail.startswith(f"{shard.name} has ")
    shard.unlink()
    assert verdict(look(run, 10)) == (
        TORN,
        f"{shard.name} is missing (1 files fewer than in the checkpoint beside it).",
    )


def test_hugging_face_on_fsdp_has_both_in_shards(run: Path) -> None:
    folder = trainers.huggingface(run, 5)
    for path in (*folder.glob("model*"), folder / "optimizer.pt"):
        path.unlink()
    for name in ("pytorch_model_fsdp_0", "optimizer_0"):
        dcp(folder / name)
    assert look(run, 5).state is COMPLETE
    (folder / "optimizer_0" / ".metadata").unlink()
    assert look(run, 5).state is TORN


def test_the_old_format_of_pytorch_can_not_be_judged(run: Path) -> None:
    put(trainers.huggingface(run, 5) / "optimizer.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + b"\0" * 100)
    each = look(run, 5)
    assert each.state is UNKNOWN
    assert "old format" in each.detail


# Lightning, NeMo


def test_a_lightning_file_is_being_written_as_long_as_it_is_the_newest(run: Path) -> None:
    for step in (1, 2):
        put(run / f"epoch=0-step={step}.ckpt", archive64()[:-10])
    assert states(run) == {1: TORN, 2: ANNOUNCED}
    assert look(run, 2).detail.endswith("It is being written, or was cut off.")


@pytest.mark.parametrize(
    ("name", "step"),
    [("epoch=3-step=840.ckpt", 840), ("step=840-v1.ckpt", 840), ("llama-epoch=03-step=840-val_loss=0.31.ckpt", 840)],
)
def test_names_that_lightning_makes(name: str, step: int, run: Path) -> None:
    put(run / name, archive())
    put(run / "last.ckpt", archive())
    assert states(run) == {step: COMPLETE}


@pytest.mark.parametrize("name", ["last.ckpt", "hpc_ckpt_3.ckpt", "best.ckpt"])
def test_lightning_names_without_a_step_are_said(name: str, run: Path) -> None:
    put(run / name, archive())
    got = scan(run)
    assert "no step in their names" in got.error
    assert "ModelCheckpoint" in got.remedy


@pytest.mark.parametrize("build", [trainers.nemo, trainers.nemo_file])
def test_nemo_marks_what_it_is_writing_or_removing(run: Path, build: trainers.Build) -> None:
    for step in (1, 2):
        put(run / f"{build(run, step).name.removesuffix('.ckpt')}-unfinished", b"")
    assert states(run) == {1: TORN, 2: ANNOUNCED}


def test_a_nemo_marker_is_no_checkpoint(run: Path) -> None:
    put(run / "model--step=5-consumed_samples=40.0-last-unfinished", b"")
    got = scan(run)
    assert got.looks == ()
    assert got.error


def test_where_the_index_is_too_long_to_be_read_the_names_tell(run: Path) -> None:
    """That of DeepSeek-V3 has 9 MB: 256 experts in each of its layers."""
    folder = trainers.huggingface(run, 5)
    index = folder / "model.safetensors.index.json"
    told = json.loads(index.read_text())
    told["weight_map"] |= {f"experts.{number}.weight": "model-00001-of-00003.safetensors" for number in range(30_000)}
    index.write_text(json.dumps(told))
    assert index.stat().st_size > MOST_INDEX
    assert look(run, 5).state is COMPLETE
    (folder / "model-00002-of-00003.safetensors").unlink()
    assert (look(run, 5).state, look(run, 5).detail) == (TORN, "1 of 3 files of the model are missing.")


def test_automodel_marks_what_it_is_writing(run: Path) -> None:
    for step in (1, 2):
        put(trainers.automodel(run, step) / ".incomplete", b"")
    assert states(run) == {1: TORN, 2: ANNOUNCED}


def test_before_its_mark_automodel_wrote_the_optimizer_last(run: Path) -> None:
    for step in (1, 2):
        (trainers.automodel(run, step) / "optim" / ".metadata").unlink()
    assert states(run) == {1: TORN, 2: ANNOUNCED}


def test_what_automodel_has_not_moved_into_place_is_no_checkpoint(run: Path) -> None:
    trainers.automodel(run, 1)
    put(run / "epoch_0_step_2.reserving-0a1b" / ".incomplete", b"")
    assert states(run) == {1: COMPLETE}


def test_automodels_model_without_the_optimizer_is_not_counted(run: Path) -> None:
    folder = trainers.automodel(run, 5)
    shutil.rmtree(folder / "optim")
    assert look(run, 5).state is UNKNOWN
    shutil.rmtree(folder / "model")
    assert look(run, 5).state is TORN


def test_two_nemo_checkpoints_of_one_step_are_told_apart(run: Path) -> None:
    shutil.copytree(path := trainers.nemo(run, 5), run / f"{path.name}-last")
    assert [each.state for each in scan(run).looks] == [COMPLETE, COMPLETE]


# DeepSpeed, GPT-NeoX


def test_latest_is_written_when_all_ranks_are_done(run: Path) -> None:
    for step in (1, 2):
        trainers.deepspeed(run, step)
    put(run / "latest", b"global_step1")
    assert states(run) == {1: COMPLETE, 2: ANNOUNCED}
    (run / "latest").unlink()
    assert set(states(run).values()) == {ANNOUNCED}
    put(run / "latest", b"")
    assert "latest is empty" in scan(run).error


def test_a_tag_that_is_gone_is_told(run: Path) -> None:
    trainers.deepspeed(run, 1)
    put(run / "latest", b"global_step9")
    assert states(run) == {1: COMPLETE, 9: CheckpointState.MISSING}


@pytest.mark.parametrize("gone", ["mp_rank_01_model_states.pt", "layer_02-model_01-model_states.pt",
                                  "zero_pp_rank_1_mp_rank_01_optim_states.pt"])  # fmt: skip
def test_a_pipeline_has_each_layer_and_shard_for_each_rank(gone: str, run: Path) -> None:
    for step in (1, 2):
        folder = trainers.gpt_neox(run, step)
    (folder / gone).unlink()
    assert states(run) == {1: COMPLETE, 2: TORN}


def test_a_run_that_goes_on_with_fewer_ranks_writes_more_in_each(run: Path) -> None:
    for step in (1, 2):
        trainers.deepspeed(run, step)
    for rank in (2, 3):
        (run / "global_step2" / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").unlink()
    assert states(run)[2] is TORN
    for rank in (0, 1):
        put(run / "global_step2" / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", archive(2 * SIZE))
    assert states(run)[2] is COMPLETE


def test_the_shards_of_all_ranks_that_the_log_tells_of_are_needed(run: Path) -> None:
    trainers.deepspeed(run, 1)
    path = str(run / "global_step1")

    def of(world: int) -> tuple[CheckpointState, str]:
        (found,) = scan(run, worlds={path: world}).looks
        return verdict(found)

    assert of(5) == (TORN, "There are ZeRO shards of 4 ranks; its job's log tells of 5.")
    for world in (0, 2, 4):  # the log may tell of a part of the ranks
        assert of(world) == (COMPLETE, "")
    assert of(8) == (COMPLETE, "")  # two groups of ranks that have the same


# Composer, fairseq: files in the run's folder


def test_the_link_to_the_latest_is_neither_needed_nor_followed(run: Path) -> None:
    path = trainers.composer(run, 5)
    (run / "latest-rank0.pt").symlink_to(path.name)
    assert [each.path for each in scan(run).looks] == [str(path)]
    assert look(run, 5).state is COMPLETE


def test_each_rank_of_composer_has_its_file(run: Path) -> None:
    for step in (1, 2):
        trainers.composer(run, step)
    (run / "ep0-ba1-rank0.pt").unlink()
    assert verdict(look(run, 1)) == (TORN, "The file of rank 0 is missing.")


def test_fairseq_names_with_epochs_only_tell_no_step(run: Path) -> None:
    for name in ("checkpoint1.pt", "checkpoint_best.pt", "checkpoint_last.pt"):
        put(run / name, archive())
    got = scan(run)
    assert "epochs only" in got.error
    assert "--save-interval-updates" in got.remedy
    trainers.fairseq(run, 5)
    assert states(run) == {5: COMPLETE}


# Orbax


def test_what_is_not_yet_moved_into_place_is_no_checkpoint(run: Path) -> None:
    trainers.orbax(run, 5)
    for name in ("6.orbax-checkpoint-tmp-17", "7.orbax-checkpoint-tmp", "8.part", "metrics"):
        (run / name / "items").mkdir(parents=True)
    assert states(run) == {5: COMPLETE}


def test_a_mark_of_success_is_as_good_as_metadata(run: Path) -> None:
    folder = trainers.orbax(run, 5)
    (folder / "_CHECKPOINT_METADATA").unlink()
    assert look(run, 5).state is COMPLETE
    (folder / "commit_success.txt").unlink()
    assert look(run, 5).state is ANNOUNCED


def test_older_orbax_had_no_mark_of_success(run: Path) -> None:
    for path in trainers.orbax(run, 5).rglob("commit_success.txt"):
        path.unlink()
    assert look(run, 5).state is COMPLETE


def test_an_item_that_is_committed_before_the_whole_is_a_save_under_way(run: Path) -> None:
    (trainers.orbax(run, 5) / "commit_success.txt").unlink()
    assert verdict(look(run, 5)) == (ANNOUNCED, "commit_success.txt is missing; its items have one.")


def test_metadata_without_a_commit_is_a_save_under_way(run: Path) -> None:
    folder = trainers.orbax(run, 5)
    for path in folder.rglob("commit_success.txt"):
        path.unlink()
    put(folder / "_CHECKPOINT_METADATA", b'{"init_timestamp_nsecs": 5, "commit_timestamp_nsecs": null}')
    assert verdict(look(run, 5)) == (ANNOUNCED, "_CHECKPOINT_METADATA tells of no commit.")


def test_lost_data_shows_by_the_size_of_the_whole(run: Path) -> None:
    for step in (1, 2, 3):
        trainers.orbax(run, step)
    next((run / "2").rglob(f"d/{3:032x}")).unlink()
    assert states(run) == {1: COMPLETE, 2: TORN, 3: COMPLETE}


def test_a_young_optimizer_takes_less_room(run: Path) -> None:
    for step in (1, 2, 3):
        folder = trainers.orbax(run, step)
        put(folder / "items" / "ocdbt.process_0" / "d" / f"{99:032x}", b"\6" * (20 if step == 1 else 9000))
    assert states(run) == {1: COMPLETE, 2: COMPLETE, 3: COMPLETE}


def test_an_item_of_old_has_a_folder_for_each_array(run: Path) -> None:
    folder = run / "5"
    put(folder / "_CHECKPOINT_METADATA", b"{}")
    put(folder / "default" / "_METADATA", b"{}")
    assert verdict(look(run, 5)) == (TORN, "default/manifest.ocdbt is missing.")
    put(folder / "default" / "params.w" / ".zarray", b"{}")
    assert look(run, 5).state is COMPLETE


# nanoGPT, torchtune


def test_the_one_file_of_nanogpt_tells_no_step(run: Path) -> None:
    put(run / "ckpt.pt", archive())
    got = scan(run)
    assert "nanoGPT" in got.error
    assert got.remedy
    assert got.looks == ()


def test_the_one_recipe_state_of_torchtune_belongs_to_nobody_knows_which(run: Path) -> None:
    put(run / "recipe_state" / "recipe_state.pt", archive())
    put(run / "step_5" / "model.safetensors", tensors())
    each = look(run, 5)
    assert each.state is UNKNOWN
    assert "recipe_state" in each.detail
    put(run / "step_5" / "model.safetensors", tensors()[:-1])
    assert look(run, 5).state is TORN


def test_torchtune_by_epochs_tells_no_step(run: Path) -> None:
    put(run / "epoch_0" / "model.safetensors", tensors())
    assert "epochs only" in scan(run).error
