"""What a log claims about time is believed only where it can be true."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery.models import Attempt, Sample, Signal
from recovery.pipeline import ingest
from tests.pipeline.conftest import ECC, Desk


def test_a_failure_line_without_a_time_was_written_after_the_dated_line_before_it(desk: Desk) -> None:
    desk.submit()
    desk.start()
    desk.step(1)
    written = desk.now
    desk.say(ECC)
    desk.now += timedelta(seconds=40)  # read late, in one pass
    desk.tick()
    assert Signal.objects.get(kind="failure").at == written


def test_a_load_line_without_a_time_was_written_no_later_than_the_first_dated_line_after_it(desk: Desk) -> None:
    desk.submit()
    desk.tick()
    desk.start()
    desk.load(10)
    written = desk.now
    desk.step(11)
    desk.now += timedelta(seconds=2)
    desk.step(12)
    desk.now += timedelta(seconds=40)  # read late, in one pass
    desk.tick()
    assert Signal.objects.get(kind="loaded").at == written
    assert Attempt.objects.get().restored_at == written


def test_a_flood_of_saves_is_bounded_and_the_newest_stay(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "MOST_MARKS", 3)
    desk.submit()
    desk.start()
    desk.say(*(f"saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format" for step in range(50)))
    desk.tick()
    assert list(Signal.objects.filter(kind="save_started").values_list("step", flat=True)) == [47, 48, 49]


def test_a_loop_at_full_speed_fills_no_table(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "FREE_SAMPLES", 100)
    monkeypatch.setattr(ingest, "SAMPLES_PER_NODE_S", 2)
    desk.submit()
    desk.start()  # on two nodes
    for look in range(10):
        desk.say(*(f"[rank{rank}]: step {look * 500 + n} loss 2.5" for n in range(1, 501) for rank in (0, 1)))
        desk.tick(seconds=10)
    lived = (desk.now - (desk.attempt.started_at or desk.now)).total_seconds()
    kept = Sample.objects.count()
    assert 100 + 4 * lived - 50 <= kept <= 100 + 4 * lived
    ranks = [Sample.objects.filter(rank=rank).count() for rank in (0, 1)]
    assert min(ranks) > 0.4 * kept  # of each some
    assert (desk.attempt.last_step, Sample.objects.order_by("-step")[0].step) == (5000, 5000)


def test_what_is_reported_at_the_pace_of_a_training_is_kept_whole(desk: Desk) -> None:
    desk.submit()
    desk.start()
    desk.say(*(f"step {n} loss 2.5" for n in range(2000)))
    desk.tick()
    assert Sample.objects.count() == 2000


def test_progress_counts_from_when_it_was_read_so_that_a_wrong_clock_is_no_silence(desk: Desk) -> None:
    desk.submit()
    desk.start()
    desk.tick()
    real, desk.now = desk.now, desk.now - timedelta(hours=7)  # the trainer's clock is in another zone
    desk.step(1)
    desk.now = real
    desk.tick()
    assert Attempt.objects.get().last_progress_at == desk.now


def test_a_time_that_cannot_be_true_is_replaced_by_that_of_reading(desk: Desk) -> None:
    desk.submit()
    desk.start()
    desk.tick()
    real, desk.now = desk.now, desk.now + timedelta(days=3)
    desk.step(1)
    desk.now = real
    desk.tick()
    assert Sample.objects.get().at == desk.now
