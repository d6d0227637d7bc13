"""What all kinds of channels have in common."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from recovery.core.notices import Message

TIMEOUT_S = 10.0
MOST_BYTES = 64 * 1024  # of an answer: nobody reads more of it
SHOWN_CHARS = 200


class NotSent(Exception):
    """It did not arrive, as a sentence for people. `for_good`: it never will, so that it isn't tried again."""

    def __init__(self, sentence: str, *, for_good: bool = False) -> None:
        super().__init__(sentence)
        self.for_good = for_good


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a channel sends to. `desk`: the address of this desk, for links."""

    target: str
    secret: str = ""
    allow_private: bool = False
    desk: str = ""
    ca_file: str = ""


class Send(Protocol):
    """Sends one message. Raises NotSent."""

    def __call__(self, message: Message, address: Address, *, now: datetime) -> None: ...


def link(message: Message, address: Address) -> str:
    """The page to go to: a plain address, which carries no authority. Without RECOVERY_ADDRESS only its path."""
    return address.desk.rstrip("/") + message.path
