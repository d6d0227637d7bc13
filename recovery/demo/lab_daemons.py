"""Daemons that are found again however the process that started them ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from recovery.demo.lab_conf import LabError
from recovery.demo.processes import ProcessId, read_pid_file, wait_until

# Writes "PID STARTTIME" of the process that is about to become the daemon, then becomes it: there is no moment at which
# a daemon runs that its pid file does not name. $1 is the pid file, the rest the command. Field 20 counts from the
# third field of /proc/PID/stat, which follows the last bracket (proc(5): start time is field 22).
_LAUNCH = """
file=$1; shift; stat=$(cat /proc/$$/stat)
born=$(set -- ${stat##*) }; echo "${20}")
echo "$$ $born" >"$file.new" && mv "$file.new" "$file" && exec "$@"
"""


class Daemons:
    """Named daemons of one folder: run/NAME.pid says which process each is, log/NAME.out holds what it writes."""

    def __init__(self, root: Path) -> None:
        self._run = root / "run"
        self._log = root / "log"

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._run.glob("*.pid"))

    def running(self, name: str) -> ProcessId | None:
        process = read_pid_file(self._pid_file(name))
        return process if process is not None and process.is_alive() else None

    def any_running(self) -> bool:
        return any(self.running(name) for name in self.names())

    def start(self, name: str, argv: list[str], *, env: Mapping[str, str]) -> None:
        """Start it in a session of its own; nothing where it already runs."""
        if self.running(name):
            return
        pid_file = self._pid_file(name)
        pid_file.unlink(missing_ok=True)
        with self.output(name).open("ab") as log:
            subprocess.run(
                ["setsid", "--fork", "sh", "-c", _LAUNCH, "sh", str(pid_file), *argv],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                timeout=10,
            )
        if not wait_until(pid_file.exists, timeout_s=10):
            raise LabError(f"{name} could not be started: see {self.output(name)}.")

    def stop(self, *names: str, grace_s: float) -> None:
        """SIGTERM to all of them, SIGKILL to what is left after `grace_s`; returns when they are gone."""
        processes = {name: process for name in names if (process := self.running(name))}
        for process in processes.values():
            os.kill(process.pid, signal.SIGTERM)
        wait_until(lambda: not any(p.is_alive() for p in processes.values()), timeout_s=grace_s)
        for name in names:
            self.kill(name)
            self._pid_file(name).unlink(missing_ok=True)

    def kill(self, name: str) -> bool:
        """SIGKILL; whether there was something to kill."""
        process = self.running(name)
        if process is None:
            return False
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: not process.is_alive(), timeout_s=5)
        self._pid_file(name).unlink(missing_ok=True)
        return True

    def output(self, name: str) -> Path:
        return self._log / f"{name}.out"

    def _pid_file(self, name: str) -> Path:
        return self._run / f"{name}.pid"
