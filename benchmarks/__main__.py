"""Run the benchmarks and print their figures as JSON. Nothing outside a temporary folder is touched."""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
import tempfile

import django

# on the database of the environment; benchmarks/ledger.py and samples.py ask for it
HERE, SAMPLES_HERE = "ledger-here", "samples-here"
CURVES = "curves"  # rewrites a picture of docs/: only where it is asked for
NAMES = (
    "parsing", "ingest", "samples", "poll", "door", "ledger", "push", "path", "quiet_logs", "ten_thousand",
    "detection", "replay", "lemons",
)  # fmt: skip


def main(wanted: list[str]) -> int:
    unknown = [name for name in wanted if name not in (*NAMES, HERE, SAMPLES_HERE, CURVES)]
    if unknown:
        print(f"There is no benchmark {unknown[0]}: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        set_up(folder, database=os.environ.get("DATABASE_URL") if wanted in ([HERE], [SAMPLES_HERE]) else None)
        # the settings must be known first
        from benchmarks import (  # noqa: PLC0415
            detection,
            door,
            ledger,
            lemons,
            parsing,
            path,
            polling,
            push,
            quiet_logs,
            replay,
            samples,
            storing,
            ten_thousand,
        )  # fmt: skip
        from recovery.celery import settle  # noqa: PLC0415

        every = {
            "parsing": parsing.run, "ingest": storing.ingest, "poll": polling.run, "door": door.run, "push": push.run,
            "ledger": ledger.run, HERE: ledger.measure, "samples": samples.run,
            SAMPLES_HERE: samples.measure, "path": path.run, "quiet_logs": quiet_logs.run,
            "ten_thousand": ten_thousand.run, "detection": detection.run, "replay": replay.run,
            "lemons": lemons.run,
            CURVES: detection.draw_curves,
        }  # fmt: skip
        settle()  # as a worker does at its start
        figures = {name: every[name]() for name in wanted or NAMES}
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}
    print(json.dumps({"on": machine, **figures}, indent=2))
    return 0


def set_up(folder: str, *, database: str | None = None) -> None:
    """A fresh SQLite in the folder, whatever the environment says; or `database`, which must be empty."""
    os.environ.pop("DATABASE_URL_FILE", None)
    os.environ.update(
        DJANGO_SETTINGS_MODULE="recovery.settings",
        RECOVERY_DATA_DIR=folder,
        DATABASE_URL=database or f"sqlite:///{folder}/bench.sqlite3",
        RECOVERY_LOG_LEVEL="ERROR",
        RECOVERY_DEBUG="false",  # else Django keeps a copy of every statement
        RECOVERY_SECRET_KEY=secrets.token_urlsafe(50),
    )
    django.setup()
    from django.core.management import call_command  # noqa: PLC0415 - as above

    call_command("migrate", verbosity=0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
