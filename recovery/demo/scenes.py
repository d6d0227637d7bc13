"""The two stages of the demo: a simulated cluster, and a real Slurm on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """How the desk reaches the cluster of a scene; `words` tells the person what is there."""

    name: str
    backend: str
    options: Mapping[str, object]
    words: str


class Scene(Protocol):
    def up(self, say: Callable[[str], None]) -> Stage: ...

    def down(self) -> None: ...
