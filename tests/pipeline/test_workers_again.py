"""A launcher that starts the workers anew within the attempt: steps that they do again are progress, not silence."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from recovery.models import Incident
from tests.pipeline.conftest import Desk


def run(desk: Desk, folder: Path) -> None:
    desk.submit(comment=json.dumps({"recovery": {"nvrx_cycle_dir": str(folder)}}))
    desk.start()
    desk.tick()
    desk.train(1, 200, every=10)


def start_workers_anew(desk: Desk, folder: Path) -> None:
    told = {"cycle_number": 1, "cycle_start_time": desk.now.isoformat(), "active_nodes": "n[1-2]"}
    (folder / "cycle_info.1.0.1").write_text(json.dumps(told))


@pytest.mark.parametrize("seen_together", [False, True], ids=["one look after the other", "in one look"])
def test_steps_that_are_done_again_are_no_silence(seen_together: bool, desk: Desk, tmp_path: Path) -> None:
    run(desk, tmp_path)
    start_workers_anew(desk, tmp_path)
    if seen_together:
        desk.step(201)
        desk.now += timedelta(seconds=2)
    else:
        desk.tick()
    for step in range(40, 140):  # 100 minutes without a step that was not there before
        desk.step(step)
        desk.tick(seconds=60)
    assert not Incident.objects.exists()
    assert (desk.attempt.phase, desk.attempt.last_step) == ("training", 139)


@pytest.mark.parametrize("load_line", [False, True])
def test_steps_that_torchrun_has_done_again_are_no_silence(load_line: bool, desk: Desk) -> None:
    """With --max-restarts; its log level hides that it starts them, not that they failed."""
    desk.submit()
    desk.start()
    desk.tick()
    desk.train(1, 200, every=10)
    desk.say(
        "E1130 05:01:38.135000 4711 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) "
        "local_rank: 1 (pid: 4713) of binary: /usr/bin/python3"
    )
    if load_line:
        desk.load(40)
    for step in range(40, 140):
        desk.step(step)
        desk.tick(seconds=60)
    assert not Incident.objects.exists()
    assert (desk.attempt.phase, desk.attempt.last_step) == ("training", 139)


def test_only_a_start_of_the_workers_takes_the_steps_back(desk: Desk, tmp_path: Path) -> None:
    run(desk, tmp_path)
    desk.step(40)
    desk.tick()
    assert desk.attempt.last_step == 200
    start_workers_anew(desk, tmp_path)
    desk.tick()
    desk.step(41)
    desk.tick()
    assert desk.attempt.last_step == 41
    desk.train(42, 60)
    desk.step(50)  # once for each start
    desk.tick()
    assert desk.attempt.last_step == 60
