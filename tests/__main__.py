"""`python -m tests`: every suite.

1. Everything but tests/e2e on SQLite and, beside it, what touches the database on PostgreSQL: both at once, because
   clusters and browsers are mostly waited for. The first is shown as it goes; of the second the closing line, or
   everything where it failed.
2. tests/e2e, whole sites on a real Slurm, alone on the machine and on PostgreSQL.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest"]
ON_POSTGRES = [sys.executable, "-m", "tests.postgres", "-m", "pytest", "-p", "no:cacheprovider"]
EVERYTHING = [*PYTEST, "--ignore=tests/e2e", "--cov", "--cov-report=term:skip-covered"]
DATABASE_SUITES = ["tests/pipeline", "tests/api", "tests/dashboard"]
BESIDE = [*ON_POSTGRES, "-m", "not browser and not slurm and not redis", *DATABASE_SUITES]
SITES = [*ON_POSTGRES, "tests/e2e"]
LOG = Path("var") / "test-postgres.log"


def main() -> int:
    codes = side_by_side()
    codes.append(subprocess.run(SITES, check=False).returncode)
    return next((code for code in codes if code), 0)


def side_by_side() -> list[int]:
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("w", encoding="utf-8") as log:
        beside = subprocess.Popen(BESIDE, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            first = subprocess.run(EVERYTHING, check=False).returncode
            second = beside.wait()
        finally:
            if beside.poll() is None:  # interrupted: let it stop its server
                beside.send_signal(signal.SIGINT)
                beside.wait(30)
    output = LOG.read_text(encoding="utf-8", errors="replace")
    print(f"\nOn PostgreSQL ({', '.join(DATABASE_SUITES)}):")
    print(output if second else output.rstrip().rpartition("\n")[2])
    print("\nWhole sites on a real Slurm (tests/e2e):", flush=True)
    return [first, second]


if __name__ == "__main__":
    raise SystemExit(main())
