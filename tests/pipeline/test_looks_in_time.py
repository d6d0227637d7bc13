"""However much there is to read, a look ends in time: one that outlives its lease is ended and begun anew for ever."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from recovery.models import LogFile, PushBatch, Sample
from recovery.models import Signal as SignalRow
from recovery.pipeline import metrics_source, push
from recovery.pipeline.watch import watch_attempt
from tests.pipeline.conftest import Desk
from tests.pipeline.test_push import blind, metrics_job, send

OOM = "CUDA out of memory"


@pytest.fixture(autouse=True)
def _short_lease(settings: Any) -> None:
    settings.LEASE_S = 60  # reading has ten seconds of it


def look(desk: Desk) -> int:
    """One look with a clock that moves by two seconds whenever it is asked; bytes that wait for the next."""
    moments = count()

    def clock() -> datetime:
        return desk.now + timedelta(seconds=2 * next(moments))

    desk.now += timedelta(seconds=200)
    watch_attempt(desk.attempt.pk, client_for=lambda cluster: desk.slurm, clock=clock)
    return sum(Path(row.path).stat().st_size - row.offset for row in LogFile.objects.filter(path__startswith="/"))


def test_a_long_log_is_worked_off_over_several_looks_and_no_line_is_lost(desk: Desk) -> None:
    desk.submit()
    desk.start()
    desk.tick()
    with desk.log.open("a") as log:
        for step in range(1, 301):
            desk.step(step)
            log.write("so it goes\n" * 3000)
            log.flush()
    left = [look(desk) for _ in range(6)]
    assert 0 < left[0] < desk.log.stat().st_size
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    assert list(Sample.objects.order_by("step").values_list("step", flat=True)) == list(range(1, 301))
    with desk.log.open("rb") as file:
        assert LogFile.objects.get().line == sum(1 for _ in file)


def read_one_after_the_other(desk: Desk, rows: type[SignalRow | Sample], count: int) -> None:
    """So many files of one row each."""
    look(desk)
    assert 0 < rows.objects.count() < count
    for _ in range(count):
        look(desk)
    assert rows.objects.count() == count


def test_files_that_there_is_no_time_for_are_read_in_the_next_look(desk: Desk) -> None:
    desk.submit(comment=json.dumps({"recovery": {"log": f"{desk.folder}/*.out"}}))
    desk.start()
    desk.tick()
    for number in range(9):
        (desk.folder / f"{number}.out").write_text(f"{OOM}\n")
    read_one_after_the_other(desk, SignalRow, 9)


def test_metrics_files_are_read_over_several_looks_within_memory(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_source, "MOST_SIGNALS", 60_000)
    metrics_job(desk, metrics=f"{tmp_path}/metrics-*.jsonl")
    desk.tick()
    for number in range(2):
        rows = (json.dumps({"step": step}) for step in range(number * 70_000, number * 70_000 + 70_000))
        (tmp_path / f"metrics-{number}.jsonl").write_text("\n".join(rows) + "\n")
    signals = []
    attempt = desk.attempt
    for _ in range(3):
        told = metrics_source.read_metrics(attempt, now=desk.now)
        signals.append(len(told.signals))
        told.done()
    assert (signals, told.more) == ([70_000, 70_000, 0], False)


def test_metrics_files_that_there_is_no_time_for_are_read_in_the_next_look(desk: Desk, tmp_path: Path) -> None:
    metrics_job(desk, metrics=f"{tmp_path}/metrics-*.jsonl")
    desk.tick()
    for number in range(30):
        (tmp_path / f"metrics-{number:02}.jsonl").write_text(json.dumps({"step": number}) + "\n")
    read_one_after_the_other(desk, Sample, 30)


def test_what_is_pushed_faster_than_it_is_read_is_read_over_several_looks(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "MOST_SIGNALS", 500)
    blind(desk)
    for number in range(4):
        send(desk, {"kind": "failure", "text": f"{OOM}\n" * 300, "at": number}, name=f"batch{number}")
    told = push.read_pushed(desk.attempt, now=desk.now)
    assert (len(told.signals), told.more) == (600, True)
    told.done()
    assert PushBatch.objects.filter(read_at=None).count() == 2
    told = push.read_pushed(desk.attempt, now=desk.now, go_on=lambda: False)
    told.done()
    assert PushBatch.objects.filter(read_at=None).count() == 1
