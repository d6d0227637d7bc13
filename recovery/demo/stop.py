"""Stop what demos and `manage.py dev` left running because they were killed: `python -m recovery.demo.stop var`."""

from __future__ import annotations

import sys
from pathlib import Path

from recovery.demo.lab import SlurmLab
from recovery.demo.slurm_scene import lab_folder
from recovery.demo.supervisor import AlreadyRunning, Supervisor


def main(top: Path) -> int:
    """The exit code: 1 where one is not left over but in use, which is left alone."""
    in_use = 0
    top = top.resolve()  # the lab of a folder is found by its whole path
    for folder in (top, *sorted(path for path in top.glob("*") if path.is_dir())):
        try:
            stop(folder)
        except AlreadyRunning as error:
            print(f"{folder}: {error}", file=sys.stderr)
            in_use = 1
    return in_use


def stop(folder: Path) -> None:
    """Raises AlreadyRunning."""
    if not (folder / "run" / "supervisor.lock").exists():
        return
    with Supervisor(folder) as supervisor:
        stopped = supervisor.leftovers
        lab = lab_folder(folder)
        if (lab / "lab.json").exists():
            SlurmLab.existing(lab).down()
    if stopped:
        print(f"{folder}: stopped {', '.join(stopped)}")


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
