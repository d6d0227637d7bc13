"""Keeps a handful of programs together: all of them run, or none of them does.

For one person at one machine (`manage.py dev` and `demo`); a production site uses its own service manager. Nothing is
restarted: a program that ends by itself ends the rest, with the last lines that it wrote. Whatever an earlier start
left behind, because it was killed, is stopped first.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self

from recovery.demo.processes import (
    ProcessId,
    identify,
    read_pid_file,
    stop_groups,
    wait_until,
    write_pid_file,
)

GRACE_S = 6.0  # the web server gives its open streams 2 s, a worker its task; then they are killed
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """`name` names its log and its pid file; `environment` is added to our own."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    stop_last: bool = False  # the others still need it while they end: a broker


class SupervisorError(Exception):
    """The message is for the person at the terminal."""


class AlreadyRunning(SupervisorError):
    """Another supervisor works in the same folder."""


class ProgramEnded(SupervisorError):
    """A program ended by itself."""


class NotReady(SupervisorError):
    """What was waited for did not come in time."""


class Interrupted(Exception):
    """The person pressed Ctrl-C, or the terminal was closed."""


class Supervisor:
    """Use it as a context manager: entering takes the folder and cleans it up, leaving stops every program.

    `folder` gets run/ (pid files, the lock) and log/ (one file per program, and the one of the start before).
    `follow` is called with program name and line for whatever a program writes; None: it only goes to its log.
    """

    def __init__(
        self, folder: Path, *, grace_s: float = GRACE_S, follow: Callable[[str, str], None] | None = None
    ) -> None:
        self.run_dir = folder / "run"
        self.log_dir = folder / "log"
        self.leftovers: list[str] = []  # names of what an earlier start had left behind
        self._grace_s = grace_s
        self._follow = follow
        self._lock: IO[str] | None = None
        self._running: dict[str, _Running] = {}
        self._handlers: dict[signal.Signals, Any] = {}
        self._asked = 0  # how often we were asked to stop

    def __enter__(self) -> Self:
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        self._handlers = {number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS}
        self._stop_leftovers()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self.stop()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            if self._lock:
                self._lock.close()

    def start(self, program: Program) -> None:
        """Start it in a session of its own: Ctrl-C in the terminal reaches us alone, and we stop it in order."""
        log = self.log_dir / f"{program.name}.log"
        if log.exists():
            log.replace(log.with_suffix(".old.log"))
        with log.open("wb") as output:
            process = subprocess.Popen(
                program.command,
                env={**os.environ, **program.environment},
                cwd=program.cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        identity = identify(process.pid)
        if identity:  # else it has ended already: the next look says so
            write_pid_file(self._pid_file(program.name), identity)
        self._running[program.name] = _Running(program, process, identity, log, log.open("rb"))

    def wait_for(self, condition: Callable[[], bool], *, timeout_s: float, what: str) -> None:
        """Watch the programs until the condition holds.

        Raises ProgramEnded, NotReady (after `timeout_s`), Interrupted.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            self._look()
            if time.monotonic() > deadline:
                raise NotReady(f"Waited {timeout_s:.0f} s for {what}, in vain. The logs are in {self.log_dir}.")
            time.sleep(0.1)

    def run(self, *, between: Callable[[], None] = lambda: None) -> None:
        """Watch the programs until one ends (raises ProgramEnded) or somebody asks to stop (raises Interrupted).

        `between` is called several times a second; what it raises ends the watching as well.
        """
        while True:
            self._look()
            between()
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop every program, the ones marked `stop_last` after all others. A second Ctrl-C kills them at once."""
        for last in (False, True):
            self._stop([running for running in self._running.values() if running.program.stop_last is last])
        self._echo()
        for running in self._running.values():
            running.output.close()
        self._running.clear()

    def pids(self) -> dict[str, int]:
        return {name: running.process.pid for name, running in self._running.items()}

    def tail(self, name: str, lines: int = 20) -> str:
        """The last lines of a program's log, indented."""
        text = (self.log_dir / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (it wrote nothing)"

    def _look(self) -> None:
        self._echo()
        if self._asked:
            raise Interrupted
        for running in self._running.values():
            if running.has_ended():
                self._echo()
                name = running.program.name
                raise ProgramEnded(
                    f"{name} ended ({running.how_it_ended()}), so everything is being stopped. Its last lines:\n"
                    f"{self.tail(name)}\n    (all of it: {running.log})"
                )

    def _echo(self) -> None:
        if self._follow is None:
            return
        for running in self._running.values():
            for line in running.new_lines():
                self._follow(running.program.name, line)

    def _stop(self, running: Sequence[_Running]) -> None:
        for one in running:
            one.ask_to_end()
        asked = self._asked
        wait_until(lambda: all(one.has_ended() for one in running) or self._asked > asked, timeout_s=self._grace_s)
        for one in running:
            one.signal_group(signal.SIGKILL)  # the leader, or what it left behind in its group
            one.process.wait()
            self._pid_file(one.program.name).unlink(missing_ok=True)

    def _stop_leftovers(self) -> None:
        found = {path: process for path in sorted(self.run_dir.glob("*.pid")) if (process := read_pid_file(path))}
        self.leftovers = [path.stem for path, process in found.items() if process.is_alive()]
        stop_groups(found.values(), grace_s=self._grace_s)
        for path in self.run_dir.glob("*.pid"):
            path.unlink()

    def _take_lock(self) -> None:
        """The system drops the lock when we end, however we end."""
        lock = (self.run_dir / "supervisor.lock").open("a+", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            pid = lock.read().strip()
            lock.close()
            raise AlreadyRunning(
                f"It already runs here as process {pid}: press Ctrl-C in its terminal, or `kill {pid}`."
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _pid_file(self, name: str) -> Path:
        return self.run_dir / f"{name}.pid"

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1


@dataclass(slots=True)
class _Running:
    program: Program
    process: subprocess.Popen[bytes]
    identity: ProcessId | None
    log: Path
    output: IO[bytes]
    rest: bytes = b""

    def has_ended(self) -> bool:
        """Looks without reaping: until we reap it, nobody else can get its number, and its group can be signalled."""
        return self.identity is None or not self.identity.is_alive()

    def ask_to_end(self) -> None:
        """The leader alone: a worker ends its pool itself, when the task in hand is done."""
        if self.process.returncode is None:  # not by send_signal(), which would reap it
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGTERM)

    def signal_group(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(
                ProcessLookupError, PermissionError
            ):  # nobody left in it (macOS: or only a zombie)
                os.killpg(self.process.pid, number)

    def how_it_ended(self) -> str:
        self.signal_group(signal.SIGKILL)  # what the leader left behind in its group, before its number is given back
        code = self.process.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def new_lines(self) -> list[str]:
        *lines, self.rest = (self.rest + self.output.read()).split(b"\n")
        return [line.decode("utf-8", "replace").rstrip() for line in lines]
