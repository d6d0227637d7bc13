"""The two scenes of the demo: a simulated cluster, and a real Slurm on this machine."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from recovery.slurm.simulator.demo import NODES, seed_demo


class SceneError(Exception):
    """The scene can't be set here; the message is for the person at the terminal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """How the desk reaches the cluster of a scene. `name` is the cluster's; `hint` is for whoever wants to try more."""

    name: str
    backend: str
    options: Mapping[str, object]
    hint: str = ""


class Scene(Protocol):
    """`up` returns when there is a cluster to look at, `down` when nothing of it runs any more. Data stays.

    `go_on` is called several times a second in between. Both `up` and `go_on` may raise SceneError.
    """

    def up(self, say: Callable[[str], None]) -> Stage: ...

    def go_on(self) -> None: ...

    def down(self) -> None: ...


class Simulated:
    """A cluster that lives in a folder and goes on whenever somebody looks at it: nothing runs for it."""

    def __init__(self, folder: Path) -> None:
        self._state_dir = folder / "cluster"

    def up(self, say: Callable[[str], None]) -> Stage:
        seed_demo(self._state_dir, datetime.now(UTC), seed=secrets.randbelow(1_000_000))
        say(f"simulated, {NODES} nodes")
        return Stage(name="demo", backend="simulator", options={"state_dir": str(self._state_dir)})

    def go_on(self) -> None:
        """It does so by itself."""

    def down(self) -> None:
        """Nothing to stop."""
