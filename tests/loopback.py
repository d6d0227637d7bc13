"""No test leaves this machine: Python's own audit events tell of every connection before it is made.

Programs that a test starts, and connections that libpq makes in C, are not seen here.
"""

from __future__ import annotations

import socket
import sys
from ipaddress import ip_address
from typing import Any

OUTSIDE: list[str] = []  # what was tried since the last look; a thread's own exception would be lost

_LOCAL_NAMES = frozenset({"", "localhost", "localhost.localdomain", socket.gethostname().lower()})


class LeftTheMachine(BaseException):
    """Not an Exception: code under test that survives every connection error must not survive this one."""


def is_local(host: object) -> bool:
    """True for loopback addresses, this machine's own name and what is no network address at all (unix sockets)."""
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if not isinstance(host, str):
        return True
    name = host.partition("%")[0].lower()  # without an IPv6 zone
    try:
        address = ip_address(name)
    except ValueError:
        return name in _LOCAL_NAMES
    return address.is_loopback or address.is_unspecified


def _target(event: str, args: tuple[Any, ...]) -> object:
    """The host that an audit event is about to reach; None where it reaches none."""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        return address[0] if isinstance(address, tuple) else None
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        return args[0]
    return None


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if not event.startswith("socket."):
        return
    host = _target(event, args)
    if not is_local(host):
        OUTSIDE.append(f"{event} to {host}")
        raise LeftTheMachine(f"A test tried {event} to {host}: only loopback is allowed.")


def guard() -> None:
    """Watch this process from now on; an audit hook can't be taken away again."""
    sys.addaudithook(_watch)
