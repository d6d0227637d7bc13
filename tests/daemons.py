"""Real servers for tests, each in a folder of its own, on loopback or a unix socket, ended by pid."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from recovery.demo.processes import wait_until
from tests import needs

READY_S = 30.0
STOP_S = 15.0
PROJECT = Path(__file__).resolve().parent.parent


class Daemon:
    """One server process with its group. `ready` is asked until it says yes; a daemon that ends before is an error."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        ready: Callable[[], bool],
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.command = list(command)
        self.log = log
        self._ready = ready
        self._env = env
        self._user = user
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process, "not started"
        return self._process.pid

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=PROJECT if self._user is None else "/",
                env={**os.environ, **self._env} if self._env else None,
                start_new_session=True,
                **_as_user(self._user),
            )
        came_up = False
        try:
            came_up = self._came_up()
        finally:
            if not came_up:
                self.kill()
        if not came_up:
            raise AssertionError(f"{self.command[0]} did not come up:\n{self.log.read_text(errors='replace')[-3000:]}")

    def _came_up(self) -> bool:
        wait_until(lambda: self._ready() or not self.is_running(), timeout_s=READY_S)
        return self.is_running() and self._ready()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """As a service manager would: ask, wait, kill."""
        if self.is_running():
            os.kill(self.pid, self._stop_signal)
            wait_until(lambda: not self.is_running(), timeout_s=STOP_S)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to it and all its children: nothing gets a chance to tidy up."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def short_folder(user: str | None = None) -> Iterator[Path]:
    """A temporary folder whose path is short enough for unix sockets (about 100 characters at most)."""
    folder = Path(tempfile.mkdtemp(prefix="desk-"))
    if user:
        shutil.chown(folder, user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def redis_daemon(folder: Path, *, port: int) -> Daemon:
    """A redis-server that keeps nothing on disk: what was in it is lost with it."""
    command = [needs.program("redis-server") or "redis-server", "--bind", "127.0.0.1", "--port", str(port)]
    command += ["--dir", str(folder), "--save", "", "--appendonly", "no"]
    return Daemon(command, log=folder / "redis.log", ready=lambda: accepts(port))


def postgres_daemon(folder: Path) -> tuple[Daemon, str]:
    """A PostgreSQL that listens on a unix socket in `folder` alone, and its URL. It refuses to run as root."""
    programs = needs.postgres_folder()
    assert programs, "asked for PostgreSQL where there is none"
    user, data = postgres_user(), folder / "data"
    initdb = [str(programs / "initdb"), "-D", str(data), "-U", "recovery", "--auth=trust", "--encoding=UTF8"]
    subprocess.run([*initdb, "--no-locale", "--no-sync"], check=True, capture_output=True, cwd="/", **_as_user(user))
    command = [str(programs / "postgres"), "-D", str(data), "-k", str(folder), "-c", "listen_addresses="]
    command += ["-c", "fsync=off", "-c", "max_connections=50"]
    ready = [str(programs / "pg_isready"), "-q", "-h", str(folder), "-U", "recovery", "-d", "postgres"]
    daemon = Daemon(
        command,
        log=folder / "postgres.log",
        ready=lambda: subprocess.run(ready, check=False).returncode == 0,
        user=user,
        stop_signal=signal.SIGINT,  # PostgreSQL's "fast": ends the sessions and stops
    )
    return daemon, f"postgres://recovery@/postgres?host={quote(str(folder), safe='')}"


def postgres_user() -> str | None:
    """Whom to run PostgreSQL as: ourselves, unless we are root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def worker_daemon(folder: Path, *, env: Mapping[str, str], concurrency: int = 2) -> Daemon:
    """A real Celery worker process with its pool."""
    log = folder / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "recovery", "worker", "--pool", "prefork", "--loglevel", "INFO"]
    command += [
        "--concurrency",
        str(concurrency),
        "--without-gossip",
        "--without-mingle",
        "-n",
        f"test-{folder.name}@%h",
    ]
    return Daemon(command, log=log, ready=lambda: log.exists() and " ready." in log.read_text(), env=env)


def _as_user(user: str | None) -> dict[str, Any]:
    """Arguments for subprocess that run a program as another user."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
