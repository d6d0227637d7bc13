"""What lies ahead of a run's checkpoints, by looks at true folders."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree

import pytest
from django.db.models.signals import post_init
from pytest_django.fixtures import Settings

from recovery.core.types import CheckpointState, JobState
from recovery.models import Attempt, Checkpoint, Outlook
from recovery.pipeline import foresee
from recovery.pipeline.look_at_checkpoints import look_at_checkpoints
from recovery.sources.checkpoints.space import Room
from tests.factories import make_attempt, make_checkpoint, make_job, make_run
from tests.sources.trainer_folders import huggingface

pytestmark = pytest.mark.django_db

GB = 10**9
Ask = Callable[..., None]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Says how much room there is."""

    def say(free: int | None, quota: int | None = None) -> None:
        def ask(directory: str, **_: object) -> Room:
            return Room(free_bytes=free, quota_bytes=quota)

        monkeypatch.setattr(foresee.foresee_checkpoints, "__kwdefaults__", {"ask": ask})

    return say


@pytest.fixture
def attempt(tmp_path: Path, settings: Settings) -> Attempt:
    settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    run = make_run(checkpoint_dir=str(tmp_path))
    return make_attempt(job=make_job(run=run, state=JobState.RUNNING), state=JobState.RUNNING, ended_at=None)


def look(attempt: Attempt, now: datetime, times: int = 2) -> None:
    for number in range(times):
        look_at_checkpoints(attempt, now=now + number * timedelta(seconds=10))


def state(attempt: Attempt, step: int) -> str:
    return Checkpoint.objects.get(run=attempt.job.run, step=step).state


def test_a_full_file_system_is_seen_before_the_next_save(attempt: Attempt, tmp_path: Path, room: Ask) -> None:
    now = attempt.seen_at
    room(GB)
    for step in (100, 200, 300):
        huggingface(tmp_path, step)
        look(attempt, now + timedelta(minutes=step / 10))
    outlook = Outlook.objects.get(run=attempt.job.run)
    assert outlook.space_warning == ""
    assert (outlook.next_step, outlook.next_at) == (400, now + timedelta(minutes=40))
    assert outlook.needs_bytes is not None
    room(outlook.needs_bytes - 1)
    look(attempt, now + timedelta(minutes=36), times=1)
    outlook.refresh_from_db()
    assert "it fails at about" in outlook.space_warning
    assert outlook.space_remedy.startswith("Make room for")


def test_the_quota_is_asked_for_as_well(attempt: Attempt, tmp_path: Path, room: Ask) -> None:
    room(GB, 1)
    huggingface(tmp_path, 100)
    look(attempt, attempt.seen_at)
    assert "1 bytes are left of the quota" in Outlook.objects.get().space_warning


def test_rotation_is_learned_from_what_it_removed(attempt: Attempt, tmp_path: Path, room: Ask) -> None:
    room(GB)
    for step in (100, 200, 300):
        folder = huggingface(tmp_path, step)
        look(attempt, attempt.seen_at + timedelta(minutes=step / 10))
    assert Outlook.objects.get().keeps is None
    rmtree(folder.parent / "checkpoint-100")
    look(attempt, attempt.seen_at + timedelta(minutes=40))
    assert Outlook.objects.get().keeps == 2


def test_the_last_complete_one_that_rotation_is_about_to_remove(attempt: Attempt, tmp_path: Path, room: Ask) -> None:
    room(GB)
    for step in (100, 200):
        huggingface(tmp_path, step)
        look(attempt, attempt.seen_at + timedelta(minutes=step / 10))
    rmtree(tmp_path / "checkpoint-100")
    torn = huggingface(tmp_path, 300)
    (torn / "optimizer.pt").write_bytes(b"")
    look(attempt, attempt.seen_at + timedelta(minutes=30))
    torn = huggingface(tmp_path, 400)
    (torn / "optimizer.pt").write_bytes(b"")
    look(attempt, attempt.seen_at + timedelta(minutes=40))
    outlook = Outlook.objects.get()
    assert "Step 200 is the last complete checkpoint" in outlook.rotation_warning
    assert "removes it" in outlook.rotation_warning


def test_an_ended_run_is_not_warned_of(attempt: Attempt, tmp_path: Path, room: Ask) -> None:
    room(1)
    huggingface(tmp_path, 100)
    look(attempt, attempt.seen_at)
    assert Outlook.objects.get().space_warning != ""
    attempt.state, attempt.ended_at = JobState.FAILED, attempt.seen_at
    look(attempt, attempt.seen_at + timedelta(minutes=2))
    assert Outlook.objects.get().space_warning == ""


def test_what_a_killed_job_left_half_saved_is_torn_after_two_looks(attempt: Attempt, tmp_path: Path) -> None:
    half = huggingface(tmp_path, 100)
    (half / "trainer_state.json").unlink()
    look(attempt, attempt.seen_at)
    assert state(attempt, 100) == CheckpointState.ANNOUNCED  # it may still be writing
    ended = attempt.seen_at + timedelta(minutes=1)
    attempt.state, attempt.ended_at = JobState.FAILED, ended
    look(attempt, ended + timedelta(seconds=1), times=1)
    assert state(attempt, 100) == CheckpointState.ANNOUNCED
    look(attempt, ended + timedelta(seconds=6), times=1)
    assert state(attempt, 100) == CheckpointState.TORN


def test_what_changes_after_the_end_is_looked_at_again(attempt: Attempt, tmp_path: Path) -> None:
    half = huggingface(tmp_path, 100)
    (half / "trainer_state.json").unlink()
    look(attempt, attempt.seen_at)
    ended = attempt.seen_at + timedelta(minutes=1)
    attempt.state, attempt.ended_at = JobState.FAILED, ended
    (half / "late.bin").write_bytes(b"1")
    look(attempt, ended + timedelta(seconds=6), times=1)
    assert state(attempt, 100) == CheckpointState.ANNOUNCED


def test_what_an_earlier_attempt_left_half_saved_is_torn_while_the_next_one_runs(
    attempt: Attempt, tmp_path: Path
) -> None:
    half = huggingface(tmp_path, 100)
    (half / "trainer_state.json").unlink()
    look(attempt, attempt.seen_at)
    started = attempt.seen_at + timedelta(minutes=5)
    following = make_attempt(job=attempt.job, number=1, state=JobState.RUNNING, started_at=started, ended_at=None)
    look(following, started + timedelta(seconds=10), times=1)
    assert state(attempt, 100) == CheckpointState.TORN


@pytest.mark.parametrize(("size", "every_s"), [(1, 300), (GB // 5, 60)])
def test_free_space_is_asked_for_every_five_minutes_and_every_minute_where_it_is_scarce(
    attempt: Attempt, room: Ask, size: int, every_s: int
) -> None:
    make_checkpoint(run=attempt.job.run, step=100, size_bytes=size)
    room(GB)
    foresee.foresee_checkpoints(attempt, now=attempt.seen_at, changed=False)
    room(1)
    foresee.foresee_checkpoints(attempt, now=attempt.seen_at + timedelta(seconds=every_s - 1), changed=False)
    assert Outlook.objects.get().free_bytes == GB
    foresee.foresee_checkpoints(attempt, now=attempt.seen_at + timedelta(seconds=every_s), changed=False)
    assert Outlook.objects.get().free_bytes == 1


def test_a_look_reads_a_bounded_number_of_checkpoints_and_still_sees_what_went_and_what_came_back(
    attempt: Attempt, tmp_path: Path
) -> None:
    now = attempt.seen_at
    for step in range(3):
        huggingface(tmp_path, 100 + step)
    look(attempt, now)
    for step in range(100):
        make_checkpoint(run=attempt.job.run, step=step, path=str(tmp_path / f"gone-{step}"), state="missing")
        make_checkpoint(run=attempt.job.run, step=1000 + step, path=str(tmp_path / f"checkpoint-{1000 + step}"))
    look(attempt, now + timedelta(minutes=1), times=1)
    assert {row.state for row in Checkpoint.objects.filter(step__gte=1000)} == {"missing"}
    assert {row.state for row in Checkpoint.objects.filter(step__in=(100, 101, 102))} == {"complete"}
    loaded: list[Checkpoint] = []

    def count(instance: Checkpoint, **_: object) -> None:
        loaded.append(instance)

    post_init.connect(count, sender=Checkpoint)
    try:
        look(attempt, now + timedelta(minutes=2), times=1)
    finally:
        post_init.disconnect(count, sender=Checkpoint)
    assert len(loaded) == 3
    huggingface(tmp_path, 1001)
    look(attempt, now + timedelta(minutes=3))
    assert state(attempt, 1001) == CheckpointState.COMPLETE
    assert Checkpoint.objects.filter(step=1001).count() == 1
