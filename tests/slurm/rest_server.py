"""A slurmrestd made of answers: what is said to which request is written in the test, byte by byte where it matters."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from recovery.slurm import rest_door
from recovery.slurm.base import SlurmClient
from recovery.slurm.rest import RestClient
from recovery.slurm.rest_options import rest_client

RECORDED = Path(__file__).parent / "recorded"
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
META = {"plugin": {"type": "openapi/slurmctld"}, "slurm": {"release": "26.05.5", "cluster": "lab"}}

# Every call, with arguments that a real slurmrestd would take.
READS: dict[str, Callable[[SlurmClient], object]] = {
    "health": lambda client: client.health(),
    "jobs": lambda client: client.jobs(),
    "job": lambda client: client.job("12"),
    "attempts": lambda client: client.attempts(["12"], since=SINCE),
    "ended_between": lambda client: client.ended_between(SINCE, SINCE),
    "nodes": lambda client: client.nodes(),
    "partitions": lambda client: client.partitions(),
    "reservations": lambda client: client.reservations(),
}
WRITES: dict[str, Callable[[SlurmClient], object]] = {
    "requeue": lambda client: client.requeue("12", hold=False),
    "set_excluded_nodes": lambda client: client.set_excluded_nodes("12", ("n1",)),
    "release": lambda client: client.release("12"),
    "hold": lambda client: client.hold("12"),
    "set_time_limit": lambda client: client.set_time_limit("12", 90),
    "set_admin_comment": lambda client: client.set_admin_comment("12", "by hand"),
    "resume_node": lambda client: client.resume_node("n1"),
}
CALLS = READS | WRITES


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    method: str
    path: str  # without its query
    query: str
    headers: Mapping[str, str]
    body: Any = None


@dataclass(kw_only=True, slots=True)
class Said:
    """`body` is JSON where it is no bytes. `trickle_s` waits between its bytes; `length` lies about them."""

    status: int = 200
    body: Any = field(default_factory=dict)
    kind: str = "application/json"
    length: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0
    trickle_s: float = 0

    @property
    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Script = Callable[[Asked], Said]


def whole(**fields: Any) -> Said:
    """An answer of the newest version that says all is well."""
    return Said(body={"meta": META, "errors": [], "warnings": [], **fields})


def error(number: int, words: str = "no", *, status: int = 200) -> Said:
    """One error of Slurm's, in a 200 where nothing else is said."""
    return Said(
        status=status, body={"meta": META, "errors": [{"error_number": number, "error": words}], "warnings": []}
    )


NO_SUCH_CALL = Said(status=404, body=b"Unable to find requested URL endpoint.", kind="text/plain")


def recorded(release: str, version: str, name: str) -> Said:
    """An answer as it was given by a real slurmrestd."""
    head, _, body = (RECORDED / f"rest-{release}" / version / f"{name}.txt").read_bytes().partition(b"\n")
    status, _, kind = head.decode().partition(" ")
    return Said(status=int(status), body=body, kind=kind)


class Server:
    """`script` answers what is asked of the version `serves`; other versions' pings find nothing."""

    def __init__(self) -> None:
        self.serves = ""
        self.pings = whole()
        self.script: Script = lambda asked: whole()
        self.asked: list[Asked] = []
        self.port = 0
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def client(self, *, timeout_s: float = 5, **options: str) -> RestClient:
        return rest_client({"url": self.url, "token": "a.b.c", **options}, timeout_s=timeout_s)

    def says(self, said: Said) -> None:
        self.script = lambda asked: said

    def begin(self, *, serves: str = "v0.0.45") -> None:
        """As if it were new: one server is shared by the tests of a module."""
        self.serves, self.pings, self.script, self.asked = serves, whole(), lambda asked: whole(), []
        rest_door._versions.pop(self.url, None)

    def answer(self, asked: Asked) -> Said:
        if asked.path.endswith("/ping"):
            return self.pings if f"/{self.serves}/" in asked.path else NO_SUCH_CALL
        self.asked.append(asked)
        return self.script(asked)


class _Handler(BaseHTTPRequestHandler):
    server_version, protocol_version = "slurmrestd", "HTTP/1.1"
    owner: Server

    def handle(self) -> None:
        with suppress(OSError):  # hands that were not shaken: ssl.SSLError is one too
            super().handle()

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        path, _, query = self.path.partition("?")
        asked = Asked(method=self.command, path=path, query=query, headers=dict(self.headers), body=body)
        said = self.owner.answer(asked)
        time.sleep(said.wait_s)
        with suppress(BrokenPipeError, ConnectionResetError):  # we were given up on
            self._say(said)
        self.close_connection = True

    do_GET = do_POST = do_DELETE = _serve

    def _say(self, said: Said) -> None:
        data = b"" if said.status == 304 else said.data
        self.send_response(said.status)
        if said.kind:
            self.send_header("Content-Type", said.kind)
        for name, value in said.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if said.length is None else said.length))
        self.end_headers()
        if not said.trickle_s:
            self.wfile.write(data)
            return
        for byte in data:
            self.wfile.write(bytes([byte]))
            time.sleep(said.trickle_s)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: pytest shows what is said on stderr with every failure."""


@contextmanager
def serving(server: Server, *, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    handler = type("Handler", (_Handler,), {"owner": server})
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    http.daemon_threads = True
    if tls is not None:  # shaken hands on in the thread of each request
        http.socket = tls.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
        server.scheme = "https"
    server.port = http.server_port
    server.begin()
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join(5)
