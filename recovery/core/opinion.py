"""What an external diagnostic service says of a failure: evidence beside our verdict, never instead.

Nothing that proposes, decides or acts reads an opinion, so it can never raise what the product does by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from recovery.core.types import Restart

PROVIDER_KINDS = ("http", "nvrx")  # words of RECOVERY_PROVIDER; recovery/providers/ has a module for each
MOST_NODES = 64
CLASS_CHARS, NODE_CHARS, REASON_CHARS = 60, 100, 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderSettings:
    """As the environment gives them; recovery/env.py checks them at the start."""

    kind: str  # of PROVIDER_KINDS
    url: str
    timeout_s: float = 30.0
    per_hour: int = 20
    token_file: str = ""
    ca_file: str = ""


class ProviderMode(StrEnum):
    """Whose rules verdicts rest on now. Keys of PROVIDER_WORDS in words.py."""

    OFF = "off"  # none is set up
    WAITING = "waiting"  # set up; it was not asked yet
    GOOD = "good"  # its last answer was good
    DEGRADED = "degraded"  # set up, and it fails, refuses us, or its budget is used up


@dataclass(frozen=True, kw_only=True, slots=True)
class Opinion:
    """Bounded and printable, whatever the service sent."""

    failure_class: str = ""  # in the service's own words, which may be ours; "" where it names none
    restart: str = ""  # "yes" or "no"; "" where it does not say
    nodes: tuple[str, ...] = ()
    confidence: float | None = None  # 0 to 1
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a service is told of a failed job."""

    job_id: str = ""
    user: str = ""
    name: str = ""
    cluster: str = ""
    state: str = ""
    exit_code: int | None = None
    restart_count: int = 0
    nodes: tuple[str, ...] = ()
    log_path: str = ""  # "" where the job writes none that is known
    log_tail: str = ""  # its last lines; only for a service that is sent text


def printable(text: object, limit: int) -> str:
    """`text` as people may see it: one line, no control characters, at most `limit` characters."""
    found = "".join(char if char.isprintable() else " " for char in str(text)[: 4 * limit])
    return " ".join(found.split())[:limit]


def same_restart(opinion: str, ours: str) -> bool | None:
    """Whether both would restart the job, or neither; None where the service did not say."""
    if opinion not in ("yes", "no"):
        return None
    return (opinion == "yes") == (ours in (Restart.YES, Restart.ONCE))


def same_class(opinion: str, ours: str) -> bool | None:
    """None where the service named no class."""
    return opinion == ours if opinion else None
