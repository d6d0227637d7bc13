"""A metrics file or a file of NVRx that can't be read: the job's page says so, and it matters where the log is mute."""

from __future__ import annotations

import json
import os
from pathlib import Path

from recovery.models import Incident, Job, LogFile
from tests.pipeline.conftest import Desk

OUTSIDE = "/etc/metrics-*.jsonl"


def run(desk: Desk, **options: str) -> None:
    """A running job whose log can be read, and whose comment has these options."""
    desk.submit(comment=json.dumps({"recovery": options}))
    desk.tick()
    desk.start()
    desk.tick()


def troubles() -> dict[str, str]:
    return dict(LogFile.objects.exclude(error="").values_list("path", "error"))


def test_a_log_that_tells_of_steps_is_not_made_blind_by_the_metrics(desk: Desk) -> None:
    run(desk, metrics=OUTSIDE)
    assert desk.attempt.blind_reason == ""  # in its start-up, too: a first step that never comes must be seen
    desk.train(1, 3)
    assert (desk.attempt.blind_reason, desk.attempt.phase, desk.attempt.last_step) == ("", "training", 3)
    assert "outside" in troubles()[f"metrics:{OUTSIDE}"]


def test_where_the_log_tells_of_no_step_the_metrics_are_the_reason(desk: Desk) -> None:
    run(desk, metrics=OUTSIDE)
    for number in range(70):
        desk.say(f"tick tock {number}")
        desk.tick(seconds=30)
    assert "outside" in desk.attempt.blind_reason
    assert "RECOVERY_LOG_ROOTS" in desk.attempt.blind_remedy


def test_metrics_that_told_of_steps_and_are_gone_make_blind_not_hung(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    run(desk, metrics=str(file))
    for step in range(1, 8):
        with file.open("a") as more:
            more.write(f'{{"step": {step}, "loss": 2.5}}\n')
        desk.say("nothing to see")
        desk.tick(seconds=15)
    assert (desk.attempt.blind_reason, desk.attempt.last_step) == ("", 7)
    file.unlink()
    desk.tick(seconds=600, times=12)
    assert desk.attempt.blind_reason == f"The metrics file {file} is gone."
    assert not Incident.objects.exists()


def test_a_file_that_the_job_names_and_never_writes_is_told_until_it_comes(desk: Desk, tmp_path: Path) -> None:
    named = {key: str(tmp_path / key) for key in ("metrics", "nvrx_iteration_file", "nvrx_cycle_dir")}
    run(desk, **named)
    desk.step(1)
    desk.tick()
    assert troubles() == {}
    desk.tick(seconds=61)
    assert {path.rpartition("/")[2] for path in troubles()} == set(named)
    assert all(said.startswith("It does not exist") for said in troubles().values())
    assert desk.attempt.blind_reason == ""
    (tmp_path / "metrics").write_text('{"step": 2, "loss": 2.5}\n')
    (tmp_path / "nvrx_iteration_file").write_text("1")
    (tmp_path / "nvrx_cycle_dir").mkdir()
    desk.tick()
    assert troubles() == {}


def test_a_name_for_every_job_of_the_cluster_may_be_none_of_this_one(desk: Desk, tmp_path: Path) -> None:
    desk.cluster.sources = {"metrics": f"{tmp_path}/%x/metrics.jsonl", "nvrx_cycle_dir": f"{tmp_path}/cycles"}
    desk.cluster.save(update_fields=["sources"])
    run(desk)
    desk.tick(seconds=61, times=2)
    assert troubles() == {}


def test_files_of_nvrx_that_are_refused_are_told(desk: Desk, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "iteration")
    run(desk, nvrx_iteration_file=str(tmp_path / "iteration"), nvrx_cycle_dir="/etc")
    found = troubles()
    assert "a pipe" in found[f"metrics:{tmp_path}/iteration"]
    assert "outside" in found["metrics:/etc"]
    desk.train(1, 2)
    assert desk.attempt.blind_reason == ""


def test_a_wildcard_in_a_folder_is_told_to_the_owner(desk: Desk, tmp_path: Path) -> None:
    run(desk, metrics=f"{tmp_path}/*/metrics.csv")
    assert "in the file name only" in Job.objects.get().comment_error


def test_a_job_may_be_called_as_a_wildcard_is(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "sweep[1]" / "m-0.jsonl"
    file.parent.mkdir()
    file.write_text('{"step": 3, "loss": 2.5}\n')
    desk.submit(name="sweep[1]", comment=json.dumps({"recovery": {"metrics": f"{tmp_path}/%x/m-*.jsonl"}}))
    desk.start()
    desk.tick(times=2)
    assert desk.attempt.last_step == 3
