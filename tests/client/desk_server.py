"""A desk on loopback that answers as it is told: in order, however slow, whatever it is."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = tuple[int, dict[str, str], bytes]


def good(batch: dict[str, Any]) -> Answer:
    return 200, {}, json.dumps({"accepted": len(batch["rows"]), "again": False, "refused": []}).encode()


def failing(status: int, code: str = "x", **headers: str) -> Answer:
    return status, headers, json.dumps({"error": {"code": code, "message": "no", "fields": {}}}).encode()


class Desk:
    """`batches`: what came, in order. `answers`: what is answered first, then `good`; a callable may take its time."""

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[Answer | Callable[[dict[str, Any]], Answer]] = []
        self.came = threading.Condition()
        self.url = ""

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches for row in batch["rows"]]

    def wait_for(self, true: Callable[[], bool], timeout_s: float = 10) -> bool:
        with self.came:
            return self.came.wait_for(true, timeout=timeout_s)

    def take(self, body: bytes, headers: dict[str, str]) -> Answer:
        batch = json.loads(body)
        with self.came:
            self.batches.append(batch)
            self.headers.append(headers)
            answer = self.answers.pop(0) if self.answers else good
            self.came.notify_all()
        return answer(batch) if callable(answer) else answer


@contextmanager
def running_desk(certificate: tuple[Path, Path] | None = None) -> Iterator[Desk]:
    """certificate: it and its key, for HTTPS."""
    desk = Desk()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers, answer = desk.take(body, dict(self.headers))
            try:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(answer)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)
            except OSError:
                pass  # the client gave up

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    desk.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}"
    try:
        yield desk
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
