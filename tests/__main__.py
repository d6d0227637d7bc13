"""`python -m tests`: every suite but what is left to `make torture`, in the order that makes the best of two cores.

What needs programs of this machine (real Slurm, Redis, browsers, demos) mostly waits for them: it runs at normal
priority, one suite after the other, tests/e2e (whole sites on a real Slurm and on PostgreSQL) last. Beside it, at low
priority, so that they fill the waits and don't slow down what is timed by others' patience: everything else on SQLite,
in two halves, and what touches the database on PostgreSQL. The first are shown as they go; of the others the closing
line, or everything where they failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

PYTEST = [sys.executable, "-m", "pytest"]
ON_POSTGRES = [sys.executable, "-m", "tests.postgres", "-m", "pytest", "-p", "no:cacheprovider"]
COVERAGE = ["--cov", "--cov-report="]
LOW_PRIORITY = ["nice", "-n", "10"]
PATIENT = ["--timeout=600"]  # whoever gets what the others leave may take several times as long
PURE = ["-p", "no:cacheprovider", "-m", "not machine", *PATIENT]
RULES = ["tests/core", "tests/simulation", "tests/sources", "tests/torture"]
DATABASE_SUITES = ["tests/pipeline", "tests/api", "tests/dashboard"]
LOGS = Path("var")


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    title: str
    command: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)


FOREGROUND = (
    Suite(
        title="What needs this machine's programs",
        command=[*PYTEST, "--ignore=tests/e2e", "-m", "machine", *COVERAGE],
        env={"COVERAGE_FILE": ".coverage.machine"},
    ),
    Suite(title="Whole sites on a real Slurm", command=[*ON_POSTGRES, "-m", "not torture", "tests/e2e"]),
)
BESIDE = (
    Suite(
        title="Rules, simulations and sources",
        command=[*LOW_PRIORITY, *PYTEST, *PURE, *COVERAGE, *RULES],
        env={"COVERAGE_FILE": ".coverage.rules"},
    ),
    Suite(
        title="Everything else, on SQLite",
        command=[*LOW_PRIORITY, *PYTEST, *PURE, *COVERAGE, *[f"--ignore={folder}" for folder in RULES]],
        env={"COVERAGE_FILE": ".coverage.sqlite"},
    ),
    Suite(
        title="On PostgreSQL", command=[*LOW_PRIORITY, *ON_POSTGRES, "-m", "not machine", *PATIENT, *DATABASE_SUITES]
    ),
)


def main() -> int:
    codes = side_by_side()
    subprocess.run([sys.executable, "-m", "coverage", "combine", "--quiet"], check=False)
    subprocess.run([sys.executable, "-m", "coverage", "report"], check=False)
    return next((code for code in codes if code), 0)


def side_by_side() -> list[int]:
    LOGS.mkdir(exist_ok=True)
    with ExitStack() as stack:
        logs = [stack.enter_context((LOGS / f"test-{number}.log").open("w+b")) for number in range(len(BESIDE))]
        started = [_start(suite, log) for suite, log in zip(BESIDE, logs, strict=True)]
        try:
            codes = [_run(suite) for suite in FOREGROUND]
            beside = [process.wait() for process in started]
        finally:
            _interrupt(started)
        for suite, code, log in zip(BESIDE, beside, logs, strict=True):
            _show(suite, code, log)
    return codes + beside


def _run(suite: Suite) -> int:
    print(f"\n{suite.title}:", flush=True)
    return subprocess.run(suite.command, env=os.environ | suite.env, check=False).returncode


def _start(suite: Suite, log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        suite.command, env=os.environ | suite.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
    )


def _interrupt(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Whoever is left (we were interrupted ourselves) gets the time to stop its servers."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def _show(suite: Suite, code: int, log: IO[bytes]) -> None:
    """The closing lines of a suite (its last line, and what it left out), or everything where it failed."""
    log.seek(0)
    output = log.read().decode(errors="replace")
    lines = output.rstrip().splitlines()
    closing = next((n for n in range(len(lines) - 1, -1, -1) if lines[n].startswith("=")), 0)
    print(f"\n{suite.title}:\n{output if code else chr(10).join(lines[closing:])}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
