"""The environment in which the demo's programs run: quick, in a folder of its own, apart from everything else."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path

# Whoever waits at a screen wants seconds where a real cluster takes minutes; see docs/operations.md for each.
QUICK = {
    "RECOVERY_TICK_S": "1",
    "RECOVERY_SETTLE_S": "3",
    "RECOVERY_STALE_AFTER_S": "30",
    "RECOVERY_HANG_FLOOR_S": "20",
    "RECOVERY_HANG_FIRST_STEP_S": "60",
    "RECOVERY_HANG_SAVING_S": "40",
}
POLL_INTERVAL_S = 2.0
SHELL = "environment"  # a file of the demo's folder
MARK = "RECOVERY_DEMO_FOLDER"  # set in the environment that this module made


def environment(folder: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """What of the product's settings is set outside, such as a production database, never reaches the demo."""
    kept = {name: value for name, value in inherited.items() if not is_ours(name)}
    key = folder / "secret-key"
    folder.mkdir(parents=True, exist_ok=True)
    if not key.exists():
        with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(50))
    ours = {"RECOVERY_DATA_DIR": str(folder), "RECOVERY_SECRET_KEY_FILE": str(key), MARK: str(folder)}
    return kept | QUICK | ours


def for_a_shell(folder: Path, *, broker_url: str) -> Path:
    """Write the file that gives a shell the settings of this process, for the commands of docs/ beside a demo."""
    ours = {name: value for name, value in sorted(os.environ.items()) if is_ours(name) and name != MARK}
    ours |= {"REDIS_URL": broker_url} if broker_url else {}
    path = folder / SHELL
    path.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in ours.items()), encoding="utf-8")
    return path


def is_ours(name: str) -> bool:
    return name.startswith(("RECOVERY_", "DATABASE_URL", "REDIS_URL"))
