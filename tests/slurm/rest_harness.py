"""slurmrestd under the contract suite: on its socket, over TCP with JWT, and with the commands beside it.

The lab's own commands tell what is true, so that slurmrestd does not vouch for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from recovery.demo.lab import SlurmLab
from recovery.slurm.base import SlurmClient
from recovery.slurm.registry import client_for
from tests.slurm.back_ends import BackEnd
from tests.slurm.harness import Harness
from tests.slurm.lab_harness import LabHarness


def local_options(lab: SlurmLab) -> dict[str, str]:
    """rest_auth/local: the socket's own user, no token. Over TCP where the release can't run as root."""
    socket, _ = lab.rest_urls
    return {"url": socket} if Path(socket.removeprefix("unix:")).exists() else jwt_options(lab)


def jwt_options(lab: SlurmLab) -> dict[str, str]:
    """As Slinky is reached: http to a port, a token of `scontrol token`, nothing else."""
    return {"url": lab.rest_urls[1], "slurm_conf": str(lab.conf)}


def together_options(lab: SlurmLab) -> dict[str, str]:
    return local_options(lab) | {"acts_by": "cli", "slurm_conf": str(lab.conf)}


def client(options: Mapping[str, str]) -> SlurmClient:
    return client_for("rest", options, timeout_s=20)


def lab_of(request: pytest.FixtureRequest) -> SlurmLab:
    """The session's lab, for tests marked slurmrestd."""
    lab: SlurmLab = request.getfixturevalue("slurm_lab")
    return lab


def _local(request: pytest.FixtureRequest, folder: Path) -> Harness:
    lab = lab_of(request)
    return LabHarness(lab, client(local_options(lab)), folder)


def _jwt(request: pytest.FixtureRequest, folder: Path) -> Harness:
    lab = lab_of(request)
    return LabHarness(lab, client(jwt_options(lab)), folder)


def _together(request: pytest.FixtureRequest, folder: Path) -> Harness:
    lab = lab_of(request)
    return LabHarness(lab, client(together_options(lab)), folder)


BACK_ENDS = [
    BackEnd(
        name=name,
        open=open_,
        marks=(pytest.mark.slurm, pytest.mark.slurmrestd),
        accounting_marks=(pytest.mark.accounting,),
    )
    for name, open_ in (("rest-jwt", _jwt), ("rest-local", _local), ("rest-together", _together))
]
