"""POST of a JSON body to an address that a person typed in: nowhere else, not within the site unless allowed.

The name is looked up once, every address that it has is judged, and the connection goes to one that was judged: a name
that answers differently a moment later leads nowhere. No redirect, no proxy.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from recovery.core.notices import one_line
from recovery.http_deadline import whole_within
from recovery.notify.base import MOST_BYTES, SHOWN_CHARS, TIMEOUT_S, Address, NotSent

PORTS = {"http": 80, "https": 443}
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
IN_USE = ipaddress.IPv6Network("2000::/3")  # all that is given out of IPv6; beyond it lie older forms of one's own site
# Where clouds tell machines their secrets beside the link-local addresses: Amazon, Google, Alibaba, Azure, Oracle.
SECRETS = frozenset(
    ipaddress.ip_address(text)
    for text in ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")
)
GONE = 410  # the receiver's word that it never wants to hear of us again


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """An address to post to, taken apart. `host` is ASCII."""

    scheme: str
    host: str
    port: int
    rest: str  # path and query: whoever knows them may often post there, so nobody is shown them

    @property
    def named(self) -> str:
        """As the Host header has it."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def shown(self) -> str:
        return f"{self.scheme}://{self.named}" + ("/…" if self.rest != "/" else "")


def target_of(text: str) -> Target:
    """Raises NotSent with a sentence that says what to give instead."""
    if not text.isprintable() or any(char.isspace() for char in text) or "\\" in text:
        raise NotSent("The address holds characters that no address has.", for_good=True)
    try:
        parts = urlsplit(text)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode() if ":" not in (parts.hostname or "") else parts.hostname
    except ValueError as error:  # UnicodeError too: a name that can't be one
        raise NotSent("The address has no host or port that can be: https://HOST:PORT/PATH.", for_good=True) from error
    if parts.scheme not in PORTS or not host:
        raise NotSent("The address must begin with https:// or http://.", for_good=True)
    if "@" in parts.netloc:
        raise NotSent("The address must not hold a user and a password: nothing would send them.", for_good=True)
    if port == 0:
        raise NotSent("The address has port 0, which nobody listens at.", for_good=True)
    rest = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme=parts.scheme, host=host, port=port or PORTS[parts.scheme], rest=rest)


def refusal(text: str, *, allow_private: bool) -> str:
    """Why nothing would ever be sent there, as far as its name leads today; "" where nothing is known against it."""
    try:
        target = target_of(text)
        _judged(target.host, target.port, allow_private=allow_private)
    except NotSent as problem:
        return str(problem) if problem.for_good else ""  # a name that nobody knows yet is told when it is sent to
    return ""


def post(address: Address, body: bytes, *, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
    """Send it; any answer of the 2xx kind is an arrival. Raises NotSent."""
    target = target_of(address.target)
    host, ip = target.host, _judged(target.host, target.port, allow_private=address.allow_private)
    literal = f"[{ip}]" if ":" in ip else ip
    url = f"{target.scheme}://{literal}:{target.port}{target.rest}"
    headers = {"Content-Type": "application/json", **headers, "Host": target.named}
    try:
        with (
            whole_within(timeout_s) as extensions,
            httpx.Client(verify=_verify(target.scheme, address), timeout=timeout_s, trust_env=False) as client,
            client.stream(
                "POST", url, content=body, headers=headers, follow_redirects=False,
                extensions={**extensions, "sni_hostname": host},
            ) as answer,
        ):  # fmt: skip
            _judge(answer.status_code, _beginning(answer), target)
    except httpx.TimeoutException:
        raise NotSent(f"{host} did not answer within {timeout_s:g} s.") from None
    except httpx.HTTPError as error:
        raise NotSent(f"{host} can't be reached: {str(error)[:SHOWN_CHARS] or type(error).__name__}.") from error
    except OSError as error:  # the site's own certificates can't be read, say
        raise NotSent(f"Nothing was sent to {host}: {error.strerror or type(error).__name__}.") from error


def _judged(host: str, port: int, *, allow_private: bool) -> str:
    """An address of the host, when all of them may be posted to."""
    addresses = _addresses(host, port)
    inside = [each for each in addresses if not _is_outside(each)]
    if inside and not allow_private:
        raise NotSent(
            f"{host} is at {inside[0]}, an address within the site. Allow private addresses for this channel if it is "
            "meant to be.",
            for_good=True,
        )
    if secret := next((each for each in addresses if _tells_secrets(each)), None):
        raise NotSent(f"{host} is at {secret}: machines tell their own secrets there. Never posted to.", for_good=True)
    return addresses[0]


def _is_outside(text: str) -> bool:
    ip = _real(text)
    used = isinstance(ip, ipaddress.IPv4Address) or ip in IN_USE
    return used and ip.is_global and not ip.is_multicast


def _tells_secrets(text: str) -> bool:
    ip = _real(text)
    return ip.is_link_local or ip in SECRETS


def _real(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address that an IPv6 one stands for: mapped, by way of 6to4, or by NAT64's prefix (RFC 6052)."""
    ip = ipaddress.ip_address(text)
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    by_nat = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in NAT64 else None
    return ip.ipv4_mapped or ip.sixtofour or by_nat or ip


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


def _judge(status: int, body: bytes, target: Target) -> None:
    host = target.host
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotSent(f"{host} answers with a redirect ({status}): set the address that it points to.", for_good=True)
    said = " ".join(body.decode(errors="replace").split())
    for secret in (target.rest, target.rest.partition("?")[0]):  # many say what can't be found
        said = said.replace(secret, "/…") if len(secret) > 1 else said
    said = one_line(said, most=SHOWN_CHARS)
    raise NotSent(f"{host} answers {status}{f': {said}' if said else ''}.", for_good=status == GONE)
