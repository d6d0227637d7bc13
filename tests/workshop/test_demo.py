"""`manage.py demo` as a newcomer meets it: from an empty folder to a recovered job, killed, and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from recovery.demo.processes import ProcessId, read_pid_file, stop_groups, wait_until

PROJECT = Path(__file__).parents[2]
STARTED_S = 120
NEWCOMER_S = 120  # the promise: two minutes from the first page

pytestmark = pytest.mark.timeout(300)


@dataclass
class Demo:
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def output(self) -> str:
        return (self.folder.parent / "output").read_text(encoding="utf-8")

    @property
    def url(self) -> str:
        found = re.search(r"Recovery Desk: (\S+)", self.output)
        assert found, self.output
        return found[1]

    @property
    def passwords(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.folder / "accounts.json").read_text())
        return found

    def programs(self) -> dict[str, ProcessId]:
        files = {path.stem: read_pid_file(path) for path in (self.folder / "run").glob("*.pid")}
        return {name: process for name, process in files.items() if process and process.is_alive()}


Start = Callable[[], Demo]
# What a machine may have set for its production site: nothing of it may reach the demo.
PRODUCTION = {"DATABASE_URL": "postgres://nobody@127.0.0.1:9/production", "RECOVERY_HTTPS": "true"}


@contextmanager
def folder_of_demos(tmp_path: Path) -> Iterator[Start]:
    """Starts the demo in one folder, again and again; what is left of it at the end is stopped."""
    started: list[Demo] = []

    def start() -> Demo:
        command = [sys.executable, "manage.py", "demo", "--folder", str(tmp_path / "demo"), "--port", "25400"]
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env=os.environ | PRODUCTION,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        demo = Demo(tmp_path / "demo", process)
        started.append(demo)
        ready = wait_until(lambda: "Ctrl-C stops" in demo.output or process.poll() is not None, timeout_s=STARTED_S)
        assert ready, demo.output
        assert process.poll() is None, demo.output
        return demo

    yield start
    for demo in started:
        if demo.process.poll() is None:
            demo.process.send_signal(signal.SIGINT)
            demo.process.wait(20)
        stop_groups(demo.programs().values(), grace_s=1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with folder_of_demos(tmp_path_factory.mktemp("running")) as start:
        yield start()


@contextmanager
def log_in(demo: Demo, name: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=demo.url, follow_redirects=True, timeout=20) as client:
        _fill_in_the_form(client, name, demo.passwords[name])
        yield client


def _fill_in_the_form(client: httpx.Client, name: str, password: str) -> None:
    page = client.get("/login/").text
    token = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[0]
    form = {"username": name, "password": password, "csrfmiddlewaretoken": token}
    assert client.post("/login/", data=form).url.path == "/"
    client.headers["X-CSRFToken"] = client.cookies["csrftoken"]


def results(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/api/v1/{path}").raise_for_status().json()["results"]
    return found


def test_a_newcomer_approves_and_sees_the_job_recovered_within_two_minutes(running: Demo) -> None:
    with log_in(running, "approver") as client:
        assert wait_until(lambda: bool(results(client, "recommendations?undecided=true")), timeout_s=60, every_s=1)
        shown = results(client, "recommendations?undecided=true")[0]
        assert shown["operations"]
        answer = client.post(f"/api/v1/recommendations/{shown['id']}/approve", json={"hash": shown["hash"]})
        assert answer.status_code == 200, answer.text

        def closed() -> bool:
            return bool(client.get(f"/api/v1/incidents/{shown['incident_id']}").json()["state"] == "closed")

        assert wait_until(closed, timeout_s=NEWCOMER_S - 60, every_s=1)
        incident = client.get(f"/api/v1/incidents/{shown['incident_id']}").json()
    assert incident["outcome"] == "recovered"
    assert incident["restored_step"] == shown["restore_step"]


def test_a_second_demo_in_the_same_folder_says_where_the_first_one_runs(running: Demo) -> None:
    again = subprocess.run(
        [sys.executable, "manage.py", "demo", "--folder", str(running.folder)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert again.returncode == 1
    assert f"already runs here as process {running.process.pid}" in again.stderr


def test_killed_then_started_again_then_stopped(tmp_path: Path) -> None:
    with folder_of_demos(tmp_path) as start:
        first = start()
        orphans, passwords = first.programs(), first.passwords
        assert set(orphans) >= {"web", "worker", "beat"}
        first.process.kill()
        first.process.wait()
        assert all(process.is_alive() for process in orphans.values())

        second = start()
        programs = second.programs()
        assert "Stopped what an earlier start left running" in second.output
        assert not any(process.is_alive() for process in orphans.values())
        assert second.passwords == passwords
        with log_in(second, "viewer") as client:
            assert results(client, "jobs")

        second.process.send_signal(signal.SIGINT)
        assert second.process.wait(15) == 0
        assert "Stopped." in second.output
        assert not any(process.is_alive() for process in programs.values())
