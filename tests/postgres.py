"""Run a Python command line on a PostgreSQL of its own: `python -m tests.postgres -m pytest tests/api`."""

from __future__ import annotations

import os
import subprocess
import sys

from tests import daemons, left_out, needs


def main(arguments: list[str]) -> int:
    """The exit code of the command; without PostgreSQL 0, or 1 with CI=true."""
    if why := needs.missing("postgres"):
        print(f"Left out: the run on PostgreSQL: {why}")
        return 1 if left_out.in_ci() else 0
    with daemons.short_folder(daemons.postgres_user()) as folder:
        server, url = daemons.postgres_daemon(folder)
        server.start()
        try:
            return subprocess.run(
                [sys.executable, *arguments], env={**os.environ, "DATABASE_URL": url}, check=False
            ).returncode
        finally:
            server.stop()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
