"""POST of a JSON body to an address that a person typed in: nowhere else, not within the site unless allowed.

The name is looked up once, every address that it has is judged, and the connection goes to one that was judged: a name
that answers differently a moment later leads nowhere. No redirect, no proxy.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx

from recovery.http_deadline import whole_within
from recovery.notify.base import MOST_BYTES, SHOWN_CHARS, TIMEOUT_S, Address, NotSent

PORTS = {"http": 80, "https": 443}
GONE = 410  # the receiver's word that it never wants to hear of us again


def post(address: Address, body: bytes, *, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
    """Send it; any answer of the 2xx kind is an arrival. Raises NotSent."""
    parts = urlsplit(address.target)
    if parts.scheme not in PORTS or not parts.hostname:
        raise NotSent("The address must begin with https:// or http://.", for_good=True)
    host, port = parts.hostname, parts.port or PORTS[parts.scheme]
    ip = _judged(host, port, allow_private=address.allow_private)
    literal = f"[{ip}]" if ":" in ip else ip
    named = host if port == PORTS[parts.scheme] else f"{host}:{port}"
    url = f"{parts.scheme}://{literal}:{port}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")
    try:
        with (
            whole_within(timeout_s) as extensions,
            httpx.Client(verify=_verify(parts.scheme, address), timeout=timeout_s, trust_env=False) as client,
            client.stream(
                "POST", url, content=body, headers={"Content-Type": "application/json", **headers, "Host": named},
                extensions={**extensions, "sni_hostname": host}, follow_redirects=False,
            ) as answer,
        ):  # fmt: skip
            _judge(answer.status_code, _beginning(answer), host)
    except httpx.TimeoutException:
        raise NotSent(f"{host} did not answer within {timeout_s:g} s.") from None
    except httpx.HTTPError as error:
        raise NotSent(f"{host} can't be reached: {str(error)[:SHOWN_CHARS] or type(error).__name__}.") from error


def _judged(host: str, port: int, *, allow_private: bool) -> str:
    """An address of the host, when all of them may be posted to."""
    addresses = _addresses(host, port)
    inside = [each for each in addresses if not ipaddress.ip_address(each).is_global]
    if inside and not allow_private:
        raise NotSent(
            f"{host} is at {inside[0]}, an address within the site. Allow private addresses for this channel if it is "
            "meant to be.",
            for_good=True,
        )
    return addresses[0]


def _addresses(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass  # a name
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NotSent(f"The name {host} can't be looked up: {error}.") from error
    return [str(entry[4][0]).partition("%")[0] for entry in found]


def _verify(scheme: str, address: Address) -> ssl.SSLContext | bool:
    return ssl.create_default_context(cafile=address.ca_file or None) if scheme == "https" else False


def _beginning(answer: httpx.Response) -> bytes:
    found = b""
    for chunk in answer.iter_raw():
        found += chunk
        if len(found) >= MOST_BYTES:
            break
    return found[:MOST_BYTES]


def _judge(status: int, body: bytes, host: str) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotSent(f"{host} answers with a redirect ({status}): set the address that it points to.", for_good=True)
    said = " ".join(body.decode(errors="replace").split())[:SHOWN_CHARS]
    raise NotSent(f"{host} answers {status}{f': {said}' if said else ''}.", for_good=status == GONE)
