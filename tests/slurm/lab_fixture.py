"""One real Slurm for the whole test session: four nodes with eight counted GPUs each, with accounting where it can be.

RECOVERY_TEST_PORT gives it a fixed base port; otherwise it looks for a free range. A session that was killed leaves its
lab behind: the next one ends it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recovery.demo import lab_host
from recovery.demo.lab import SlurmLab
from recovery.demo.lab_conf import LabError
from recovery.demo.processes import identify, read_pid_file, wait_until, write_pid_file
from recovery.slurm.cli import CliClient

PREFIX = "recovery-lab-"
OWNER = "session.pid"


@pytest.fixture(scope="session")
def slurm_lab() -> Iterator[SlurmLab]:
    """The lab, up. Mark the test `slurm` (and `accounting` where it needs that). Leave its nodes as you found them."""
    reason = lab_host.why_impossible(accounting=False)
    if reason:
        pytest.skip(reason)
    end_abandoned_labs()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    folder.chmod(0o755)  # jobs of other users reach munge's socket below
    owner = identify(os.getpid())
    assert owner is not None
    write_pid_file(folder / OWNER, owner)
    lab = SlurmLab(
        folder / "lab",
        base_port=int(os.environ.get("RECOVERY_TEST_PORT") or lab_host.free_base_port()),
        accounting=not lab_host.why_impossible(accounting=True),
        gpus_per_node=8,
    )
    try:
        lab.up()
        yield lab
    finally:
        lab.wipe()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def slurm_client(slurm_lab: SlurmLab) -> CliClient:
    """The product's own client on the lab."""
    return CliClient(slurm_conf=str(slurm_lab.conf), bin_dir="", timeout_s=20)


def end_abandoned_labs() -> None:
    """Those whose session is gone. A folder that says of no session yet belongs to one that is just starting."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = read_pid_file(folder / OWNER)
        if folder.stat().st_uid != os.geteuid() or owner is None or owner.is_alive():
            continue
        with suppress(LabError):  # it may never have come as far as to have a lab
            SlurmLab.existing(folder / "lab").wipe()
        shutil.rmtree(folder, ignore_errors=True)


class LabHarness:
    """The contract suite's harness over a real lab. Its time is real time."""

    user = "root"

    def __init__(self, lab: SlurmLab, client: CliClient, folder: Path) -> None:
        self._lab = lab
        self._folder = folder
        self._jobs: list[str] = []
        self.client = client

    def submit(
        self,
        *,
        seconds: float,
        nodes: int = 1,
        exit_code: int = 0,
        requeue: bool = True,
        name: str = "train",
        comment: str = "",
        stdout: str = "",
    ) -> str:
        options = [f"--nodes={nodes}", "--exclusive", f"--job-name={name}", f"--comment={comment}"]
        options += ["--requeue" if requeue else "--no-requeue", *([f"--output={stdout}"] if stdout else [])]
        script = f"#!/bin/sh\nsleep {seconds}\nexit {exit_code}\n"
        job_id = self._lab.submit(script, work_dir=self._folder, options=options)
        self._jobs.append(job_id)
        return job_id

    def cancel(self, job_id: str) -> None:
        self._lab.run("scancel", job_id)

    def fail_node(self, name: str) -> None:
        self._lab.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=power supply")

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def close(self) -> None:
        if self._jobs:
            self._lab.run("scancel", *self._jobs)
        for node in self.client.nodes():
            if node.raw_state.startswith("DOWN"):
                self._lab.run("scontrol", "update", f"NodeName={node.name}", "State=RESUME")
        assert wait_until(self._is_quiet, timeout_s=30), "the lab does not come to rest"

    def _is_quiet(self) -> bool:
        states = set(self._lab.run("sinfo", "-h", "-N", "-o", "%T").split())
        queue = self._lab.run("squeue", "-h", "-o", "%A", "-t", "all", "-j", ",".join(self._jobs)) if self._jobs else ""
        active = self._lab.run("squeue", "-h", "-o", "%A").split()
        return states == {"idle"} and not set(active) & set(queue.split())
