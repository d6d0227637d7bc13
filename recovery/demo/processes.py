"""Processes that outlive whoever started them: told apart by pid and start time, stopped by pid.

A pid alone is not an identity, since the system hands numbers out again; a pid with its start time is one. A pid file
holds both, so that a later start can stop what an earlier one left behind when it was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessId:
    """`born` is the start time as the system words it: clock ticks since boot on Linux, a date elsewhere."""

    pid: int
    born: str

    def is_alive(self) -> bool:
        """False as well where another process got the number meanwhile, or where only a zombie is left."""
        return _born(self.pid) == self.born


def identify(pid: int) -> ProcessId | None:
    """The identity of a running process, or None where there is none of this number."""
    born = _born(pid)
    return ProcessId(pid, born) if born else None


def write_pid_file(path: Path, process: ProcessId) -> None:
    """Whole or not at all: a reader never sees half of it."""
    draft = path.with_suffix(".new")
    draft.write_text(f"{process.pid} {process.born}\n", encoding="ascii")
    draft.replace(path)


def read_pid_file(path: Path) -> ProcessId | None:
    """None where the file is missing or isn't one of ours."""
    try:
        pid, _, born = path.read_text(encoding="ascii").strip().partition(" ")
        return ProcessId(int(pid), born) if born else None
    except (OSError, ValueError):
        return None


def stop_groups(processes: Iterable[ProcessId], *, grace_s: float) -> list[ProcessId]:
    """End these leaders of process groups with all that is in their groups: SIGTERM, after `grace_s` SIGKILL.

    Returns the ones that had to be killed. Returns only when all of them are gone.
    """
    asked = [process for process in processes if _signal_group(process, signal.SIGTERM)]
    wait_until(lambda: not any(process.is_alive() for process in asked), timeout_s=grace_s)
    killed = [process for process in asked if _signal_group(process, signal.SIGKILL)]
    wait_until(lambda: not any(process.is_alive() for process in killed), timeout_s=5)
    return killed


def wait_until(condition: Callable[[], bool], *, timeout_s: float, every_s: float = 0.05) -> bool:
    """Whether the condition came true in time; it is asked at least once."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every_s)
    return True


def _signal_group(process: ProcessId, number: signal.Signals) -> bool:
    """Whether there was something to signal. Only a verified leader's group is touched."""
    if not process.is_alive():
        return False
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _born(pid: int) -> str:
    """When the process was started; "" where it is gone or a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if not Path("/proc/self/stat").exists():
        return _born_by_ps(pid)
    try:
        # Field 2 is the name in brackets and may hold anything; the fields from 3 on follow the last bracket (proc(5)).
        fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]


def _born_by_ps(pid: int) -> str:
    """The same where there is no /proc (macOS, the BSDs)."""
    answer = subprocess.run(
        ["ps", "-o", "state=", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, born = answer.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else " ".join(born.split())
