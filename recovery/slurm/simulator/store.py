"""The world on disk: one state file, one lock, and the jobs' files.

`<state_dir>/world.json` holds the state *and* the effects that belong to it; its atomic replacement is the moment at
which an advance happens. Only then are the effects carried out, and `<state_dir>/applied` is made to say so. A
process that is killed

- before the replacement has changed nothing;
- after it has left effects that may be half done: the next one to take the lock does them again, to the same bytes.

So no log line is ever doubled or torn for good, and no reader needs the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recovery.slurm.base import SlurmError, SlurmUnreachable
from recovery.slurm.simulator.codec import decode, encode
from recovery.slurm.simulator.effects import Effect, carry_out
from recovery.slurm.simulator.spec import ClusterSpec
from recovery.slurm.simulator.state import State
from recovery.slurm.simulator.world import World, new_state

FORMAT = 2  # of world.json; another one is refused
LOCK_WAIT_S = 10.0
_LOCK_LOOK_S = 0.005
STORE_EVERY_S = 10.0  # a world in which nothing happens is stored so often, lest it seem that nobody looks


class WorldStore(Protocol):
    """Where a world is kept between two calls."""

    def create(self, spec: ClusterSpec, *, now: float, fill: Callable[[World], None] | None = None) -> bool: ...

    def open(self, now: Callable[[], float], *, reads: bool = False) -> AbstractContextManager[World]: ...


class LiveStore:
    """A world that one process keeps in its memory, for simulations in virtual time: only the jobs' files are written.

    It ends with its process, and a call costs what happened since the last one, whatever the size of the world.
    """

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir.absolute()
        self._world: World | None = None

    def create(self, spec: ClusterSpec, *, now: float, fill: Callable[[World], None] | None = None) -> bool:
        if self._world is not None:
            return False
        world = World(new_state(spec, now=now), root=self.state_dir)
        if fill is not None:
            fill(world)
        carry_out(world.take_effects(), self.state_dir)
        self._world = world
        return True

    @contextmanager
    def open(self, now: Callable[[], float], *, reads: bool = False) -> Iterator[World]:
        if self._world is None:
            raise SlurmUnreachable("the simulated cluster was not made yet", tried="open the simulator")
        self._world.advance(now())
        try:
            yield self._world
        finally:
            carry_out(self._world.take_effects(), self.state_dir)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """A world as this process has it, and the file that says the same."""

    world: World
    serial: int
    stored_at: float
    file: tuple[int, int, int] | None


class Store:
    """The world in a file, for any number of processes. A process keeps what it read until another one stores anew."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir.absolute()
        self._world = self.state_dir / "world.json"
        self._applied = self.state_dir / "applied"
        self._kept: _Kept | None = None

    def exists(self) -> bool:
        return self._world.exists()

    def create(self, spec: ClusterSpec, *, now: float, fill: Callable[[World], None] | None = None) -> bool:
        """Make a new world at `now`, filled by `fill`. False, and nothing changes, where there is one."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        with self._lock():
            if self.exists():
                return False
            world = World(new_state(spec, now=now), root=self.state_dir)
            if fill is not None:
                fill(world)
            self._save(world, serial=1)
            return True

    @contextmanager
    def open(self, now: Callable[[], float], *, reads: bool = False) -> Iterator[World]:
        """The world, advanced to `now`, for one operation; stored when the block ends.

        `now` is asked once the lock is held: who waited for it must not bring an old time. An operation that the
        world refuses (SlurmError) has changed nothing, and the advance before it is stored; after any other exception
        nothing is, and the next call advances anew. One that only `reads` is not stored where nothing has happened
        meanwhile. Raises SlurmUnreachable where there is no world, it can't be read or written, or the lock is not to
        be had within 10 s.
        """
        try:
            with self._lock():
                kept, self._kept = self._load(), None  # kept on only after this call has ended well
                moved = kept.world.advance(now()) or kept.world.state.now - kept.stored_at >= STORE_EVERY_S
                try:
                    yield kept.world
                except SlurmError:
                    self._kept = self._save(kept.world, serial=kept.serial + 1)
                    raise
                self._kept = self._save(kept.world, serial=kept.serial + 1) if moved or not reads else kept
        except OSError as error:
            raise SlurmUnreachable(f"{self.state_dir} can't be used: {error}", tried="open the simulator") from error

    def _save(self, world: World, *, serial: int) -> _Kept:
        """The point of no return is the replacement; everything after it can be done again."""
        effects = world.take_effects()
        document = {"format": FORMAT, "serial": serial, "effects": encode(effects), "state": encode(world.state)}
        new = self._world.with_suffix(".new")
        new.write_text(json.dumps(document, separators=(",", ":")))
        os.replace(new, self._world)  # noqa: PTH105 - the atomic call, by its own name
        self._apply(serial, effects)
        return _Kept(world=world, serial=serial, stored_at=world.state.now, file=self._file())

    def _load(self) -> _Kept:
        if self._kept is not None and self._kept.file == self._file():
            return self._kept
        try:
            stored = json.loads(self._world.read_bytes())
            if stored["format"] != FORMAT:
                raise ValueError(
                    f"it has format {stored['format']}, this release reads {FORMAT}; remove the folder to begin anew"
                )
            state = decode(State, stored["state"])
        except FileNotFoundError as error:
            raise SlurmUnreachable(
                f"there is no simulated cluster in {self.state_dir}", tried="open the simulator"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise SlurmUnreachable(f"{self._world} can't be read: {error}", tried="open the simulator") from error
        serial = int(stored["serial"])
        if self._applied_serial() != serial:
            self._apply(serial, decode(list[Effect], stored["effects"]))
        world = World(state, root=self.state_dir)
        return _Kept(world=world, serial=serial, stored_at=state.now, file=self._file())

    def _file(self) -> tuple[int, int, int] | None:
        """What tells one stored world from the next: each is a file of its own."""
        try:
            found = self._world.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _apply(self, serial: int, effects: list[Effect]) -> None:
        carry_out(effects, self.state_dir)
        self._applied.write_text(str(serial))

    def _applied_serial(self) -> int:
        try:
            return int(self._applied.read_text())
        except (FileNotFoundError, ValueError):  # never written, or its writer was killed: do it again
            return -1

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One process, and one thread of it, at a time; the kernel frees the lock of a killed one."""
        try:
            file = (self.state_dir / "lock").open("w")
        except FileNotFoundError as error:
            raise SlurmUnreachable(f"there is no folder {self.state_dir}", tried="open the simulator") from error
        with file:
            deadline = time.monotonic() + LOCK_WAIT_S
            while not _try_lock(file.fileno()):
                if time.monotonic() >= deadline:
                    raise SlurmUnreachable(
                        f"another process holds {file.name} for more than {LOCK_WAIT_S:g} s", tried="open the simulator"
                    )
                time.sleep(_LOCK_LOOK_S)
            yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
