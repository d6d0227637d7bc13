from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests import loopback
from tests.loopback import LeftTheMachine, is_local


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "::1%lo", "localhost", "LOCALHOST", "::", "", None, b"127.0.0.1"]
)
def test_this_machine_is_local(host: object) -> None:
    assert is_local(host)


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.org", "localhost.example.org", b"example.org"])
def test_the_rest_of_the_world_is_not(host: object) -> None:
    assert not is_local(host)


def test_a_connection_to_the_outside_is_refused_before_it_is_made() -> None:
    with socket.socket() as outside, pytest.raises(LeftTheMachine, match=r"192\.0\.2\.1"):
        outside.connect(("192.0.2.1", 9))
    assert loopback.OUTSIDE == ["socket.connect to 192.0.2.1"]
    loopback.OUTSIDE.clear()


def test_no_name_is_looked_up_outside() -> None:
    with pytest.raises(LeftTheMachine):
        socket.getaddrinfo("example.org", 80)
    loopback.OUTSIDE.clear()


def test_what_a_thread_tried_is_remembered() -> None:
    def leave() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside, pytest.raises(LeftTheMachine):
            outside.sendto(b"hello", ("192.0.2.1", 9))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert loopback.OUTSIDE == ["socket.sendto to 192.0.2.1"]
    loopback.OUTSIDE.clear()


def test_loopback_and_unix_sockets_work(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
    assert loopback.OUTSIDE == []
