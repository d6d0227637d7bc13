"""The real servers that other tests stand on are real, and end with their test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from recovery.demo.processes import identify, wait_until
from tests import daemons
from tests.daemons import Daemon
from tests.services import StartWorker, database_url


@pytest.mark.redis
def test_redis_answers_forgets_when_killed_and_comes_back(own_redis: tuple[Daemon, str]) -> None:
    server, url = own_redis
    with redis.Redis.from_url(url) as client:
        client.set("kept", "1")
        server.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        server.start()
        assert client.get("kept") is None


@pytest.mark.postgres
def test_postgres_answers(postgres_server: str) -> None:
    with psycopg.connect(postgres_server) as connection:
        row = connection.execute("select current_setting('server_version_num')::int").fetchone()
    assert row
    assert row[0] >= 130000


@pytest.mark.postgres
def test_a_command_runs_on_a_postgres_of_its_own() -> None:
    code = "import os, psycopg; print(psycopg.connect(os.environ['DATABASE_URL']).info.dbname)"
    answer = subprocess.run(
        [sys.executable, "-m", "tests.postgres", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout == "postgres\n"


@pytest.mark.redis
def test_a_worker_is_killed_with_its_whole_pool(celery_worker: Daemon) -> None:
    pool = [
        int(pid) for pid in Path(f"/proc/{celery_worker.pid}/task/{celery_worker.pid}/children").read_text().split()
    ]
    processes = [process for pid in pool if (process := identify(pid))]
    assert len(processes) >= 2
    celery_worker.kill()
    assert wait_until(lambda: not any(process.is_alive() for process in processes), timeout_s=10)


@pytest.mark.redis
def test_a_worker_works_on_the_database_of_the_test(start_worker: StartWorker) -> None:
    worker = start_worker(concurrency=1)
    environment = Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")
    assert f"DATABASE_URL={database_url()}".encode() in environment


def test_a_daemon_that_does_not_come_up_shows_what_it_said(tmp_path: Path) -> None:
    broken = Daemon([sys.executable, "-c", "raise SystemExit('no room')"], log=tmp_path / "log", ready=lambda: False)
    with pytest.raises(AssertionError, match="no room"):
        broken.start()


def test_a_daemon_that_ignores_the_request_to_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "STOP_S", 0.3)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(99)"
    log = tmp_path / "log"
    stubborn = Daemon([sys.executable, "-c", code], log=log, ready=lambda: "up" in log.read_text())
    stubborn.start()
    stubborn.stop()
    assert not stubborn.is_running()
    with pytest.raises(ProcessLookupError):
        os.kill(stubborn.pid, signal.SIGTERM)
