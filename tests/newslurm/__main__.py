"""`python -m tests.newslurm`: the contract of Slurm's back ends, and their own tests, against a newer real Slurm.

    python -m tests.newslurm            build what is missing, then run, on Slurm 26.05
    python -m tests.newslurm build      only build: about 100 s alone on two cores, once
    python -m tests.newslurm enter CMD  run a command inside
    python -m tests.newslurm --release 24.11 …  the same on another release of recipe.py

Each half of the suite on each back end has a cluster of its own, and all run side by side: clusters are mostly waited
for.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.newslurm import host, recipe
from tests.newslurm.chroot import BuildError, Chroot
from tests.slurm.back_ends import ONLY

TIMEOUT_S = 600
HALVES = ("test_contract.py", "test_contract_*.py")
_CLOSING = re.compile(r"^=* ?.*\b(\d+) passed.* in [\d.]+s.*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    name: str
    release: str
    process: subprocess.Popen[bytes]
    log: Path

    def verdict(self) -> tuple[bool, str]:
        """Whether all of it passed, and nothing was skipped; what to show."""
        output = self.log.read_text(encoding="utf-8", errors="replace")
        closing = [match[0] for match in _CLOSING.finditer(output)]
        good = self.process.returncode == 0 and bool(closing) and "skipped" not in closing[-1]
        return (
            good,
            f"{self.name}: {closing[-1].strip('= ')}" if good else f"{self.name} on Slurm {self.release}:\n{output}",
        )


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception: what was started is ended then
    edition, order = chosen(arguments)
    chroot = Chroot(host.cache_folder(edition), edition)
    obstacle = host.obstacle(edition, built=chroot.is_complete())
    if obstacle:
        return leave_out(edition, obstacle)
    if not chroot.is_complete():
        print(f"Building a chroot with {what_is_in(edition)} in {chroot.folder}: minutes, once.", flush=True)
    chroot.build()
    if order[:1] == ["build"]:
        return 0
    release = chroot.slurm_release()
    if not release.startswith(f"{edition.release}."):
        words = f"Debian {edition.suite} has Slurm {release} by now, and the suite is written for {edition.release}"
        return leave_out(edition, host.Obstacle(words=words, for_good=True))
    with chroot.in_use():
        if order[:1] == ["enter"]:
            return subprocess.run(chroot.command(*order[1:]), env=variables(edition), check=False).returncode
        return run_all(chroot, release)


def chosen(arguments: list[str]) -> tuple[recipe.Edition, list[str]]:
    """The edition that is meant, and what is to be done with it."""
    if arguments[:1] != ["--release"]:
        return recipe.EDITIONS[0], arguments
    found = {edition.release: edition for edition in recipe.EDITIONS}
    if not arguments[1:] or arguments[1] not in found:
        sys.exit(f"--release takes one of {', '.join(found)}")
    return found[arguments[1]], arguments[2:]


def what_is_in(edition: recipe.Edition) -> str:
    return f"Slurm {edition.release}{' and pyslurm' if edition.pyslurm else ''}"


def leave_out(edition: recipe.Edition, obstacle: host.Obstacle) -> int:
    """One line on why, as the other suites have it. In CI that is a failure, unless this suite can't be had here."""
    beside = ", with pyslurm" if edition.pyslurm else ""
    print(f"Left out: newslurm (the back ends on Slurm {edition.release}{beside}): {obstacle.words}")
    return int(os.environ.get("CI", "").lower() == "true" and not obstacle.for_good)


def run_all(chroot: Chroot, release: str) -> int:
    started = time.monotonic()
    runs: list[Run] = []
    try:
        older = [f"rest-{version}" for version in chroot.edition.rest_versions]
        back_ends = ("cli", "rest-jwt", *older, *(("native",) if chroot.edition.pyslurm else ()))
        runs += [start(chroot, name, half) for name in back_ends for half in HALVES]
        for run in runs:
            run.process.wait(max(1.0, started + TIMEOUT_S - time.monotonic()))
    except subprocess.TimeoutExpired:
        print(f"Not done within {TIMEOUT_S} s.")
    finally:
        for run in runs:
            if run.process.poll() is None:
                run.process.kill()
                run.process.wait()
    verdicts = [run.verdict() for run in runs]
    for _, words in verdicts:
        print(words)
    print(f"The back ends on Slurm {release}: {time.monotonic() - started:.0f} s")
    return int(not all(good for good, _ in verdicts))


def start(chroot: Chroot, name: str, half: str) -> Run:
    log = chroot.folder / f"run-{name}-{HALVES.index(half) + 1}.log"
    modules = sorted(str(file.relative_to(recipe.TREE)) for file in recipe.TREE.glob(f"tests/slurm/{half}"))
    options = ("-p", "no:cacheprovider", "-q", "--durations=8", "--nomigrations", "-m", "slurm")
    pytest = (recipe.PYTHON, "-m", "pytest", *options, *modules)
    with log.open("wb") as output:
        process = subprocess.Popen(
            chroot.command(*pytest),
            env=variables(chroot.edition) | {ONLY: name},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return Run(name=f"{name}, {half}", release=chroot.edition.release, process=process, log=log)


def variables(edition: recipe.Edition) -> dict[str, str]:
    pyslurm = {"RECOVERY_TEST_PYSLURM": recipe.PYSLURM_PYTHON} if edition.pyslurm else {}
    return Chroot.env(
        **pyslurm,
        RECOVERY_TEST_REST_VERSIONS=" ".join(edition.rest_versions),
        CI="true",  # what can't run inside is a failure
        LD_LIBRARY_PATH=recipe.OLD_LIBRARIES,
        RECOVERY_TEST_PORT="17000",  # each has a loopback interface of its own
        RECOVERY_TEST_SLURMD_TIMEOUT_S="60",  # ten clusters share the machine, and none of these tests silences a node
        RECOVERY_DATA_DIR="/tmp/recovery",
        HYPOTHESIS_STORAGE_DIRECTORY="/tmp/hypothesis",
    )


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except BuildError as error:
        sys.exit(str(error))
