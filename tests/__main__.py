"""`python -m tests`: every suite but what is left to `make torture`, all side by side.

What needs programs of this machine (real Slurm, Redis, browsers, demos) mostly waits for them, each suite for its own;
what only computes fills those waits at low priority. The first is shown as it goes; of the others the closing lines, or
everything where they failed. With --coverage all but the runs on PostgreSQL also tell which lines they reached: that
takes twice the time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SLOWEST = "--durations=25"  # what to make faster first stands at the end of each log below var/
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", SLOWEST]
ON_POSTGRES = [sys.executable, "-m", "tests.postgres", "-m", "pytest", "-p", "no:cacheprovider", SLOWEST]
PATIENT = ["--timeout=600"]  # whoever gets what the others leave may take several times as long
MACHINE, PURE = ["-m", "machine and not torture", *PATIENT], ["-m", "not machine and not torture", *PATIENT]
BOTH = ["-m", "not machine and not torture and not one_database", *PATIENT]  # what proves more on a second database
RULES = ["tests/core", "tests/simulation", "tests/sources", "tests/torture"]
DATABASE_SUITES = [
    f"tests/{name}" for name in ("access", "api", "audit", "dashboard", "notify", "pipeline", "policies", "storage")
]
LOGS = Path("var")


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    title: str
    command: Sequence[str]
    nice: int = 10


def ignoring(*folders: str) -> list[str]:
    return [f"--ignore={folder}" for folder in folders]


SUITES = (
    # whole sites are timed by others' patience: they come first
    Suite(title="Whole sites on a real Slurm", command=[*ON_POSTGRES, "-m", "not torture", "tests/e2e"], nice=0),
    Suite(title="Back ends on a real Slurm", command=[*PYTEST, *MACHINE, "tests/slurm"], nice=5),
    Suite(
        title="Demos, browsers and other programs",
        command=[*PYTEST, *MACHINE, *ignoring("tests/e2e", "tests/slurm")],
        nice=5,
    ),
    Suite(title="Rules, simulations and sources", command=[*PYTEST, *PURE, *RULES]),
    Suite(title="The path, on SQLite", command=[*PYTEST, *PURE, "tests/pipeline"]),
    Suite(title="Everything else, on SQLite", command=[*PYTEST, *PURE, *ignoring(*RULES, "tests/pipeline")]),
    Suite(title="On PostgreSQL", command=[*ON_POSTGRES, *BOTH, *DATABASE_SUITES]),
)


def main(arguments: Sequence[str]) -> int:
    covered = "--coverage" in arguments
    codes = side_by_side(covered=covered)
    if covered:
        subprocess.run([sys.executable, "-m", "coverage", "combine", "--quiet"], check=False)
        subprocess.run([sys.executable, "-m", "coverage", "report"], check=False)
    return next((code for code in codes if code), 0)


def side_by_side(*, covered: bool) -> list[int]:
    LOGS.mkdir(exist_ok=True)
    with ExitStack() as stack:
        logs = [stack.enter_context((LOGS / f"test-{number}.log").open("w+b")) for number in range(len(SUITES))]
        outputs = [None, *logs[1:]]
        print(f"{SUITES[0].title}:", flush=True)
        started = [_start(number, suite, outputs[number], covered=covered) for number, suite in enumerate(SUITES)]
        try:
            codes = [process.wait() for process in started]
        finally:
            _interrupt(started)
        for suite, code, log in zip(SUITES[1:], codes[1:], logs[1:], strict=True):
            _show(suite, code, log)
    return codes


def _start(number: int, suite: Suite, output: IO[bytes] | None, *, covered: bool) -> subprocess.Popen[bytes]:
    coverage = ["--cov", "--cov-report="] if covered and suite.command[: len(PYTEST)] == PYTEST else []
    # Hundreds of processes are started: what one has compiled, no other compiles again.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.Popen(
        ["nice", "-n", str(suite.nice), *suite.command, *coverage],
        env={**env, "COVERAGE_FILE": f".coverage.{number}"},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
    )


def _interrupt(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Whoever is left (we were interrupted ourselves) gets the time to stop its servers."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    for process in processes:
        process.wait(30)


def _show(suite: Suite, code: int, log: IO[bytes]) -> None:
    """The closing lines of a suite (its last line, and what it left out), or everything where it failed."""
    log.seek(0)
    output = log.read().decode(errors="replace")
    lines = output.rstrip().splitlines()
    closing = next((n for n in range(len(lines) - 1, -1, -1) if lines[n].startswith("=")), 0)
    print(f"\n{suite.title}:\n{output if code else chr(10).join(lines[closing:])}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
