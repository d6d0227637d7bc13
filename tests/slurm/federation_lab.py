"""A real federation for a module of tests: clusters `fa` and `fb` of two nodes n1 and n2 each, on one slurmdbd.

Both show the whole federation wherever they are not asked for themselves alone (fed_display), and have the same names
of nodes: whatever could be mistaken for the other cluster's is there to be mistaken.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from recovery.demo import lab_host
from recovery.demo.lab import SlurmLab
from recovery.demo.processes import identify, wait_until, write_pid_file
from recovery.slurm.base import SlurmClient
from recovery.slurm.cli import CliClient
from recovery.slurm.registry import client_for
from tests.slurm.lab_fixture import OWNER, PREFIX, end_abandoned_labs
from tests.slurm.rest_harness import local_options

SLEEPS = "#!/bin/sh\nexec sleep 300\n"


@dataclass(frozen=True, slots=True)
class Federation:
    a: SlurmLab
    b: SlurmLab

    def steer_to(self, lab: SlurmLab) -> None:
        """What waits starts on this cluster alone."""
        for each in (self.a, self.b):
            state = "RESUME" if each is lab else "DRAIN"
            if "drain" in "".join(states(each)) if each is lab else "drain" not in "".join(states(each)):
                each.run("scontrol", "update", "NodeName=n1,n2", f"State={state}", "Reason=steered")

    def submit(self, lab: SlurmLab, script: str, work_dir: Path, *options: str, run: str = "llama") -> str:
        comment = f'--comment={{"recovery": {{"run": "{run}"}}}}'
        return lab.submit(script, work_dir=work_dir, options=["--exclusive", "--nodes=1", comment, *options])

    def come_to_rest(self) -> None:
        for lab in (self.a, self.b):
            lab.run("scancel", "--user=root")
            if "drain" in "".join(states(lab)):
                lab.run("scontrol", "update", "NodeName=n1,n2", "State=RESUME")
        assert wait_until(self._is_idle, timeout_s=30), [states(self.a), states(self.b)]

    def _is_idle(self) -> bool:
        return {*states(self.a), *states(self.b)} == {"idle"}


def states(lab: SlurmLab) -> list[str]:
    return lab.run("sinfo", "--local", "-h", "-N", "-o", "%T").split()


def shown(lab: SlurmLab, job_id: str, field: str) -> str:
    """As this cluster's own squeue has it; "" where it has no such job."""
    rows = lab.run("squeue", "--local", "-h", "-t", "all", "-O", f"JobID:0|,{field}:0|").splitlines()
    return next((row.split("|")[1] for row in rows if row.split("|")[0] == job_id), "")


def commands(lab: SlurmLab) -> CliClient:
    return CliClient(**lab.options, timeout_s=20)


def slurmrestd(lab: SlurmLab) -> SlurmClient:
    return client_for("rest", local_options(lab), timeout_s=20)


@pytest.fixture(scope="module")
def two_clusters() -> Iterator[Federation]:
    reason = lab_host.why_impossible(accounting=True, rest=True)
    if reason:
        pytest.skip(reason)
    end_abandoned_labs()
    with labs() as federation:
        yield federation


@contextmanager
def labs() -> Iterator[Federation]:
    folders = [Path(tempfile.mkdtemp(prefix=PREFIX)) for _ in range(2)]
    owner = identify(os.getpid())
    assert owner is not None
    made: list[SlurmLab] = []
    try:
        for name, folder in zip(("fa", "fb"), folders, strict=True):
            folder.chmod(0o755)
            write_pid_file(folder / OWNER, owner)
            lab = SlurmLab(
                folder / "lab", base_port=lab_host.free_base_port(), nodes=2, cluster=name, accounting=True, rest=True,
                accounts_in=str(made[0].root) if made else "", slurmd_timeout_s=10,
            )  # fmt: skip
            lab.up()
            made.append(lab)
        federate(*made)
        yield Federation(*made)
    finally:
        for lab in reversed(made):
            lab.wipe()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def federate(a: SlurmLab, b: SlurmLab) -> None:
    for lab in (a, b):
        lab.kill_controller()
        with lab.conf.open("a") as conf:
            conf.write("FederationParameters=fed_display\n")
        lab.start_controller()
    a.run("sacctmgr", "-i", "add", "federation", "fed", f"clusters={a.spec.cluster},{b.spec.cluster}")
    assert wait_until(lambda: is_joined(a) and is_joined(b), timeout_s=30), a.run("scontrol", "show", "federation")


def is_joined(lab: SlurmLab) -> bool:
    return "Synced:Yes" in lab.run("scontrol", "show", "federation")


@pytest.fixture
def federation(two_clusters: Federation) -> Iterator[Federation]:
    yield two_clusters
    two_clusters.come_to_rest()
