"""A Prometheus or Loki on loopback: answers of the shapes that their HTTP APIs document, and worse."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Site:
    """`answer(path, parameters)` gives the status and what is sent; `asked` keeps what came, with its headers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.answer: Callable[[str, dict[str, str]], tuple[int, Any]] = lambda path, given: (200, vector([]))
        self.headers: dict[str, str] = {}
        self.delay_s = 0.0
        self.url = ""


def vector(series: list[tuple[dict[str, str], float]], at: float | None = None) -> dict[str, Any]:
    moment = time.time() if at is None else at
    result = [{"metric": metric, "value": [moment, str(value)]} for metric, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def streams(lines: list[tuple[dict[str, str], int, str]]) -> dict[str, Any]:
    result = [{"stream": labels, "values": [[str(nanoseconds), text]]} for labels, nanoseconds, text in lines]
    return {"status": "success", "data": {"resultType": "streams", "result": result, "stats": {}}}


@contextmanager
def running_site(*, tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # hands that were not shaken: ssl.SSLError is one too
                super().handle()

        def do_GET(self) -> None:
            self._tell(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._tell(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())

        def _tell(self, query: str) -> None:
            given = {name: values[0] for name, values in parse_qs(query).items()}
            path = urlsplit(self.path).path
            site.asked.append((path, given, dict(self.headers)))
            status, body = site.answer(path, given)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            time.sleep(site.delay_s)
            try:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **site.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                pass  # who asked went away

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:  # shaken hands on in the thread of each request
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    site.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
