"""Which trainers are heard in a log, by any line of their own, and what they need for their progress to be seen."""

from __future__ import annotations

from recovery.core.logs.formats import FORMATS
from recovery.core.logs.marks import ITS, Format, Memory

_SPOKE = "spoke"  # in the parser's memory: formats of which any line said something


def hear(memory: Memory, name: str) -> None:
    """Note in a parser's memory that the format `name` said something."""
    spoke: list[str] = memory.setdefault(_SPOKE, [])
    if name not in spoke:
        spoke.append(name)


def advice(memory: Memory) -> str:
    """What would make progress appear, as far as the trainers are known that are heard; else ""."""
    return " ".join(trainer.advice for trainer in _heard(memory) if trainer.advice)


def mute(memory: Memory) -> bool:
    """Whether a trainer is heard that reports its progress nowhere in its log."""
    return any(trainer.mute(memory.get(trainer.name, {})) for trainer in _heard(memory))


def _heard(memory: Memory) -> list[Format]:
    spoke = memory.get(_SPOKE, ())
    return [trainer for trainer in FORMATS if trainer.name in spoke or memory.get(trainer.name, {}).get(ITS)]
