"""One real Slurm for the whole test session: four nodes with eight counted GPUs each, on two switches, with accounting
where it can be.

RECOVERY_LAB_SLURM makes it of another Slurm than the host's (recovery/demo/lab.py). RECOVERY_TEST_PORT gives it a fixed
base port; otherwise it looks for a free range. After RECOVERY_TEST_SLURMD_TIMEOUT_S (3) a silent node is lost. A
session that was killed leaves its lab behind: the next one ends it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from recovery.demo import lab_host
from recovery.demo.lab import SlurmLab
from recovery.demo.lab_conf import LabError
from recovery.demo.processes import identify, read_pid_file, write_pid_file
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
        rest=not lab_host.why_impossible(accounting=False, rest=True),
        gpus_per_node=8,
        nodes_per_switch=2,
        slurmd_timeout_s=int(os.environ.get("RECOVERY_TEST_SLURMD_TIMEOUT_S") or 3),
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
    return CliClient(**slurm_lab.options, timeout_s=20)


def end_abandoned_labs() -> None:
    """Those whose session is gone. A folder that says of no session yet belongs to one that is just starting."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = read_pid_file(folder / OWNER)
        if folder.stat().st_uid != os.geteuid() or owner is None or owner.is_alive():
            continue
        with suppress(LabError):  # it may never have come as far as to have a lab
            SlurmLab.existing(folder / "lab").wipe()
        shutil.rmtree(folder, ignore_errors=True)
