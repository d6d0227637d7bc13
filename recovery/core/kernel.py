"""Lines of a node's kernel log: which of them tell of a fault, when, and on which node. Pure, linear, never raises.

Understood are syslog as rsyslog writes it ("Jan 11 09:20:41 gpu-02 kernel: …", or with an ISO time), journalctl's
short-iso and short-iso-precise, `dmesg -T` ("[Sun Jan 11 09:20:41 2026] …") and lines without a time where somebody
else tells it (Loki).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from zoneinfo import ZoneInfo

from recovery.core.diagnose.catalogue import match_event

SHOWN_CHARS = 300
MOST_CHARS = 4096
_MONTHS = {
    name: number + 1
    for number, name in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
}  # fmt: skip
_CLOCK = r"(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})"
_SYSLOG = re.compile(r"(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>[0-9]{1,2}) " + _CLOCK + r" (?P<host>[^\s]{1,255}) ")
_ISO = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T" + _CLOCK + r"(?:[.,][0-9]{1,9})?"
    r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})? (?P<host>[^\s]{1,255}) "
)
_DMESG = re.compile(
    r"\[[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>[0-9]{1,2}) " + _CLOCK + r" (?P<year>[0-9]{4})\] "
)
_PRIORITY = re.compile(r"<[0-9]{1,3}>")
_TAG = re.compile(r"kernel: (?:\[ {0,12}[0-9]{1,12}\.[0-9]{6}\] )?|\[ {0,12}[0-9]{1,12}\.[0-9]{6}\] ")
_MARKS = ("NVRM", "Xid", "nvidia", "mlx", "EDAC", "Out of memory", "I/O error", "soft lockup", "Hardware Error", "LNet")


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelLine:
    at: datetime  # in UTC
    node: str  # "" where the line names none
    text: str  # what the kernel said, without time, host and control characters

    def key(self, node: str) -> str:
        """The same line has the same key, whichever way it came."""
        told = f"{node}\0{self.at.replace(microsecond=0).isoformat()}\0{self.text}"
        return blake2b(told.encode("utf-8", "replace"), digest_size=16).hexdigest()


def read_line(text: str, *, now: datetime, zone: ZoneInfo, at: datetime | None = None) -> KernelLine | None:
    """What a line says that the failure catalogue knows; None for any other, and for one whose time is not known.

    zone: of times that carry none. at: the line's time where somebody else tells it.
    """
    if not any(mark in text[:MOST_CHARS] for mark in _MARKS) and not match_event(text[:MOST_CHARS]):
        return None
    text = "".join(char if char.isprintable() else " " for char in text[:MOST_CHARS]).strip()
    text = _PRIORITY.sub("", text, count=1) if text.startswith("<") else text
    for pattern in (_ISO, _SYSLOG, _DMESG):
        if found := pattern.match(text):
            told = _moment(found, now=now, zone=zone)
            host = found.groupdict().get("host") or ""
            rest = text[found.end() :]
            break
    else:
        told, host, rest = at, "", text
    said = _TAG.sub("", rest, count=1)[:SHOWN_CHARS]
    if told is None or not match_event(said):
        return None
    return KernelLine(at=min(at or told, now), node=host.partition(".")[0], text=said)


def _moment(found: re.Match[str], *, now: datetime, zone: ZoneInfo) -> datetime | None:
    parts = found.groupdict()
    try:
        if parts.get("date"):
            return _iso(f"{parts['date']}T{parts['clock']}", parts.get("zone"), zone)
        month, day = _MONTHS[parts["month"]], int(parts["day"])
        year = int(parts.get("year") or now.astimezone(zone).year)
        at = datetime.fromisoformat(f"{year:04}-{month:02}-{day:02}T{parts['clock']}").replace(tzinfo=zone)
        if not parts.get("year") and at > now + timedelta(days=1):  # syslog tells no year: this was the one before
            at = at.replace(year=year - 1)
        return at.astimezone(UTC)
    except (ValueError, KeyError, OverflowError):
        return None


def _iso(text: str, offset: str | None, zone: ZoneInfo) -> datetime:
    at = datetime.fromisoformat(text + (offset or ""))
    return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
