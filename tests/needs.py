"""What of this machine each suite needs, asked of the machine itself. Loaded before Django is set up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from recovery.demo import lab_host

# Daemons live where an ordinary user's PATH often doesn't lead.
DAEMON_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def program(*names: str) -> str | None:
    """The path of the first of these programs that is installed."""
    return next((path for name in names if (path := shutil.which(name, path=DAEMON_PATH))), None)


def postgres_folder() -> Path | None:
    """The folder of PostgreSQL's server programs, the newest version where there are several."""
    found = program("initdb")
    if found:
        return Path(found).resolve().parent  # a link to initdb alone is no folder of programs
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


def browser() -> str | None:
    return program("chromium", "chromium-browser", "google-chrome")


def _slurm() -> str:
    return lab_host.why_impossible(accounting=False)


def _accounting() -> str:
    return lab_host.why_impossible(accounting=True)


def _slurmrestd() -> str:
    return lab_host.why_impossible(accounting=False, rest=True)


def _openssl() -> str:
    return _absent("openssl", remedy="apt-get install openssl")


def _redis() -> str:
    return _absent("redis-server", remedy="apt-get install redis-server")


def _postgres() -> str:
    return "" if postgres_folder() else "PostgreSQL's server programs are not installed: apt-get install postgresql"


def _browser() -> str:
    return "" if browser() else "no Chromium is installed: apt-get install chromium"


def _absent(*names: str, remedy: str) -> str:
    absent = [name for name in names if not program(name)]
    return f"{', '.join(absent)} not installed: {remedy}" if absent else ""


SUITES: dict[str, Callable[[], str]] = {
    "slurm": _slurm,
    "accounting": _accounting,
    "slurmrestd": _slurmrestd,
    "openssl": _openssl,
    "redis": _redis,
    "postgres": _postgres,
    "browser": _browser,
}


@cache
def missing(suite: str) -> str:
    """Why this machine can't run the suite, with the remedy; "" where it can."""
    return SUITES[suite]()
