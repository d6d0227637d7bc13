"""Run the crash points of every scenario and print what was tried and what went wrong, as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="try every Nth point, and all around calls")
    parser.add_argument("scenario", nargs="*", help="default: all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        set_up(folder)
        from tests.torture import crash  # noqa: PLC0415 - the settings must be known first

        reports = [
            crash.run(name, Path(folder) / name, every=options.every) for name in options.scenario or crash.SCENARIOS
        ]
    print(json.dumps([report.as_json() for report in reports], indent=2))
    return int(any(report.failed for report in reports))


def set_up(folder: str) -> None:
    """Django on a database of its own, whatever the environment says; each process of a trial then takes its own."""
    os.environ.pop("DATABASE_URL_FILE", None)
    os.environ.update(
        DJANGO_SETTINGS_MODULE="recovery.settings",
        RECOVERY_DATA_DIR=folder,
        DATABASE_URL=f"sqlite:///{folder}/none.sqlite3",
        RECOVERY_LOG_LEVEL="ERROR",
    )
    import django  # noqa: PLC0415 - as above

    django.setup()


if __name__ == "__main__":
    sys.exit(main())
