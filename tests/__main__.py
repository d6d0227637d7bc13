"""`python -m tests`: the whole suite on SQLite and, beside it, what touches the database on PostgreSQL.

Both at once, because real clusters and browsers are mostly waited for. The first is shown as it goes; of the second the
closing line, or everything where it failed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest"]
EVERYTHING = [*PYTEST, "--cov", "--cov-report=term:skip-covered"]
POSTGRES_SUITES = ["tests/pipeline", "tests/api", "tests/dashboard"]
ON_POSTGRES = [
    *(sys.executable, "-m", "tests.postgres", "-m", "pytest", "-p", "no:cacheprovider"),
    *("-m", "not browser and not slurm and not redis", *POSTGRES_SUITES),
]
LOG = Path("var") / "test-postgres.log"


def main() -> int:
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("w", encoding="utf-8") as log:
        beside = subprocess.Popen(ON_POSTGRES, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            first = subprocess.run(EVERYTHING, check=False).returncode
            second = beside.wait()
        finally:
            if beside.poll() is None:  # interrupted: let it stop its server
                beside.send_signal(signal.SIGINT)
                beside.wait(30)
    output = LOG.read_text(encoding="utf-8", errors="replace")
    print(f"\nOn PostgreSQL ({', '.join(POSTGRES_SUITES)}):")
    print(output if second else output.rstrip().rpartition("\n")[2])
    return first or second


if __name__ == "__main__":
    raise SystemExit(main())
