"""Many attempts are looked at together, at a price that hardly depends on how many, and each fails by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from pytest_django.fixtures import Settings

from benchmarks.fleet import Fleet, allowed
from recovery import tasks
from recovery.core.types import CheckpointState
from recovery.models import Attempt, Checkpoint, Event, LogFile, Sample
from recovery.models.leased import POISONED
from recovery.pipeline import ingest, reconcile, watch
from recovery.pipeline.glance import quiet_attempts
from recovery.pipeline.reading import Look, read_attempt
from recovery.pipeline.samples import store_samples
from tests.factories import ago, make_attempt, make_job, make_run
from tests.pipeline.fake_slurm import FakeSlurm
from tests.sources.trainer_folders import huggingface

MANY, FEW = 100, 10

pytestmark = pytest.mark.django_db


@pytest.fixture
def make_fleet(tmp_path: Path) -> Iterator[Callable[[int], Fleet]]:
    with allowed(tmp_path):
        yield lambda size: Fleet(tmp_path, size)


@pytest.fixture
def fleet(make_fleet: Callable[[int], Fleet]) -> Fleet:
    return make_fleet(5)


def steps() -> list[int | None]:
    return list(Attempt.objects.order_by("pk").values_list("last_step", flat=True))


def test_a_hundred_attempts_take_no_more_statements_than_ten(make_fleet: Callable[[int], Fleet]) -> None:
    fleet = make_fleet(MANY)
    quiet = fleet.statements_of_a_batch(FEW), fleet.statements_of_a_batch(MANY)
    fleet.write_one_step()
    few = fleet.statements_of_a_batch(FEW)
    fleet.look()
    fleet.write_one_step()
    growing = few, fleet.statements_of_a_batch(MANY)
    assert quiet[0] == quiet[1] <= 12
    assert growing[0] == growing[1] <= 32
    assert steps() == [fleet.step] * MANY


def test_whatever_is_new_is_stored_with_how_far_it_was_read(fleet: Fleet) -> None:
    before = Sample.objects.count()
    fleet.write_one_step()
    fleet.look()
    assert steps() == [fleet.step] * 5
    assert Sample.objects.count() == before + 5
    sizes = {str(log): log.stat().st_size for log in fleet.logs}
    assert dict(LogFile.objects.values_list("path", "offset")) == sizes
    assert set(Attempt.objects.values_list("read_at", flat=True)) == {fleet.now}
    assert set(Attempt.objects.values_list("leased_until", flat=True)) == {None}


def test_a_quiet_attempt_tells_that_it_was_looked_at(fleet: Fleet) -> None:
    fleet.look()
    row = Attempt.objects.first()
    assert row is not None
    assert (row.read_at, row.next_look_at) == (fleet.now, fleet.now + timedelta(seconds=10))


def test_one_that_can_not_be_read_is_pushed_forward_and_blocks_no_other(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = Attempt.objects.order_by("pk")[2]
    real = read_attempt

    def explode(attempt: Attempt, *args: Any, **kwargs: Any) -> Look:
        if attempt.pk == poisoned.pk:
            raise ValueError("poison")
        return real(attempt, *args, **kwargs)

    monkeypatch.setattr(watch, "read_attempt", explode)
    fleet.write_one_step()
    fleet.look()
    step = fleet.step
    assert steps() == [step, step, step - 1, step, step]
    poisoned.refresh_from_db()
    assert (poisoned.next_look_at, poisoned.leased_until) == (fleet.now + POISONED, None)
    assert Event.objects.get(verb="attempt.look_failed").subject_id == str(poisoned.pk)
    assert poisoned.blind_reason == "Looking at it failed: ValueError: poison"
    monkeypatch.undo()
    fleet.now += POISONED
    fleet.look()
    assert steps() == [step] * 5
    poisoned.refresh_from_db()
    assert poisoned.blind_reason == ""
    assert [spell.ended_at for spell in poisoned.blind_spells.all()] == [fleet.now]


def test_one_whose_lines_can_not_be_stored_keeps_no_other_from_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = Attempt.objects.order_by("pk")[2]
    real = store_samples

    def refuse(rows: list[Sample]) -> None:
        if any(row.attempt_id == poisoned.pk for row in rows):
            raise ValueError("poison")
        real(rows)

    monkeypatch.setattr(ingest, "store_samples", refuse)
    fleet.write_one_step()
    fleet.look()
    step = fleet.step
    assert steps() == [step, step, step - 1, step, step]
    monkeypatch.undo()
    fleet.now += POISONED
    fleet.look()
    assert steps() == [step] * 5


def test_where_a_batch_fails_as_a_whole_each_is_looked_at_alone(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    real = quiet_attempts

    def only_one(keys: list[int], *args: Any, **kwargs: Any) -> Any:
        if len(keys) > 1:
            raise ValueError("too many")
        return real(keys, *args, **kwargs)

    monkeypatch.setattr(watch, "quiet_attempts", only_one)
    fleet.write_one_step()
    fleet.look()
    assert steps() == [fleet.step] * 5


def test_attempts_whose_worker_died_are_looked_at_alone_and_wait_like_failed_ones(fleet: Fleet) -> None:
    held, until = Attempt.take_leases(
        list(Attempt.objects.values_list("pk", flat=True)), fleet.now + timedelta(minutes=1)
    )
    assert len(held) == 5
    fleet.now = until
    assert sorted(reconcile.due(fleet.now).batches) == [[key] for key in sorted(held)]
    again, _ = Attempt.take_leases(held[:1], fleet.now)
    assert again == held[:1]
    assert Attempt.objects.get(pk=held[0]).next_look_at == fleet.now + POISONED
    fleet.look()
    assert Attempt.objects.filter(leased_until=None).count() == 4


def test_nobody_looks_at_what_another_worker_holds_or_what_is_not_due(fleet: Fleet) -> None:
    keys = list(Attempt.objects.order_by("pk").values_list("pk", flat=True))
    now = fleet.now + timedelta(seconds=10)
    first, _ = Attempt.take_leases(keys[:3], now)
    second, until = Attempt.take_leases(keys, now)
    assert (first, second) == (keys[:3], keys[3:])
    Attempt.give_back_all(second, until, next_look_at=now + timedelta(seconds=10))
    assert Attempt.take_leases(keys, now)[0] == []


def test_a_batch_that_is_slow_leaves_the_rest_to_the_next_look(fleet: Fleet) -> None:
    fleet.write_one_step()
    fleet.now += timedelta(seconds=10)
    keys = list(Attempt.objects.order_by("pk").values_list("pk", flat=True))
    lease = timedelta(seconds=settings.LEASE_S)
    ticking = iter([fleet.now] * 4 + [fleet.now + lease] * 40)
    watch.watch_attempts(keys, client_for=lambda cluster: pytest.fail("nobody is asked"), clock=lambda: next(ticking))
    assert None not in steps()
    assert Attempt.objects.filter(leased_until=None, next_look_at=fleet.now + lease).count() == 5
    fleet.now += lease
    fleet.look()
    assert steps() == [fleet.step] * 5


def test_a_save_that_was_told_is_looked_for_also_where_the_worker_dies_in_between(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(Attempt.objects.order_by("pk")[0].job.run.checkpoint_dir)
    with fleet.logs[0].open("a") as file:
        file.write(f"  successfully saved checkpoint from iteration      30 to {folder} [ t 1/1, p 1/1 ]\n")

    class Killed(BaseException):
        pass

    def die(*args: Any, **kwargs: Any) -> None:
        raise Killed

    monkeypatch.setattr(watch, "look_at_checkpoints", die)
    with pytest.raises(Killed):
        fleet.look()
    monkeypatch.undo()
    shard = folder / "iter_0000020" / "mp_rank_00" / "model_optim_rng.pt"
    shard.write_bytes(b"")  # does not show in the folder's own mark
    fleet.now += timedelta(seconds=settings.LEASE_S)
    fleet.look()
    assert Checkpoint.objects.get(path=str(shard.parents[1])).state == "torn"


def test_the_tick_sends_a_message_for_a_hundred_attempts(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[int]] = []
    monkeypatch.setattr(tasks.watch_attempts, "apply_async", lambda args, expires: sent.append(args[0]))
    monkeypatch.setattr(watch, "BATCH", 2)
    monkeypatch.setattr(reconcile, "utc_now", lambda: fleet.now + timedelta(seconds=10))
    for task in (
        tasks.watch_cluster,
        tasks.examine_cluster,
        tasks.watch_ledgers,
        tasks.keep_tables,
        tasks.keep_audit_chain,
        tasks.measure_source,
    ):
        monkeypatch.setattr(task, "apply_async", lambda *args, **kwargs: None)
    tasks.tick()
    keys = list(Attempt.objects.order_by("next_look_at").values_list("pk", flat=True))
    assert [len(batch) for batch in sent] == [2, 2, 1]
    assert sorted(key for batch in sent for key in batch) == sorted(keys)


def test_of_jobs_of_a_run_that_started_together_one_looks_at_its_folder(tmp_path: Path, settings: Settings) -> None:
    settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    run, started = make_run(checkpoint_dir=str(tmp_path)), ago(60)
    rows = [make_attempt(job=make_job(run=run), started_at=started, next_look_at=ago(1)) for _ in range(2)]
    huggingface(tmp_path, 100)
    keys = [row.pk for row in rows]

    def look(at: datetime) -> str:
        watch.watch_attempts(keys, client_for=lambda _: FakeSlurm(lambda: at), clock=lambda: at)
        return Checkpoint.objects.get().state

    assert look(ago(0)) == CheckpointState.ANNOUNCED
    Attempt.objects.filter(pk=keys[1]).update(closed_at=ago(0), next_look_at=None)  # the other one goes on
    assert look(ago(-30)) == CheckpointState.COMPLETE
