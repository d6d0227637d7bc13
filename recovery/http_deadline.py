"""An end for a whole request of httpx, whose own time-outs begin anew with each piece that comes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import httpx

_CONNECTED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")


@contextmanager
def whole_within(seconds: float) -> Iterator[Mapping[str, Callable[[str, Mapping[str, Any]], None]]]:
    """Yields `extensions` for one request; httpx.ReadTimeout where it, head and body, is not over after `seconds`."""
    sockets: list[socket.socket] = []
    over = threading.Event()

    def trace(event: str, told: Mapping[str, Any]) -> None:
        if event.endswith(_CONNECTED):
            sockets.append(told["return_value"].get_extra_info("socket"))
            if over.is_set():
                raise httpx.ConnectTimeout("too late")

    def end() -> None:
        over.set()
        for each in sockets:
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # beneath TLS: whoever reads from it gets an end

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield {"trace": trace}
    except httpx.HTTPError as error:
        if over.is_set():
            raise httpx.ReadTimeout("not whole in time") from error
        raise
    finally:
        timer.cancel()
