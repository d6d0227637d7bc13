"""A checkpoint folder that can't be judged: the trainer's own word counts, and is marked as such."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_django import Settings

from recovery.core.types import CheckpointState
from recovery.models import Checkpoint, Run
from recovery.pipeline.foresee import ELSEWHERE, history_of
from recovery.pipeline.look_at_checkpoints import (
    FOLDER,
    LOOK_AGAIN,
    NOT_THERE,
    UNMOUNTED,
    look_at_checkpoints,
    still_complete,
)  # fmt: skip
from tests.pipeline.conftest import Desk
from tests.sources import trainer_folders


def save_by_word(desk: Desk, step: int) -> None:
    desk.say(f"saving checkpoint at iteration {step:7d} to {desk.checkpoints} in torch format")
    desk.say(f"  successfully saved checkpoint from iteration {step:7d} to {desk.checkpoints} [ t 1/1, p 1/1 ]")


def train(desk: Desk) -> None:
    desk.submit()
    desk.start()
    desk.checkpoints.mkdir(parents=True, exist_ok=True)
    desk.train(1, 10)


def test_a_layout_that_is_not_recognised_leaves_the_trainers_word(desk: Desk) -> None:
    train(desk)
    (desk.checkpoints / "weights_of_ten.npz").write_bytes(b"1")
    save_by_word(desk, 10)
    desk.tick(times=2)
    row = Checkpoint.objects.get()
    assert (row.step, row.state) == (10, CheckpointState.COMPLETE)
    assert row.detail.startswith("By the trainer's own word. Layout not recognised")
    assert "checkpoint_dir" in row.detail


def test_the_word_counts_however_long_the_path_is(desk: Desk) -> None:
    desk.checkpoints = desk.folder / "/".join(["x" * 200] * 4)
    train(desk)
    save_by_word(desk, 10)
    desk.tick(times=2)
    row = Checkpoint.objects.get()
    assert (row.step, row.state, len(row.path) <= 1000) == (10, CheckpointState.COMPLETE, True)
    assert "characters" in row.detail


def test_shards_are_counted_against_the_ranks_that_their_own_job_had(desk: Desk) -> None:
    """Whoever looks at them later, with however many ranks."""
    desk.submit()
    desk.start()
    desk.say("[2026-12-28 05:01:38,135] [INFO] [launch.py:180:main] dist_world_size=5")
    desk.train(1, 10)
    trainer_folders.deepspeed(desk.checkpoints, 10)  # four shards
    says = f"[{desk.now:%Y-%m-%d %H:%M:%S,000}] [INFO] [logging.py:107:log_dist] [Rank 0]"
    desk.say(f"{says} [Torch] Checkpoint global_step10 is about to be saved!")
    desk.tick(times=4)
    row = Checkpoint.objects.get()
    assert (row.state, row.detail) == (
        CheckpointState.TORN, "There are ZeRO shards of 4 ranks; its job's log tells of 5.",
    )  # fmt: skip
    desk.slurm.requeue("1", hold=False)
    desk.tick()
    desk.start()
    desk.say("[2026-12-28 06:01:38,135] [INFO] [launch.py:180:main] dist_world_size=4")
    desk.train(1, 2)
    desk.tick(seconds=LOOK_AGAIN.total_seconds() + 1, times=2)
    row.refresh_from_db()
    assert (row.attempt.number if row.attempt else None, row.state) == (0, CheckpointState.TORN)


def test_a_folder_without_a_word_has_no_checkpoint(desk: Desk) -> None:
    train(desk)
    (desk.checkpoints / "weights_of_ten.npz").write_bytes(b"1")
    desk.tick(times=2)
    assert not Checkpoint.objects.exists()


def test_a_folder_that_is_not_there_leaves_the_trainers_word(desk: Desk) -> None:
    """Its file system may not be mounted where the desk runs: jobs that push what they do are often such ones."""
    desk.submit()
    desk.start()
    desk.train(1, 10)
    save_by_word(desk, 10)
    desk.tick(times=2)
    assert desk.attempt.places[FOLDER] == NOT_THERE
    row = Checkpoint.objects.get()
    assert (row.step, row.state, row.by_word) == (10, CheckpointState.COMPLETE, True)
    desk.save(20)
    desk.tick(times=3)
    assert desk.attempt.places[FOLDER] == ""
    assert Checkpoint.objects.get(step=20).state == CheckpointState.COMPLETE


def test_an_unmounted_file_system_removes_no_checkpoint(desk: Desk) -> None:
    desk.checkpoints = desk.folder / "fs" / "team" / "run"
    desk.checkpoints.mkdir(parents=True)
    desk.run_with_checkpoint()
    there, away = desk.folder / "fs", desk.folder / "away"
    there.rename(away)
    for bare in (False, True):
        if bare:
            there.mkdir()  # the mount point
        desk.tick(seconds=LOOK_AGAIN.total_seconds() + 1, times=2)
        assert desk.attempt.places[FOLDER] == UNMOUNTED
        assert Checkpoint.objects.get().state == CheckpointState.COMPLETE
        assert not still_complete(Checkpoint.objects.get()), "but nothing is restored from what can't be seen"
    there.rmdir()
    away.rename(there)
    desk.tick(times=2)
    assert desk.attempt.places[FOLDER] == ""
    (there / "team" / "other").mkdir()
    shutil.rmtree(desk.checkpoints)
    desk.tick(times=2)
    assert Checkpoint.objects.get().state == CheckpointState.MISSING


def test_a_folder_that_was_removed_is_no_place_for_words(desk: Desk) -> None:
    desk.run_with_checkpoint()
    shutil.rmtree(desk.checkpoints)
    save_by_word(desk, 12)
    desk.tick(times=3)
    assert set(Checkpoint.objects.values_list("step", "state")) == {(10, CheckpointState.MISSING)}


def test_why_a_folder_can_not_be_judged_is_kept_for_its_page(desk: Desk, settings: Settings) -> None:
    settings.CHECKPOINT_ROOTS = [f"{desk.folder}/elsewhere"]
    train(desk)
    assert "outside" in desk.attempt.places[FOLDER]
    assert "RECOVERY_CHECKPOINT_ROOTS" in desk.attempt.places[FOLDER]
    settings.CHECKPOINT_ROOTS = [str(desk.folder)]
    desk.say(f"saving checkpoint at iteration      10 to {desk.checkpoints} in torch format")
    desk.tick(times=2)
    assert desk.attempt.places[FOLDER] == ""


def test_what_the_folder_shows_later_counts_more_than_the_word(desk: Desk) -> None:
    train(desk)
    odd = desk.checkpoints / "weights_of_ten.npz"
    odd.write_bytes(b"1")
    save_by_word(desk, 10)
    desk.tick(times=2)
    (desk.checkpoints / "iter_0000010").mkdir()
    (desk.checkpoints / "latest_checkpointed_iteration.txt").write_text("10")
    desk.tick(times=2)
    assert set(Checkpoint.objects.values_list("step", "state")) == {
        (10, CheckpointState.UNKNOWN),
        (10, CheckpointState.TORN),
    }


def test_damage_inside_of_a_settled_checkpoint_is_seen_before_it_is_restored_from(desk: Desk) -> None:
    desk.run_with_checkpoint()
    assert Checkpoint.objects.get().state == CheckpointState.COMPLETE
    shard = next(desk.checkpoints.glob("iter_*/*/*.pt"))
    shard.write_bytes(b"")
    desk.slurm.end()
    desk.tick()
    assert Checkpoint.objects.get().state == CheckpointState.TORN


def test_damage_inside_of_a_settled_checkpoint_is_seen_in_time_while_all_is_well(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.tick(times=2)
    shard = next(desk.checkpoints.glob("iter_*/*/*.pt"))
    shard.write_bytes(b"")
    desk.now += LOOK_AGAIN
    desk.tick()
    assert Checkpoint.objects.get().state == CheckpointState.TORN


def test_checkpoints_of_another_folder_than_now_were_not_removed(desk: Desk) -> None:
    """The run's next job names another folder: those of the first are no rotation's doing, and come back with it."""
    train(desk)
    desk.save(10)
    desk.tick(times=3)
    first = Checkpoint.objects.get()
    other = desk.folder / "other"
    shutil.copytree(desk.checkpoints / "iter_0000010", other / "iter_0000004")

    def look(folder: Path) -> Checkpoint:
        Run.objects.update(checkpoint_dir=str(folder))
        for _ in range(2):
            look_at_checkpoints(desk.attempt, now=desk.now)
        return Checkpoint.objects.get(pk=first.pk)

    there = look(other)
    assert (there.state, there.detail) == (CheckpointState.MISSING, ELSEWHERE)
    assert not any(each.removed for each in history_of(there.run))
    assert look(desk.checkpoints).state == CheckpointState.COMPLETE
