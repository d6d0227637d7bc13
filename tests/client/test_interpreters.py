"""The client on every Python from 3.8 on that this machine has: a training script's (on_any_python.py) runs on each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from recovery.access import actor_for
from recovery.api import push_tokens
from recovery.client import recovery_desk_client as module
from recovery.models import PushBatch
from tests.certificates import make_certificate
from tests.client.desk_server import Desk, failing, good, running_desk
from tests.factories import make_attempt, make_job

SCRIPT = Path(__file__).parent / "on_any_python.py"
MINORS = range(8, 20)  # of Python 3
RAISED = "RuntimeError: the end of it"
ENDS = {"ends": (0, []), "raises": (1, [RAISED]), "exits": (3, []), "terminated": (143, []), "forks": (0, [])}
TOLD = [
    "the desk answered with status 429: no; rows are kept and sent later, the training goes on.",
    "the desk gave no answer; rows are kept and sent later, the training goes on.",
    "a callback did not understand this trainer; the training goes on.",
]


def interpreters() -> dict[str, str]:
    """Path by version: this one, those of pyenv, and those of PATH; its shims are no Pythons."""
    found = {}
    folders = [each for each in os.environ.get("PATH", "").split(os.pathsep) if not each.endswith("shims")]
    for minor in MINORS:
        if path := shutil.which(f"python3.{minor}", path=os.pathsep.join(folders)):
            found[f"3.{minor}"] = path
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for folder in sorted(versions.glob("3.*")):
        version = re.fullmatch(r"3\.(\d+)\.\d+", folder.name)
        if version and int(version[1]) in MINORS and (folder / "bin" / "python").exists():
            found[f"3.{version[1]}"] = str(folder / "bin" / "python")
    return {**found, f"3.{sys.version_info.minor}": sys.executable}


PYTHONS = interpreters()


def start(python: str, url: str, what: str, **environment: str) -> subprocess.Popen[str]:
    env = {
        "PYTHONPATH": str(Path(module.__file__).parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "RECOVERY_DESK_TOKEN": "rdp_x_y",
        **environment,
    }
    argv = [python, "-W", "error", str(SCRIPT), url, what]
    return subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True)


def end_of(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Exit code and the lines of its errors."""
    try:
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    return process.returncode, errors.splitlines()


def make_moody(desk: Desk) -> None:
    """It asks one job to come again, and lets another wait until a third has spoken."""
    looped, asked = threading.Event(), threading.Event()

    def answer(batch: dict[str, Any]) -> Any:
        if batch["job"] == "refused_for_now" and not asked.is_set():
            asked.set()
            return failing(429, **{"Retry-After": "0.1"})
        if batch["job"] == "looped":
            looped.set()
        elif batch["job"] == "slow":
            looped.wait(20)
        return good(batch)

    desk.answers = [answer] * 1000


def rows_of(desk: Desk, job: str) -> list[dict[str, Any]]:
    return [row for batch in desk.batches if batch["job"] == job for row in batch["rows"]]


def words_of(desk: Desk, job: str) -> list[tuple[str, Any]]:
    return [(row["kind"], row.get("step") or row.get("phase")) for row in rows_of(desk, job)]


@pytest.mark.parametrize("version", PYTHONS)
def test_a_training_script_is_heard_and_not_held_up(version: str) -> None:
    with running_desk() as desk:
        make_moody(desk)
        code, errors = end_of(start(PYTHONS[version], desk.url, "trains"))
    assert (code, errors) == (0, [f"recovery desk client: {line}" for line in TOLD])
    assert [row["kind"] for row in rows_of(desk, "told")] == [
        "fresh_start", "progress", "progress", "save_started", "save_durable", "loaded", "phase", "failure", "finished",
    ]  # fmt: skip
    first, second, saved = rows_of(desk, "told")[1:4]
    assert {name: value for name, value in first.items() if name != "at"} == {
        "kind": "progress", "step": 1, "loss": 1.25, "throughput": 900, "step_time_s": 1.5, "tokens": 2**40, "rank": 3,
    }  # fmt: skip
    assert (second["loss"], saved["path"]) == ("nan", "/ckpt")
    assert "RuntimeError: CUDA error" in rows_of(desk, "told")[7]["text"]
    assert {batch["restart"] for batch in desk.batches if batch["job"] == "told"} == {2}
    assert {headers["Authorization"] for headers in desk.headers} == {"Bearer rdp_x_y"}
    asked, again = [batch for batch in desk.batches if batch["job"] == "refused_for_now"]
    assert (asked["batch"], asked["rows"]) == (again["batch"], again["rows"])
    assert [row["step"] for row in rows_of(desk, "slow")] == list(range(1000))
    assert words_of(desk, "hugging_face") == [
        ("fresh_start", None), ("progress", 8), ("phase", "evaluating"), ("phase", "training"), ("save_started", 8),
        ("save_durable", 8), ("finished", None),
    ]  # fmt: skip
    assert words_of(desk, "lightning") == [
        ("loaded", 4), ("progress", 6), ("phase", "evaluating"), ("phase", "training"), ("save_started", 6),
        ("failure", None), ("finished", None),
    ]  # fmt: skip
    assert words_of(desk, "rank_zero") == [("progress", 10)]
    assert sorted(row["rank"] for row in rows_of(desk, "every_rank")) == [0, 1]


@pytest.mark.parametrize("version", PYTHONS)
def test_however_a_training_script_ends_its_last_rows_are_sent(version: str) -> None:
    with running_desk() as desk:
        started = {what: start(PYTHONS[version], desk.url, what) for what in ENDS}
        ended = {what: end_of(process) for what, process in started.items()}
    assert {what: (code, errors[-1:]) for what, (code, errors) in ended.items()} == ENDS
    assert {what: [row["step"] for row in rows_of(desk, what)] for what in ENDS if what != "forks"} == {
        what: [7] for what in ENDS if what != "forks"
    }
    assert sorted(row["step"] for row in rows_of(desk, "forks")) == [7, 8]


@pytest.mark.openssl
def test_each_python_trusts_the_certificate_it_is_told_to(tmp_path: Path) -> None:
    """Later releases check a certificate more strictly than earlier ones."""
    certificate, key = make_certificate(tmp_path)
    trusted = {"RECOVERY_DESK_CA_FILE": str(certificate)}
    with running_desk(certificate=(certificate, key)) as desk:
        started = [start(python, desk.url, "ends", **trusted) for python in PYTHONS.values()]
        assert [end_of(process) for process in started] == [(0, [])] * len(PYTHONS)
        stranger = module.RecoveryDesk(desk.url, "rdp_x_y", job="ends", flush_s=0.02)
        stranger.progress(8)
        assert not stranger.flush(0.5)  # of the system's certificates, none vouches for this one
    assert [row["step"] for row in rows_of(desk, "ends")] == [7] * len(PYTHONS)


@pytest.mark.django_db(transaction=True)
def test_the_desk_itself_takes_what_each_python_sends(live_server: Any, admin: User, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = False
    attempt = make_attempt(number=0, job=make_job(job_id="ends"))
    _, token = push_tokens.make(actor=actor_for(admin), name="t", cluster=attempt.job.cluster, now=timezone.now())
    started = [start(python, live_server.url, "ends", RECOVERY_DESK_TOKEN=token) for python in PYTHONS.values()]
    assert [end_of(process) for process in started] == [(0, [])] * len(PYTHONS)
    rows = [row for batch in PushBatch.objects.all() for row in batch.rows]
    assert [(row["kind"], row["step"]) for row in rows] == [("progress", 7)] * len(PYTHONS)
