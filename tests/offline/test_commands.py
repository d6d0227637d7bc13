from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.core.attempts import traceback
from tests.offline.test_evaluation import CASE, make_case

ECC = "\n".join(traceback("RuntimeError: CUDA error: uncorrectable ECC error encountered"))
ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.out"
    path.write_text(ECC + "\n")
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.json"
    path.write_text('{"state": "FAILED", "exit_code": "1:0", "nodes": "gpu-17"}')
    return path


def test_diagnose_prints_the_documented_json(log: Path, job: Path) -> None:
    verdict = json.loads(run("diagnose", str(log), "--job", str(job), "--json"))
    assert verdict["class"] == "gpu_hardware"
    assert verdict["restart"] == "yes"
    assert verdict["exclude"] == {"verdict": "nodes", "nodes": ["gpu-17"]}
    assert verdict["confidence"] == 0.97
    assert verdict["first_failure"] == {"time": None, "file": str(log), "line": 3, "rank": None, "node": "gpu-17"}
    assert verdict["evidence"][0] == {
        "file": str(log), "line": 3, "text": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "rule": "cuda.ecc_uncorrectable", "role": "cause",
    }  # fmt: skip
    assert verdict["reason"].endswith("Restart it without gpu-17.")
    seen = {"scheduler", "job log", "ranks", "node events", "checkpoints", "GPU counters"}
    assert set(verdict["coverage"]) == {*seen, "what would change it"}


def test_diagnose_speaks_to_people(log: Path, job: Path) -> None:
    text = run("diagnose", str(log), "--job", str(job))
    assert text.startswith("A GPU reported an uncorrectable memory error")
    assert f"{log}:3" in text
    assert "What was looked for" in text


def test_diagnose_reads_a_folder(log: Path) -> None:
    assert '"gpu_hardware"' in run("diagnose", str(log.parent), "--json")


def test_diagnose_needs_no_database_and_reads_standard_input(log: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "diagnose", "-", "--json"],
        cwd=ROOT, input=log.read_bytes(), capture_output=True, timeout=60, check=False,
        env={**os.environ, "DATABASE_URL": "postgres://nobody:nothing@127.0.0.1:1/nowhere"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["class"] == "gpu_hardware"


def test_what_cannot_be_read_is_said_plainly(tmp_path: Path, log: Path) -> None:
    with pytest.raises(CommandError, match=r"gone\.log: No such file"):
        run("diagnose", str(tmp_path / "gone.log"))
    with pytest.raises(CommandError, match=r"gone\.json: No such file"):
        run("diagnose", str(log), "--job", str(tmp_path / "gone.json"))
    (tmp_path / "wrong.json").write_text("{")
    with pytest.raises(CommandError, match=r"wrong\.json"):
        run("diagnose", str(log), "--job", str(tmp_path / "wrong.json"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CommandError, match="no log file"):
        run("diagnose", str(tmp_path / "empty"))


def test_evaluate_prints_json_and_text(tmp_path: Path) -> None:
    make_case(tmp_path / "good")
    make_case(tmp_path / "wrongful", CASE, log=ECC)
    figures = json.loads(run("evaluate", str(tmp_path), "--json"))
    assert (figures["cases"], figures["wrongful_restarts"]) == (2, ["wrongful"])
    text = run("evaluate", str(tmp_path))
    assert "class    50.0%" in text
    assert "Wrongful restarts: 1\n  wrongful" in text
    assert "user_code      2      1  gpu_hardware 1" in text
    assert "s per MB" in text


def test_evaluate_refuses_what_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"no case\.toml"):
        run("evaluate", str(tmp_path))
