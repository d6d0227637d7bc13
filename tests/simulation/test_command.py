"""manage.py simulate: what it prints, how it ends, and that it leaves the installation alone."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from recovery.models import Cluster, Incident
from tests.simulation.test_scenarios import FOLDER

pytestmark = pytest.mark.django_db

QUICK = FOLDER / "scancel.toml"


def changed(tmp_path: Path, old: str, new: str) -> Path:
    path = tmp_path / "scenario.toml"
    text = QUICK.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_the_time_line_ends_with_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("simulate", QUICK)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A user cancels the job"
    assert any("tomas cancels embed-finetune" in line for line in lines)
    assert lines[-1] == "It came out as expected."


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_at_a_terminal_a_line_says_how_far_it_is_and_goes_away(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    call_command("simulate", QUICK, stderr=terminal)
    written = terminal.getvalue()
    assert "\r10 of 180 s of virtual time" in written
    assert written.endswith("\r\x1b[K")
    assert "\n" not in written


def test_elsewhere_nothing_is_printed_before_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("simulate", QUICK)
    assert capsys.readouterr().err == ""


def test_what_differs_is_named_and_the_exit_code_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(tmp_path, 'outcome = "stopped_on_purpose"', 'outcome = "recovered"')
    with pytest.raises(SystemExit) as ended:
        call_command("simulate", path)
    assert ended.value.code == 1
    difference = "incident 1 of embed-finetune: outcome: recovered expected, stopped_on_purpose seen"
    assert capsys.readouterr().out.splitlines()[-1].strip() == difference


def test_json_holds_the_verdict_the_time_line_and_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("simulate", QUICK, "--json")
    answer = json.loads(capsys.readouterr().out)
    assert (answer["held"], answer["differences"]) == (True, [])
    assert answer["incidents"][0]["outcome"] == "stopped_on_purpose"
    assert answer["jobs"][0]["state"] == answer["jobs"][0]["shown"] == "cancelled"
    assert {moment["who"] for moment in answer["moments"]} == {"people", "event", "cluster", "desk"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('do = "cancel"', 'do = "explode"', "event[0].do: must be one of crash_node"),
        ("for_s = 180", "for_s = 180 seconds", "this is no TOML"),
        ("[[event]]", "[[job.fault]]\nstep = 3\n[[event]]", "job[0].fault[0].kind: is missing; add it."),
        ("[[event]]", '[[job.fault]]\nkind = "bang"\n[[event]]', "job[0].fault[0].kind: must be one of traceback"),
    ],
)
def test_a_bad_file_is_refused_with_exit_code_2(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("simulate", changed(tmp_path, old, new))
    assert refused.value.returncode == 2
    assert said in str(refused.value)


TOO_LARGE = """
title = "A job that the cluster could never run"
for_s = 30
[[job]]
name = "huge"
nodes = 5
"""


def test_a_job_that_is_not_accepted_is_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(TOO_LARGE)
    with pytest.raises(SystemExit) as ended:
        call_command("simulate", path)
    assert ended.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert any("people" in line and "refused: " in line for line in lines)
    assert "job huge: not accepted: " in lines[-1]
    assert "Requested node configuration is not available" in lines[-1]


@pytest.mark.parametrize(("nodes", "code"), [(5, 0), (1, 1)])
def test_a_refusal_may_be_what_is_expected(
    tmp_path: Path, nodes: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.toml"
    text = TOO_LARGE.replace("nodes = 5", f"nodes = {nodes}")
    path.write_text(text + '[[expect.job]]\nname = "huge"\nrefused = true\n')
    try:
        call_command("simulate", path)
        ended = 0
    except SystemExit as error:
        ended = int(error.code or 0)
    assert ended == code
    assert ("a refusal was expected; it was accepted" in capsys.readouterr().out) == bool(code)


def test_a_missing_file_is_refused_with_exit_code_2(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file") as refused:
        call_command("simulate", tmp_path / "none.toml")
    assert refused.value.returncode == 2


def test_the_log_is_as_loud_afterwards_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    before = logging.getLogger("recovery").level
    call_command("simulate", QUICK)
    assert logging.getLogger("recovery").level == before


def test_the_installations_own_database_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Cluster.objects.create(name="simulated", backend="cli")
    call_command("simulate", QUICK)
    assert list(Cluster.objects.values_list("name", "backend")) == [("simulated", "cli")]
    assert not Incident.objects.exists()


def test_logs_and_checkpoints_can_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "kept"
    call_command("simulate", QUICK, "--folder", folder)
    assert "iteration" in (folder / "logs" / "embed-finetune-4101.out").read_text()
    with pytest.raises(CommandError, match="name a new folder"):
        call_command("simulate", QUICK, "--folder", folder)
