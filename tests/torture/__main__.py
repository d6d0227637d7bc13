"""Run the crash points of every action and print what was tried and what went wrong, as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from recovery.demo.lab import SlurmLab

if TYPE_CHECKING:
    from tests.torture.crash import Report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="try every Nth stage, and all around calls")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="so many at a time")
    parser.add_argument("--lab", type=Path, metavar="FOLDER", help="on the real Slurm of this lab, around calls only")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="with --lab: only so many points of each")
    parser.add_argument("scenario", nargs="*", help="default: all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        Path(folder).chmod(0o755)
        set_up(folder)
        reports = [report.as_json() for report in _reports(options, Path(folder))]
    print(json.dumps(reports, indent=2))
    return int(any(report["failed"] for report in reports))


def _reports(options: argparse.Namespace, folder: Path) -> Iterator[Report]:
    """One after the other, each said as it comes."""
    from tests.torture import crash, desks, real, scenarios  # noqa: PLC0415 - the settings must be known first

    names, processes = options.scenario or list(scenarios.SCENARIOS), options.processes
    if options.lab:
        lab = SlurmLab.existing(options.lab)
        found = iter(
            real.run([n for n in names if n != "nothing"], folder, lab, processes=processes, most=options.most)
        )
    else:
        crash.make_templates(folder, desks.SIM_RHYTHM)
        found = (crash.run(name, folder / name, every=options.every, processes=processes) for name in names)
    for report in found:
        print(report.in_words(), file=sys.stderr, flush=True)
        yield report


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
